"""Dump and restore in DynamoDB: everything out, everything in, as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core.cursor import Cursor, Page, cursor_at, place_at
from oncue.core.dumped import DumpedJob, key_taken
from oncue.core.lifecycle import FINAL
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving
from oncue.stores.dynamodb.jobs import MOST_RACES, names_of, rounds, too_many_races
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.lines import give_up
from oncue.stores.dynamodb.queues import DynamoQueues
from oncue.stores.dynamodb.writes import Item

RECORDS = "records"
"""In a cursor of an export: its second part."""


class DynamoTransfer(DynamoQueues):
    """Implements the jobs' side of `oncue.ports.transfer.TransferStore`."""

    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        """First the plain jobs, line by line, then all records: a job that gets its record
        meanwhile is in one of them at least."""
        part, *place = ("", "", "") if after is None else place_at(after, (str, str, str))
        start = Key(*map(str, place))
        if part != RECORDS:
            return self._plain_jobs(start, limit)
        items, end = self.table.scan(start if start.pk else None, limit)
        records = {
            item["pk"][2:]: item
            for item in items
            if item["pk"].startswith("i#") and item["sk"] == keys.HEAD
        }
        return Page(self._dumped_jobs(records), None if end is None else cursor_at((RECORDS, *end)))

    def _plain_jobs(self, start: Key, limit: int) -> Page[DumpedJob]:
        lines = sorted(pk for known in self._all_queues() for pk in known.lines() if pk >= start.pk)
        if not lines:
            return Page([], cursor_at((RECORDS, "", "")))
        above = start.sk if lines[0] == start.pk else ""
        items = list(self.table.query(lines[0], above, limit=limit))
        follows = ("", lines[1], "") if len(lines) > 1 else (RECORDS, "", "")
        plain = {keys.read_place(item["sk"]).id: item for item in items if "rec" in item}
        known = self.table.read(keys.job(job_id) for job_id in plain)
        jobs = {job_id: item for job_id, item in plain.items() if keys.job(job_id) not in known}
        goes_on = ("", lines[0], items[-1]["sk"]) if len(items) == limit else follows
        return Page(self._dumped_jobs(jobs), cursor_at(goes_on))

    def _dumped_jobs(self, items: Mapping[str, Item]) -> list[DumpedJob]:
        """One of which a part is missing has failed: what is left of it is not handed over."""
        now = self.clock.now()
        jobs = [job for job in self.parse(items).values() if _is_dumped(job, now)]
        for job in jobs:
            if job.is_torn and job.record.state not in FINAL:
                give_up(job.record, self._known([job.record.queue])[job.record.queue].queue, now)
        return [DumpedJob.of(job.record) for job in jobs if _is_dumped(job, now)]

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        """Jobs with the same id or key are stored one after the other, all others together."""
        stored = 0
        for part in rounds(dict(enumerate(jobs)), lambda one: names_of(one.job)):
            stored += self._admit(list(part.values()))
        self._news.tell()
        return stored

    def _admit(self, jobs: Sequence[DumpedJob]) -> int:
        now, stored, left = self.clock.now(), 0, list(jobs)
        self._register({dumped.job.queue for dumped in jobs}, now)
        for _ in range(MOST_RACES):
            known = self.read(dumped.job.id for dumped in left)
            left = [
                one for one in left if one.job.id not in known or known[one.job.id].is_gone(now)
            ]
            if not left:
                return stored
            savings = self._admissions(left, known)
            done = self.save(savings, now)
            stored += sum(done)
            left = [one for one, was in zip(left, done, strict=True) if not was]
        raise too_many_races()

    def _admissions(self, jobs: Sequence[DumpedJob], known: Mapping[str, Filed]) -> list[Saving]:
        """The jobs as new ones, in place of records whose time is over."""
        wanted = {
            one.job.id: (one.job.queue, one.job.key)
            for one in jobs
            if one.job.key is not None and one.job.state not in FINAL
        }
        holders = self._holders(wanted.values())
        savings = []
        for dumped in jobs:
            dead, holder = holders.get(wanted.get(dumped.job.id, ("", "")), (None, None))
            if holder is not None:
                raise key_taken(dumped.job)
            old = known.get(dumped.job.id)
            job = Filed(dumped.as_record(), ver=0 if old is None else old.ver)
            savings.append(Saving(job, takes_key_from=dead))
        return savings


def _is_dumped(job: Filed, now: int) -> bool:
    """Remembered ids are dumped if a client chose them."""
    return not job.is_gone(now) and (not job.record.hidden or job.record.digest is not None)
