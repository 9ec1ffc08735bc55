"""The settings of queues as this process last read them, and when to read them again."""

from __future__ import annotations

from typing import Any, NamedTuple

from oncue.core.queue import Queue, default_queue
from oncue.core.rate import Bucket, Limits
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.queue_settings import read_queue

READ_AGAIN_SECONDS = 60.0
"""A standby that took over may have lost changes, and have counted as many others since."""


class QueueRow(NamedTuple):
    """A queue as its row has it."""

    queue: Queue
    bucket: Bucket | None

    @property
    def limits(self) -> Limits:
        one = self.queue
        return Limits(one.paused, one.concurrency, one.rate_per_second, self.bucket)


class KnownSettings:
    """Settings for callers that need not be exact, without a look at the database. Replaced as a
    whole: any thread may read it."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._read: tuple[Any, float, list[Queue]] = (None, 0.0, [])

    def queue(self, name: str) -> Queue:
        return self._queues.get(name) or default_queue(name)

    def put(self, queue: Queue) -> None:
        self._queues = {**self._queues, queue.name: queue}

    def all_of(self, mark: tuple[int, int], at: float) -> list[Queue] | None:
        """All queues, if they are known as of this mark at that time; None: read them."""
        known, read_at, queues = self._read
        return list(queues) if known == mark and at - read_at < READ_AGAIN_SECONDS else None

    def learn(self, queues: list[Queue], mark: tuple[int, int], at: float) -> None:
        """These are all as of this mark, and were read after that time."""
        self._queues = {queue.name: queue for queue in queues}
        self._read = mark, at, list(queues)


def rows_of(tx: PgTx, names: list[str], *, lock: bool = False) -> dict[str, QueueRow]:
    """These queues, where they are there; locked in the order of their names."""
    found = tx.rows("queues", "lock_named" if lock else "named", {"names": names})
    return {row[0]: queue_row(*row) for row in found}


def queue_row(name: str, settings: str, paused: bool, turns: Any, filled_at: Any) -> QueueRow:
    bucket = None if turns is None else Bucket(turns, filled_at)
    return QueueRow(read_queue(name, settings, paused), bucket)
