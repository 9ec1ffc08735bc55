"""Foreign items become jobs of the store, each in one transaction with the removal of its item.

A job that has the id of the item already is the same one, put twice, if it asks for the same; else
the item becomes a job with another id that follows from its contents. So nothing that a producer
put is lost, and no repetition makes a second job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.stores.dynamodb.foreign import Foreign
from oncue.stores.dynamodb.jobs import MOST_RACES, DynamoJobs, rounds, too_many_races
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.lines import give_up
from oncue.stores.dynamodb.writes import Item, Remove, Write

Shape = Callable[[Record, Queue], None]
"""What becomes of the job of an item: it gets its record while it waits."""


@dataclass(slots=True)
class Child:
    """An item on its way to become a job."""

    foreign: Foreign
    shape: Shape
    id: str
    ver: int = 0
    """Of a record in its place whose time is over."""


def waits(record: Record, queue: Queue) -> None:
    """It waits in its queue, like any other job."""


def malformed(problem: str, now: Moment) -> Shape:
    """It cannot be a job, and is one that failed."""
    return lambda record, queue: give_up(record, queue, now, problem, "malformed")


def failed(holder: str, error: str, now: Moment) -> Shape:
    """Its sink refused it for good."""

    def shape(record: Record, queue: Queue) -> None:
        record.deliver(holder, now, error, queue, now)
        if not queue.keeps_history:
            record.hide()

    return shape


def put_off(error: str, now: Moment) -> Shape:
    """Its sink refused it for now."""
    return lambda record, queue: record.put_off(queue.retry, error, now)


class DynamoAdoption(DynamoJobs):
    def settings_changed(self, now: Moment) -> None:
        """Tell whoever listens."""
        self._tell_settings(now)
        self._news.tell()

    def adopt(self, items: Sequence[tuple[Foreign, Shape]], now: Moment) -> int:
        """Make jobs of these items. How many were dealt with: the others are no longer as they were
        read."""
        children = {at: Child(one, shape, one.id) for at, (one, shape) in enumerate(items)}
        known = self._register({one.queue for one, _ in items}, now)
        dealt = sum(self._adopt(part, known, now) for part in rounds(children, _id))
        self._news.tell()
        return dealt

    def _adopt(
        self, children: Mapping[int, Child], known: Mapping[str, KnownQueue], now: Moment
    ) -> int:
        left, dealt = dict(children), 0
        for _ in range(MOST_RACES):
            done = self._try_adoption(left, known, now)
            left = {at: child for at, child in left.items() if at not in done}
            dealt += len(done)
            if not left:
                return dealt
            found = self.table.read(child.foreign.key for child in left.values())
            left = {at: child for at, child in left.items() if _is_there(child, found)}
            doubled = self._name_anew(left, now)
            dealt += len(doubled)
            left = {at: child for at, child in left.items() if at not in doubled}
        raise too_many_races()

    def _try_adoption(
        self, children: Mapping[int, Child], known: Mapping[str, KnownQueue], now: Moment
    ) -> set[int]:
        groups: list[list[Write]] = []
        apart: list[Item] = []
        for child in children.values():
            foreign, queue = child.foreign, known[child.foreign.queue]
            record = Record.of(foreign.as_new(child.id, now), now)
            child.shape(record, queue.queue)
            writes, parts = self._creation(record, queue, now, child.ver)
            groups.append([*writes, Remove(foreign.key, foreign.is_same)])
            apart += parts
            self._news.add(foreign.queue, record.not_before or foreign.due_at)
        self.table.write(apart)
        done = self.table.apply(groups)
        return {at for at, was in zip(children, done, strict=True) if was}

    def _name_anew(self, children: Mapping[int, Child], now: Moment) -> set[int]:
        """Give another id to those whose id another job has. Those whose job is there already need
        none: their items are removed."""
        jobs = self.read(child.id for child in children.values())
        doubled: list[int] = []
        for at, child in children.items():
            job = jobs.get(child.id)
            if job is None:
                continue
            if job.is_gone(now):
                child.ver = job.ver
            elif job.record.digest == child.foreign.digest:
                doubled.append(at)
            else:
                child.id, child.ver = child.foreign.other_id, 0
        removals = [
            Remove(children[at].foreign.key, children[at].foreign.is_same) for at in doubled
        ]
        done = self.table.write_each(removals)
        return {at for at, was in zip(doubled, done, strict=True) if was}


def _id(child: Child) -> Sequence[Any]:
    return [child.id]


def _is_there(child: Child, found: Mapping[Key, Item]) -> bool:
    return found.get(child.foreign.key) == child.foreign.item
