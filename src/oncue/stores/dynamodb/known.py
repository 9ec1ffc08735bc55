"""Queues as the table has them: their settings, and over how many shards their jobs are spread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from oncue.core.ids import queue_digest
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.core.shard import shard_of
from oncue.ports.clock import Clock
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, reader, to_text
from oncue.stores.dynamodb.writes import Item

DEFAULT_SHARDS = 4
CHANGING_HANDS_MS = 30_000
"""For so long after its first dispatcher came, there may be claims of workers on their way that do
not know of it: a request is tried again for ten seconds, and clocks differ."""
REMEMBERED_SECONDS = 10.0
LONG_AGO: Moment = 0
"""Stands for the moment of a deletion after which the queue was looked at for the last time."""
_read = reader(Queue)


@dataclass(frozen=True, slots=True)
class KnownQueue:
    """One queue of the table."""

    queue: Queue
    spreads: tuple[int, ...]
    """Every number of shards that it ever had, the present one last: jobs stay where they were
    put."""
    ver: int = 0
    """0: the table does not have it."""
    deleted_at: Moment | None = None
    pulled: bool = False
    """Whether a worker ever claimed from it while it had no dispatcher."""
    ranges_from: Moment | None = None
    """When a dispatcher first took jobs of it by a range claim. For a moment, there may still be
    claims of workers on their way that do not know of it."""

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def exists(self) -> bool:
        return self.ver > 0 and self.deleted_at is None

    @property
    def ranges(self) -> bool:
        """Whether it has, or had, dispatchers."""
        return self.ranges_from is not None

    def is_changing_hands(self, now: Moment) -> bool:
        """Whether a worker may be about to take a job without a look at the ranges."""
        began = self.ranges_from
        return self.pulled and began is not None and now < began + CHANGING_HANDS_MS

    def for_ranges(self, now: Moment) -> KnownQueue:
        return self if self.ranges else replace(self, ranges_from=now)

    def for_workers(self, now: Moment) -> KnownQueue:
        return self if self.ranges else replace(self, pulled=True)

    @property
    def shards(self) -> range:
        """All shards in which one of its jobs may be."""
        return range(max(self.spreads))

    def shard_of(self, job_id: str) -> int:
        """Where a job is put now."""
        return shard_of(job_id, self.spreads[-1])

    def lines(self) -> list[str]:
        return [keys.line(self.name, shard) for shard in self.shards]

    def lines_of(self, job_id: str) -> set[str]:
        """Where a job may have been put."""
        return {keys.line(self.name, shard_of(job_id, spread)) for spread in self.spreads}

    def set(self, queue: Queue, default_shards: int) -> KnownQueue:
        """With other settings."""
        now = queue.shards or default_shards
        spreads = (*(one for one in self.spreads if one != now), now)
        return replace(self, queue=queue, spreads=spreads, deleted_at=None)

    def as_item(self, ver: int) -> Item:
        """Settings that are left at the defaults are not stored, so that they follow those."""
        shown: dict[str, Any] = {"spreads": self.spreads}
        if self.queue != default_queue(self.name):
            shown["settings"] = msgspec.to_builtins(self.queue)
        if self.pulled:
            shown["pulled"] = True
        if self.ranges_from is not None:
            shown["ranges"] = self.ranges_from
        if self.deleted_at is not None:
            shown["deleted_at"] = self.deleted_at
        return {**keys.queue(self.name)._asdict(), "ver": ver, "rec": to_text(shown)}


def read_queue(item: Item) -> KnownQueue:
    shown, name = from_text(item["rec"]), item["sk"]
    settings = shown.get("settings")
    queue = default_queue(name) if settings is None else _read(settings)
    return KnownQueue(
        queue,
        tuple(shown["spreads"]),
        item["ver"],
        shown.get("deleted_at"),
        shown.get("pulled", False),
        shown.get("ranges"),
    )


class QueueMemory:
    """What this process knows of queues. What is remembered may be old: it says where jobs may be,
    and a queue never loses one of its shards. For settings it is good for some seconds."""

    def __init__(self, shards: int, clock: Clock) -> None:
        self.default_shards = shards
        self._clock = clock
        self._by_name: dict[str, KnownQueue] = {}
        self._learnt_at: dict[str, float] = {}
        self._by_digest: dict[str, list[str]] = {}

    def learn(self, name: str, item: Item | None) -> KnownQueue:
        """What the table says of a queue; None: it does not have it."""
        known = self.new(name) if item is None else read_queue(item)
        if name not in self._by_name:
            self._by_digest.setdefault(queue_digest(name), []).append(name)
        self._by_name[name] = known
        self._learnt_at[name] = self._clock.monotonic()
        return known

    def outdated(self, names: Iterable[str]) -> list[str]:
        """Those that are not known, or were learnt too long ago."""
        oldest = self._clock.monotonic() - REMEMBERED_SECONDS
        return [name for name in names if self._learnt_at.get(name, oldest) <= oldest]

    def new(self, name: str) -> KnownQueue:
        queue = default_queue(name)
        return KnownQueue(queue, (queue.shards or self.default_shards,))

    def get(self, name: str) -> KnownQueue:
        return self._by_name[name]

    def of_digest(self, digest: str) -> Iterable[KnownQueue]:
        return [self._by_name[name] for name in self._by_digest.get(digest, ())]
