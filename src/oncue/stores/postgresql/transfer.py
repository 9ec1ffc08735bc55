"""Dump and restore in PostgreSQL: all jobs out, all jobs in, as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from psycopg import errors

from oncue.core.cursor import Cursor, Page
from oncue.core.dumped import DumpedJob, key_taken
from oncue.core.ids import REMEMBERED_MS
from oncue.core.lifecycle import FINAL, State
from oncue.core.moment import from_datetime
from oncue.core.record import Record
from oncue.core.shard import shard_of
from oncue.stores.postgresql.jobs import PgJobs
from oncue.stores.postgresql.records import (
    COLUMNS,
    FiledRow,
    holders_of_keys,
    read_operation,
    read_stored,
    row_of,
)
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.rows import BATCH_BYTES

_COLUMNS = tuple(name for name in COLUMNS if name != "covered")
_OPERATION = (
    *("job_ids", "names", "seqs", "states"),
    *("updated", "percents", "messages", "results"),
)


class PgTransfer(PgJobs):
    """Implements the jobs' side of `oncue.ports.transfer.TransferStore`."""

    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        params = {"after": after or "", "limit": limit, "room": BATCH_BYTES}
        with self.db.reading() as tx:  # one snapshot for jobs and their operations
            found = tx.rows("transfer", "export", params)
            records = {row[0]: read_stored(row[:-1]).record for row in found}
            # Only an attempt leaves operations, and of a hidden job they are gone.
            ids = [one.id for one in records.values() if one.attempt and not one.hidden]
            for job_id, *row in tx.rows("jobs", "operations_of", {"ids": ids}) if ids else ():
                operation = read_operation(row)
                records[job_id].operations[operation.name] = operation
        total = found[0][-1] if found else 0
        goes_on = total == limit or total > len(found)
        return Page(list(map(DumpedJob.of, records.values())), found[-1][0] if goes_on else None)

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        """All of them or, if one is refused, none."""
        return self.db.write(partial(self._admit, jobs)) if jobs else 0

    def _admit(self, jobs: Sequence[DumpedJob], tx: PgTx) -> int:
        new = _new_jobs(tx, jobs)
        if not new:
            return 0
        self._keep_queues(tx, {record.queue for record in new})
        spread = {record.queue: self._shards_of(record.queue) for record in new}
        rows = [_admitted(one, shard_of(one.id, spread[one.queue])) for one in new]
        try:
            found = tx.rows("transfer", "admit", _as_columns(rows))
        except errors.UniqueViolation:  # somebody has taken a key since it was looked for
            raise errors.SerializationFailure from None  # look again
        stored = {row[0] for row in found}
        there = [record for record in new if record.id in stored]
        _store_operations(tx, there)
        for record in there:
            if record.state is State.SCHEDULED:
                self._announce_waiting(tx, record)
        return len(there)


def _new_jobs(tx: PgTx, jobs: Sequence[DumpedJob]) -> list[Record]:
    """Those whose id is not there. Refuses one whose key another unfinished job has, also one that
    comes before it."""
    ids = {row[0] for row in tx.rows("transfer", "known", {"ids": [one.job.id for one in jobs]})}
    held = set(tx.follow(holders_of_keys([key for one in jobs if (key := _key_of(one))])))
    new: list[Record] = []
    for dumped in jobs:
        job = dumped.job
        if job.id in ids:
            continue
        ids.add(job.id)
        if key := _key_of(dumped):
            if key in held:
                raise key_taken(job)
            held.add(key)
        new.append(dumped.as_record())
    return new


def _key_of(dumped: DumpedJob) -> tuple[str, str] | None:
    """Queue and key of an unfinished job."""
    job = dumped.job
    return None if job.key is None or job.state in FINAL else (job.queue, job.key)


def _admitted(record: Record, shard: int) -> dict[str, Any]:
    """The columns of a new row, by name. An id that is only remembered is remembered for a day."""
    ended = record.updated_at if record.finished_at is None else record.finished_at
    stored = FiledRow(record, shard, ended + REMEMBERED_MS if record.hidden else None)
    row = row_of(stored) | {"payload": record.payload}
    return {name: row[name] for name in _COLUMNS}


def _as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _store_operations(tx: PgTx, records: Sequence[Record]) -> None:
    rows = [
        (
            *(record.id, one.name, seq, one.state, from_datetime(one.updated_at)),
            *(one.percent, one.message, one.result),
        )
        for record in records
        for seq, one in enumerate(record.operations.values())
    ]
    if rows:
        columns = map(list, zip(*rows, strict=True))
        tx.run("transfer", "admit_operations", dict(zip(_OPERATION, columns, strict=True)))
