"""Live claims in DynamoDB, found by the index.

An entry says when a claim must be looked at. Heartbeats leave it where it is, so it may be early:
who looks reads the record, and moves the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.lifecycle import LIVE
from oncue.core.record import Record
from oncue.ports.claims import ClaimFilter, ClaimPage
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving, what_was
from oncue.stores.dynamodb.keys import LAST, LOOK_SHARDS
from oncue.stores.dynamodb.lines import DynamoLines

LIVE_LOOKS = [keys.live(number) for number in range(LOOK_SHARDS)]
AT_ONCE = 500
"""Live jobs that are read together when all of them are walked through."""


class DynamoLive(DynamoLines):
    def live_claims(self, wanted: ClaimFilter, after: Cursor | None, limit: int) -> ClaimPage:
        if wanted.job_id is not None:
            jobs = self.read([wanted.job_id], what_was).values()
            return ClaimPage([one.record.as_lapse() for one in jobs if wanted.fits(one.record)])
        start = "" if after is None else keys.by_due(*place_at(after, (int, str)))  # type: ignore[arg-type]
        upto = LAST if wanted.lapsed_by is None else keys.digits(wanted.lapsed_by) + LAST
        entries = self.table.first_entries(LIVE_LOOKS, start, upto, limit)
        live = self._read_live(entries)
        last = entries[-1] if len(entries) == limit else LAST
        found = [job.record for job in live if wanted.fits(job.record)]
        if wanted.lapsed_by is not None:
            self._move_early(live)
            found = sorted((one for one in found if _at(one) <= last), key=_at)
        end = cursor_at(keys.read_by_due(last)) if len(entries) == limit else None
        return ClaimPage([record.as_lapse() for record in found], end)

    def live_count(self) -> int | None:
        return None

    def _read_live(self, entries: Iterable[str]) -> list[Filed]:
        """The jobs behind entries, as far as they are live."""
        jobs = self.read_records((keys.read_by_due(at)[1] for at in entries), what_was)
        return [job for job in jobs.values() if job.record.state in LIVE]

    def _move_early(self, jobs: Sequence[Filed]) -> None:
        """Move the entries that are earlier than their claims lapse."""
        early = [job for job in jobs if job.look is not None and job.look.at < _at(job.record)]
        for job in early:
            job.look = None
        self.save([Saving(job) for job in early], self.clock.now())

    def _live_jobs(self) -> Iterator[Filed]:
        """All live jobs."""
        above = ""
        while True:
            entries = self.table.first_entries(LIVE_LOOKS, above, LAST, AT_ONCE)
            yield from self._read_live(entries)
            if len(entries) < AT_ONCE:
                return
            above = entries[-1]


def _at(record: Record) -> str:
    lapses_at = keys.NEVER if record.lapses_at is None else record.lapses_at
    return keys.by_due(lapses_at, record.id)
