"""Many jobs that a worker has taken together in SQLite, claimed by one record.

A batch handler takes thousands of jobs, and they are settled by one call. Until then, the range of
their queue stands for all of their claims, and their rows are unchanged. This cannot be seen from
outside: code that reads or writes such a job (a listing, a heartbeat, a failure, a cancel) splits
the range first. That gives each job the claim that it would have had if the jobs had been claimed
one by one. The range is also split at the end of its lease, and before a claim if another job has
come into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from oncue.core.errors import StoreError
from oncue.core.fencing import Completions, Settlement
from oncue.core.moment import Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.lines import Through

SQL = rows.load("worker_ranges")
OPEN = rows.load("ranges")["open"]
OF_NO_WORKER: Mapping[str, None] = {"nonce": None, "ns": None, "jobs_digest": None}
"""Parameters of `ranges.sql: open` for a dispatcher."""
HIDE = rows.load("claims")["hide"]
LEAST = 100  # jobs; fewer are claimed one by one
MOST = 10_000  # jobs; other claims of the queue walk through the range
TRIES = 10  # of a read: after each split, another process may take the next batch before it


class WholeRange(NamedTuple):
    """A range that is settled by its worker: all its jobs by one call."""

    queue: str
    worker: str
    claimed_at: Moment
    ns: str
    jobs_digest: bytes


def open_range(
    tx: rows.Tx,
    ns: Sequence[int],
    ids: Sequence[str],
    epoch: int,
    through: Through,
    terms: Mapping[str, Any],
) -> None:
    """Claim these jobs: all jobs of their queue that are due up to a place and have not expired. No
    range of the queue is open. `terms`: the other parameters of `ranges.sql: open`."""
    jobs = {"ns": rows.to_json(ns), "jobs_digest": _digest(ids, epoch), "in_flight": len(ns)}
    tx.execute(OPEN, {**terms, **through._asdict(), **jobs})


def split(tx: rows.Tx, which: str, params: Mapping[str, Any]) -> bool:
    """Split the ranges of workers that a statement finds. Whether there were some."""
    found = rows.fetch(tx, SQL[which], params)
    for queue, *_ in found:
        tx.execute(SQL["split"], {"queue": queue})
    return bool(found)


def have_others_come(tx: rows.Tx, queue: str) -> bool:
    """Whether other jobs have come into the range of a worker in this queue."""
    return rows.first(tx, SQL["joined"], {"queue": queue}) is not None


@contextmanager
def reading(
    db: Database, which: str = "of_queue", *, to_show: bool = False, **params: Any
) -> Iterator[rows.Tx]:
    """A connection for reading. The ranges of workers that a statement finds are split before.
    `to_show`: if nothing can be written now, jobs are read as they are, without workers and leases.
    """
    for _ in range(TRIES):
        with db.reading() as tx:
            if rows.first(tx, SQL[which], params) is None:
                yield tx
                return
        try:
            db.write(lambda tx: split(tx, which, params))
        except StoreError:
            if not to_show:
                raise
            break
    with db.reading() as tx:
        yield tx


def next_lapse(tx: rows.Tx) -> Moment | None:
    found: Moment | None = rows.first(tx, SQL["next_lapse"])[0]
    return found


def completed_digest(settlements: Sequence[Settlement]) -> bytes | None:
    """The digest of jobs that a worker completes together, in the order in which they were claimed.
    None: they cannot be all jobs of a range."""
    if not isinstance(settlements, Completions) or len(settlements) < LEAST:
        return None
    epochs = set(settlements.epochs)
    return _digest(settlements.ids, epochs.pop()) if len(epochs) == 1 else None


def whole_range(tx: rows.Tx, settlements: Sequence[Settlement]) -> WholeRange | None:
    """The range whose jobs are all completed by these settlements, if there is one."""
    digest = completed_digest(settlements)
    found = digest and rows.first(tx, SQL["of_jobs"], {"jobs_digest": digest})
    return WholeRange._make(found) if found else None


def complete(tx: rows.Tx, whole: WholeRange, now: Moment, *, keep: bool) -> None:
    """Complete all jobs of a range. Their rows are as they were before the claim: any other write
    would have split the range. Without `keep` they are removed; one whose id was chosen by a client
    is hidden."""
    ns = msgspec.json.decode(whole.ns, type=list[int])
    params = {**whole._asdict(), "ns": rows.numbers(ns), "now": now}
    if keep:
        tx.execute(SQL["complete"], params)
    else:
        tx.execute(SQL["complete_gone"], params)
        if tx.changes() < len(ns):
            tx.execute(SQL["complete"], params)
            tx.execute(HIDE, params)
    tx.execute(SQL["close"], params)


def _digest(ids: Sequence[str], epoch: int) -> bytes:
    return blake2b(f"{epoch}:{' '.join(ids)}".encode(), digest_size=16).digest()
