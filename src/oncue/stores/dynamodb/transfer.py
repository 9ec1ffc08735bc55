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
from oncue.stores.dynamodb.queues import DynamoQueues
from oncue.stores.dynamodb.writes import Item


class DynamoTransfer(DynamoQueues):
    """Implements the jobs' side of `oncue.ports.transfer.TransferStore`."""

    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        start = None if after is None else Key(*map(str, place_at(after, (str, str))))
        items, end = self.table.scan(start, limit)
        jobs = self._exported(items)
        return Page(jobs, None if end is None else cursor_at(end))

    def _exported(self, items: Sequence[Item]) -> list[DumpedJob]:
        """Jobs among items of the table: records, and plain jobs that have none."""
        records = {
            item["pk"][2:]: item
            for item in items
            if item["pk"].startswith("i#") and item["sk"] == keys.HEAD
        }
        plain = {
            keys.read_place(item["sk"]).id: item
            for item in items
            if item["pk"].startswith("w#") and "rec" in item
        }
        known = self.table.read(keys.job(job_id) for job_id in plain)
        plain = {job_id: item for job_id, item in plain.items() if keys.job(job_id) not in known}
        jobs = self.parse(plain | records)
        now = self.clock.now()
        return [DumpedJob.of(job.record) for job in jobs.values() if _is_dumped(job, now)]

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
