"""Dump and restore in DynamoDB: everything out, everything in, as it is."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.core.cursor import Cursor, Page, cursor_at, place_at
from oncue.core.dumped import DumpedJob, key_taken
from oncue.core.lifecycle import FINAL
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving
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
        stored = 0
        for dumped in jobs:
            stored += self._admit(dumped)
        self._news.tell()
        return stored

    def _admit(self, dumped: DumpedJob) -> int:
        record = dumped.as_record()
        now = self.clock.now()
        self._register([record.queue], now)
        known = self.read([record.id]).get(record.id)
        if known is not None and not known.is_gone(now):
            return 0
        dead = None
        if record.key is not None and record.state not in FINAL:
            name, holder = self._holders([(record.queue, record.key)]).get(
                (record.queue, record.key), (None, None)
            )
            if holder is not None:
                raise key_taken(dumped.job)
            dead = name
        job = Filed(record, ver=0 if known is None else known.ver)
        done = self.save([Saving(job, takes_key_from=dead)], now)
        return int(done == [True]) or self._admit(dumped)


def _is_dumped(job: Filed, now: int) -> bool:
    """Remembered ids are dumped if a client chose them."""
    return not job.is_gone(now) and (not job.record.hidden or job.record.digest is not None)
