"""The inbox of the table: foreign items are found in the order in which they are due.

Each part of the inbox has a lease with a checkpoint. A step reads the buckets from the checkpoint
to now. The checkpoint passes a bucket when a consistent read finds it empty, a bucket and ten
seconds after its end: so an outage leaves nothing behind, however long it was. What is put into a
bucket even later is found by a search through the last day, once an hour.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from threading import Lock
from typing import NamedTuple

from oncue.core.errors import NotFound
from oncue.core.moment import Moment, render
from oncue.forking import now_and_after_fork
from oncue.ports.inbox import Accept, InboxSettings
from oncue.ports.nodes import NodeStore
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.adoption import DynamoAdoption, malformed, waits
from oncue.stores.dynamodb.buckets import PARTS, Buckets, check_buckets
from oncue.stores.dynamodb.foreign import Foreign, read
from oncue.stores.dynamodb.inbox_batch import FoundBatch, InFlight
from oncue.stores.dynamodb.inbox_lease import InboxLease, read_inbox_lease
from oncue.stores.dynamodb.inbox_parts import DAY_MS, HeldPart, Parts
from oncue.stores.dynamodb.keys import LAST, Key
from oncue.stores.dynamodb.writes import Item

OFF_SECONDS = 30.0  # between two looks whether there is an inbox
POLL_SECONDS = 1.0
BUSY_SECONDS = 0.2  # while the sinks are busy
RECENT_MS = 10_000  # every look goes so far back
GRACE_MS = 10_000
SWEEP_MS = 3_600_000
ITEMS_AT_ONCE = 100  # of a partition
BUCKETS_AT_ONCE = 24
_WHOLE = ("", LAST, ITEMS_AT_ONCE)

logger = logging.getLogger("oncue.inbox")


class Partition(NamedTuple):
    """What a look into a partition found."""

    bucket: Moment
    pk: str
    items: Sequence[Item]
    more: bool
    """Whether there is more that is due."""
    early_from: str = ""
    """If no item is due and there are more: the key of the first of them that is in the way."""


@dataclass(slots=True)
class Haul:
    """What became of what a step found."""

    dealt: int = 0
    left: int = 0
    """Items whose sinks were busy or in trouble."""


class TableInbox:
    """Implements `oncue.ports.inbox.Inbox`. Steps of several threads take turns."""

    def __init__(self, store: DynamoAdoption, nodes: NodeStore) -> None:
        self._store = store
        self._table = store.table
        self._nodes = nodes
        self.set_aside = 0
        now_and_after_fork(self, TableInbox._renew)

    def _renew(self) -> None:
        self._turn = Lock()
        self._in_flight = InFlight()
        self._passed_over: dict[str, tuple[str, str]] = {}
        """By partition: the first and the last key of items that cannot be delivered early. Looks
        begin behind them, until the first of them is due."""
        self._parts = Parts(
            self._table, self._store.clock, self._count_nodes, self._in_flight.has_any_of
        )

    def _count_nodes(self, now: Moment) -> int:
        return sum(node.engine for node in self._nodes.nodes(now))

    def settings(self) -> Buckets | None:
        return self._parts.read_settings()

    def set(self, wanted: InboxSettings, now: Moment) -> Buckets:
        stored = self._parts.write_settings(check_buckets(*wanted))
        self._store.settings_changed(now)
        return stored

    def step(
        self, holder: str, now: Moment, accept: Accept, due_until: Moment | None = None
    ) -> float:
        with self._turn:
            return self._step(holder, now, accept, max(now, due_until or now))

    def _step(self, holder: str, now: Moment, accept: Accept, until: Moment) -> float:
        self._parts.share(holder, now)
        buckets = self._parts.buckets
        if buckets is None:
            return OFF_SECONDS
        haul = Haul()
        parts = self._parts.kept(now)
        for part in parts:
            self._read_part(part, buckets, now, until, accept, haul)
        if haul.dealt:
            return 0.0
        if haul.left or self._in_flight:
            return BUSY_SECONDS
        return 0.0 if any(part.has_more for part in parts) else POLL_SECONDS

    def leave(self, now: Moment) -> None:
        with self._turn:
            self._passed_over.clear()
            self._parts.leave(now)

    def items(self, first: Moment, last: Moment) -> Iterator[Foreign]:
        buckets = self.settings()
        if buckets is None:
            raise NotFound("this table has no inbox; 'oncue inbox set' gives it one.")
        for bucket in buckets.between(first, last):
            places = [pk for part in range(PARTS) for pk in buckets.partitions(bucket, part)]
            begun = self._table.each(lambda pk: (pk, *self._table.page(pk, *_WHOLE)), places)
            found = heapq.merge(*(self._rest(*one) for one in begun), key=itemgetter("sk"))
            yield from map(read, found)

    def _rest(self, pk: str, items: list[Item], more: bool) -> Iterator[Item]:
        """These items of a partition, and those behind them."""
        yield from items
        while more:
            items, more = self._table.page(pk, items[-1]["sk"], *_WHOLE[1:])
            yield from items

    def find_late(self, around: Moment, now: Moment) -> int:
        buckets = self.settings()
        if buckets is None:
            return 0
        numbers = range(min(PARTS, buckets.shards + 1))
        leases = self._table.read(keys.inbox_lease(number) for number in numbers)
        found: list[Foreign] = []
        for number in numbers:
            lease = read_inbox_lease(number, leases.get(keys.inbox_lease(number)))
            named = (buckets.of(around) - buckets.length_ms, buckets.of(around))
            checkpoint = lease.checkpoint if lease.ver else buckets.of(now - DAY_MS)
            passed = [bucket for bucket in named if bucket < checkpoint]
            for one in self._look(number, buckets, passed, now, now):
                found += map(read, one.items)
        return self.adopt(found, now)

    def replay(self, first: Moment, last: Moment, now: Moment) -> int:
        found, moved = self.items(first, last), 0
        while part := list(islice(found, ITEMS_AT_ONCE)):
            moved += self.adopt(part, now)
        return moved

    # One part.

    def _read_part(
        self,
        part: HeldPart,
        buckets: Buckets,
        now: Moment,
        until: Moment,
        accept: Accept,
        haul: Haul,
    ) -> None:
        lease, recent = part.lease, buckets.of(now - RECENT_MS)
        first = min(lease.checkpoint, recent) if part.looks_back(now) else recent
        wanted = buckets.between(first, until)[:BUCKETS_AT_ONCE]
        in_flight = self._in_flight.keys()
        found = self._look(part.number, buckets, wanted, now, until)
        if first <= lease.checkpoint:
            part.is_behind = buckets.of(now) > wanted[-1] or any(one.more for one in found)
        self._deal_with(part, found, in_flight, now, until, accept, haul)
        if first > lease.checkpoint:
            return
        checkpoint = _passed(lease.checkpoint, found, buckets, now)
        lease = self._sweep(part, part.lease._replace(checkpoint=checkpoint), buckets, now, haul)
        if lease != part.lease:
            self._parts.write(part, lease, now)

    def _sweep(
        self, part: HeldPart, lease: InboxLease, buckets: Buckets, now: Moment, haul: Haul
    ) -> InboxLease:
        """Go on with the search for items that were put late, or begin one. What it finds is moved:
        nobody will look there again soon. A part that is behind reads what is older first."""
        if part.is_behind:
            return lease
        if not lease.sweep:
            if now - lease.swept_at < SWEEP_MS:
                return lease
            lease = lease._replace(sweep=buckets.of(now - DAY_MS), swept_at=now)
        wanted = buckets.between(lease.sweep, lease.checkpoint - 1)[:BUCKETS_AT_ONCE]
        in_flight = self._in_flight.keys()
        found = self._look(part.number, buckets, wanted, now, now)
        late = [read(item) for one in found for item in one.items]
        haul.dealt += self.adopt([one for one in late if one.key not in in_flight], now)
        if late:
            return lease
        following = wanted[-1] + buckets.length_ms if wanted else lease.checkpoint
        return lease._replace(sweep=0 if following >= lease.checkpoint else following)

    def _look(
        self, part: int, buckets: Buckets, wanted: Sequence[Moment], now: Moment, until: Moment
    ) -> list[Partition]:
        """The first due items of these buckets, up to the first bucket of which not all could be
        read: what is due later is not delivered before it."""
        places = [(bucket, pk) for bucket in wanted for pk in buckets.partitions(bucket, part)]
        look = partial(self._look_into, buckets, now, until)
        found = self._table.each(look, places)
        stuck = min((one.bucket for one in found if one.more), default=None)
        return [one for one in found if stuck is None or one.bucket <= stuck]

    def _look_into(
        self, buckets: Buckets, now: Moment, until: Moment, place: tuple[Moment, str]
    ) -> Partition:
        """Of a bucket that has ended everything is read, also what is in the wrong bucket."""
        bucket, pk = place
        has_ended, due = bucket + buckets.length_ms <= now, f"{render(now)}#{LAST}"
        upto = LAST if has_ended else f"{render(until)}#{LAST}"
        first, last = self._passed_over.get(pk, ("", ""))
        above = last if first > due else ""
        items, more = self._table.page(pk, above, upto, ITEMS_AT_ONCE)
        if not more or has_ended:
            return Partition(bucket, pk, items, more)
        is_early, more = items[0]["sk"] > due, items[-1]["sk"] <= due
        early_from = (first if above else items[0]["sk"]) if is_early else ""
        return Partition(bucket, pk, items, more, early_from)

    # What was found.

    def _deal_with(
        self,
        part: HeldPart,
        found: Sequence[Partition],
        in_flight: Collection[Key],
        now: Moment,
        until: Moment,
        accept: Accept,
        haul: Haul,
    ) -> None:
        items = [read(item) for one in found for item in one.items]
        read_ones = [one for one in items if one.key not in in_flight]
        moved: list[Foreign] = []
        too_early: set[Key] = set()
        batches: dict[tuple[str, bool], list[Foreign]] = {}
        for one in sorted(read_ones, key=lambda one: (one.due_at, one.id)):
            if one.problem is not None or one.due_at > until:
                moved.append(one)
            else:
                batches.setdefault((one.queue, one.due_at > now), []).append(one)
        for (queue, is_early), jobs in batches.items():
            batch = FoundBatch(self._store, self._parts, part, self._in_flight, queue, jobs)
            accepted = batch.offer(accept)
            if accepted:
                haul.dealt += len(jobs)
            elif is_early:
                too_early.update(one.key for one in jobs if accepted is None)
            elif accepted is None or part.is_behind:
                moved += jobs
            else:
                haul.left += len(jobs)
        haul.dealt += self.adopt(moved, now) + self._pass_over(found, too_early)

    def _pass_over(self, found: Sequence[Partition], too_early: Collection[Key]) -> int:
        """Look behind items that cannot be delivered before they are due: those of other queues
        may be. How many items are passed over."""
        passed = 0
        for one in found:
            if one.early_from and all(Key(one.pk, item["sk"]) in too_early for item in one.items):
                self._passed_over[one.pk] = one.early_from, one.items[-1]["sk"]
                passed += len(one.items)
        return passed

    def adopt(self, found: Sequence[Foreign], now: Moment) -> int:
        """Make jobs of items: those with a problem are failed ones. How many were dealt with."""
        for one in found:
            if one.problem is not None:
                self.set_aside += 1
                text = "inbox: %s %r is set aside as failed job %s: %s"
                logger.error(text, *one.key, one.id, one.problem)
        shaped = [
            (one, waits if one.problem is None else malformed(one.problem, now)) for one in found
        ]
        return self._store.adopt(shaped, now)


def _passed(
    checkpoint: Moment, found: Sequence[Partition], buckets: Buckets, now: Moment
) -> Moment:
    """How far the checkpoint goes: past the buckets that are over and were found empty."""
    full = {one.bucket for one in found if one.items}
    read_buckets = {one.bucket for one in found}
    while (
        checkpoint in read_buckets - full and checkpoint + 2 * buckets.length_ms + GRACE_MS <= now
    ):
        checkpoint += buckets.length_ms
    return checkpoint
