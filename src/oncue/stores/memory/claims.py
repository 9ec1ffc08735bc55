"""Workers' claims in memory: the limits of queues, taking jobs, and the signs of life that
follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice

from oncue.core import rate
from oncue.core.fencing import GONE, Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.moment import Moment
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits, paged
from oncue.core.putoff import back_in_line_until
from oncue.core.queue import Queue
from oncue.core.rate import Limits
from oncue.core.record import Record
from oncue.core.shard import Turn
from oncue.core.sharing import Taker, in_order, share_out
from oncue.stores.memory.state import MemoryState, exceptions


class MemoryClaims(MemoryState):
    """Implements the workers' side of `oncue.ports.claims.ClaimStore` up to the settlement."""

    def claim(
        self,
        queues: Sequence[Queue],
        takers: Sequence[Taker],
        now: Moment,
        *,
        nonce: str,
        again: bool = False,
    ) -> list[list[Claimed]]:
        with self._writing():
            if again and any(held := self._claimed_by(nonce, queues, len(takers), now)):
                return held
            named = {queue.name: queue for queue in queues}
            for name in named:
                self._take_over(name, now)
            most = sum(taker.limit for taker in takers)
            rooms = {name: self._make_ready(name, most, now, now) for name in named}
            shares = share_out(
                takers, lambda limit, reclaimed: self._choose(rooms, limit, now, ahead=reclaimed)
            )
            for place, (taker, share) in enumerate(zip(takers, shares, strict=True)):
                for record in share:
                    alone = len(share) == 1
                    record.take(named[record.queue], taker, now, (nonce, place), alone=alone)
                    self._refile(record)
            return [paged([record.as_claimed() for record in share]) for share in shares]

    def _claimed_by(
        self, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
    ) -> list[list[Claimed]]:
        """What a call took, by taker, as far as the claims hold. Their leases begin anew."""
        held: list[list[Claimed]] = [[] for _ in range(takers)]
        for record in self._taken.values():
            if record.nonce is not None and record.nonce[0] == nonce and record.lease.until:
                record.lease, record.updated_at = record.lease.heard_of(now), now
                held[record.nonce[1]].append(record.as_claimed())
        return [paged(in_order(claims, queues)) for claims in held]

    def _choose(
        self, rooms: dict[str, int], limit: int, now: Moment, *, ahead: bool
    ) -> list[Record]:
        """The first due jobs, for which there is room: reclaimed ones, or the others."""
        chosen: list[Record] = []
        for queue, room in rooms.items():
            most = min(room, limit - len(chosen))
            found = self._first_ones(queue, most, now, ahead=ahead)
            self._spend(queue, len(found), now)
            rooms[queue] -= len(found)
            chosen += found
        return chosen

    def _first_ones(self, queue: str, limit: int, until: Moment, *, ahead: bool) -> list[Record]:
        """The jobs to hand over next, of those due by `until`: reclaimed ones, or the others."""
        due = (self._records[turn.id] for turn in self._lines[queue] if turn.due_at <= until)
        return list(islice((one for one in due if one.ahead == ahead), limit))

    def _take_over(self, queue: str, now: Moment) -> None:
        """Take shards away from dispatchers whose lease has ended."""
        for place, held in self._ranges_of(queue).items():
            if held.lease_until <= now:
                self._take_away(place)

    def _make_ready(
        self, queue: str, limit: int, until: Moment, now: Moment, *, arrived: Sequence[Turn] = ()
    ) -> int:
        """Before jobs of a queue are taken that are due by `until`: how many may be, at most
        `limit`. If there is room and something waits (`arrived`: also outside the lines), what has
        expired is cancelled, and put-off jobs are in line again. Else nothing is changed, as if the
        claim had only looked."""
        due = arrived or any(turn.due_at <= until for turn in self._lines[queue])
        if not due and all(record.is_put_off(now) for record in self._put_off_of(queue)):
            return 0
        room = self._limits(queue).room(self._under_way(queue), limit, now)
        if room.bucket is not None and room.begun_again:
            self._buckets[queue] = room.bucket
        if room.most:
            for record in list(self._expiring.values()):
                takable = record.due_at <= until and not record.is_put_off(now)
                if record.queue == queue and takable and record.has_lapsed(now):
                    self._expire(record, now)
            self._bring_back(queue, arrived, now)
        return room.most

    def _bring_back(self, queue: str, arrived: Sequence[Turn], now: Moment) -> None:
        """Give put-off jobs whose moment has come their place in line again."""
        waiting = merge(arrived, self._lines[queue])
        first = next((turn for turn in waiting if turn.due_at <= now), None)
        for record in self._put_off_of(queue):
            # Reclaimed before others, then priority: the due time counts last.
            behind = first is not None and record.next_turn[:2] >= first[:2]
            until = back_in_line_until(now, first.due_at if first and behind else None)
            if not record.is_put_off(until):
                record.not_before = None
                self._refile(record)

    def _limits(self, name: str) -> Limits:
        """The limits in the store, which may be newer than those that the caller read."""
        queue, bucket = self._queue(name), self._buckets.get(name)
        return Limits(queue.paused, queue.concurrency, queue.rate_per_second, bucket)

    def _spend(self, name: str, count: int, now: Moment) -> None:
        """Note that so many were taken from a queue that had room for them."""
        bound = self._queue(name).rate_per_second
        if bound is not None and count:
            bucket = rate.fill(self._buckets.get(name), bound, now)
            self._buckets[name] = rate.take(bucket, count)

    def _under_way(self, name: str) -> int:
        """How many jobs of the queue are dispatched or executing."""
        in_flight = sum(held.in_flight for held in self._ranges_of(name).values())
        return in_flight + sum(record.queue == name for record in self._taken.values())

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        with self._lock:
            return min((at for name in queues for at in self._next_dues(name)), default=None)

    def _next_dues(self, name: str) -> list[Moment]:
        """When something of the queue can be taken, as far as can be told."""
        if name not in self._settings:  # it was deleted, perhaps with a range that is still open
            return []
        limits = self._limits(name)
        moments = [held.lease_until for held in self._ranges_of(name).values()]
        if not limits.is_full(self._under_way(name)):
            moments += self._waiting_until(name)
        return limits.next_turns(moments)

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        with self._lock:
            return [self._touch(touch, now) for touch in touches]

    def _touch(self, touch: Touch, now: Moment) -> Touched | Refused:
        record = self._visible(touch.id)
        return GONE if record is None else record.touch(touch, self._queue(record.queue), now)

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        with self._lock:
            return exceptions(self._interruption(job_id, epoch) for job_id, epoch in claims)

    def _interruption(self, job_id: str, epoch: int) -> Refused | None:
        record = self._visible(job_id)
        return GONE if record is None else record.interruption(epoch)

    def put_operation(
        self,
        job_id: str,
        epoch: int,
        operation: Operation,
        now: Moment,
        limits: OperationLimits = DEFAULT_LIMITS,
    ) -> Operation | Refused:
        with self._lock:
            record = self._visible(job_id)
            return GONE if record is None else record.put_operation(epoch, operation, now, limits)
