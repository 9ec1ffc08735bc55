"""What the parts of the memory store share: the records, the indexes over them, one lock."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import TypeVar

from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.missed import Look
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.core.rate import Bucket
from oncue.core.record import Record
from oncue.core.shard import Turn, shard_of
from oncue.forking import now_and_after_fork
from oncue.ports.store import Listener
from oncue.stores.listeners import tell

T = TypeVar("T")


Place = tuple[str, int]
"""A shard of a queue."""


@dataclass(slots=True)
class Range:
    """A shard that a dispatcher holds. Gone when let go or taken over; the fence goes on."""

    dispatcher: str
    lease_until: Moment
    lease_ms: int
    cutoff: Moment
    """It covers the scheduled jobs due by then …"""
    through: Turn
    """… up to this place in the order of hand-over."""
    in_flight: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    """Those it covers, also the ones that came in meanwhile."""

    def covers(self, record: Record) -> bool:
        return (
            record.state is State.SCHEDULED
            and record.not_before is None
            and record.due_at <= self.cutoff
            and record.next_turn <= self.through
        )


def exceptions(answers: Iterable[T | None]) -> dict[int, T]:
    """The answer to a batch: only what did not go as asked, by position."""
    return {position: answer for position, answer in enumerate(answers) if answer is not None}


class MemoryState:
    """All state. Records are changed under the lock and then refiled: the indexes follow from the
    records, and only `_refile` and `_unfile` write them."""

    def __init__(self) -> None:
        now_and_after_fork(self, MemoryState._renew)
        self._records: dict[str, Record] = {}
        self._lines: defaultdict[str, list[Turn]] = defaultdict(list)
        """By queue: the jobs that wait to be taken, in order."""
        self._keys: dict[tuple[str, str], Record] = {}
        self._taken: dict[str, Record] = {}
        self._expiring: dict[str, Record] = {}
        self._put_off: dict[str, Record] = {}
        self._settings: dict[str, Queue] = {}
        self._buckets: dict[str, Bucket] = {}
        self._shards = 1
        """Of a queue that does not say how many."""
        self._fences: defaultdict[Place, int] = defaultdict(int)
        self._ranges: dict[Place, Range] = {}
        self._spread: dict[str, int] = {}
        """By queue, while one of its shards is held: how many it had when the first was taken."""
        self._last_look: Look | None = None
        self._settled: dict[str, Moment] = {}
        """Settled claims on jobs that go with them, and until when each is remembered."""
        self._news: dict[str | None, Moment] = {}

    def _renew(self) -> None:
        """A forked child has a copy of the records, and no listeners."""
        self._lock = RLock()
        self._listeners: list[Listener] = []

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock; then, without it, tell the listeners when work is due."""
        with self._lock:
            yield
            news, self._news = self._news, {}
            listeners = list(self._listeners)
        for queue, due_at in news.items():
            tell(listeners, queue, due_at)

    def _add(self, record: Record) -> None:
        self._records[record.id] = record
        self._refile(record)

    def _visible(self, job_id: str) -> Record | None:
        record = self._records.get(job_id)
        return None if record is None or record.hidden else record

    def _refile(self, record: Record) -> None:
        """Bring every index in line with a record that is new or was changed."""
        if record.queue not in self._settings:
            self._settings[record.queue] = default_queue(record.queue)
        held = self._ranges.get(self._place(record)) if self._ranges else None
        record.covered = held is not None and held.covers(record)
        if held is not None and record.covered:
            held.records[record.id] = record
        waiting = record.state is State.SCHEDULED and not record.covered
        self._unfile(record)
        if record.state in LIVE:
            self._taken[record.id] = record
        if record.key is not None and record.state not in FINAL:
            self._keys[record.queue, record.key] = record
        if waiting and record.lapses_at is not None:
            self._expiring[record.id] = record
        if waiting and record.not_before is not None:
            self._put_off[record.id] = record
            self._announce(record.queue, record.not_before)
        elif waiting:
            record.turn = record.next_turn
            insort(self._lines[record.queue], record.turn)
            self._announce(record.queue, record.due_at)

    def _place(self, record: Record) -> Place:
        return record.queue, shard_of(record.id, self._shards_of(record.queue))

    def _shards_of(self, queue: str) -> int:
        return self._spread.get(queue) or self._wanted_shards(queue)

    def _wanted_shards(self, queue: str) -> int:
        return self._queue(queue).shards or self._shards

    def _ranges_of(self, queue: str) -> dict[Place, Range]:
        """The shards of a queue that are held, by any dispatcher."""
        return {place: held for place, held in self._ranges.items() if place[0] == queue}

    def _close(self, place: Place) -> None:
        """Let go of a shard; what was not settled waits as if it had never been taken."""
        held = self._ranges.pop(place)
        if not self._ranges_of(place[0]):
            del self._spread[place[0]]
        for record in held.records.values():
            if record.covered:
                self._refile(record)
        self._announce_room(place[0])

    def _take_away(self, place: Place) -> None:
        """Let its holder do nothing more with a shard."""
        self._close(place)
        self._fences[place] += 1

    def _unfile(self, record: Record) -> None:
        if record.turn is not None:
            line = self._lines[record.queue]
            del line[bisect_left(line, record.turn)]
            record.turn = None
        if self._taken.pop(record.id, None) is not None and record.state not in LIVE:
            self._announce_room(record.queue)
        self._expiring.pop(record.id, None)
        self._put_off.pop(record.id, None)
        if record.key is not None and self._keys.get((record.queue, record.key)) is record:
            del self._keys[record.queue, record.key]

    def _put_off_of(self, queue: str) -> list[Record]:
        return [record for record in self._put_off.values() if record.queue == queue]

    def _waiting_until(self, queue: str) -> list[Moment]:
        """When each waiting job of the queue can be taken."""
        dues = [turn.due_at for turn in self._lines[queue]]
        return dues + [record.not_before or 0 for record in self._put_off_of(queue)]

    def _announce(self, queue: str | None, due_at: Moment) -> None:
        self._news[queue] = min(due_at, self._news.get(queue, due_at))

    def _announce_room(self, queue: str) -> None:
        """At its concurrency, a queue waits for one of its jobs to be no longer under way."""
        if self._queue(queue).concurrency is not None:
            self._announce(queue, 0)

    def _forget(self, record: Record) -> None:
        """Remove a finished job with all that belongs to it. An id that a client chose is
        remembered, so that a repeated creation does not create again."""
        if record.digest is None:
            del self._records[record.id]
            return
        record.hide()

    def _expire(self, record: Record, now: Moment) -> None:
        record.expire(now)
        self._refile(record)

    def _queue(self, name: str) -> Queue:
        return self._settings.get(name) or default_queue(name)
