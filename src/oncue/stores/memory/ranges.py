"""Dispatchers' range claims in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile

from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.shard import Turn, shard_of
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.memory.endings import MemoryEndings
from oncue.stores.memory.state import Place, Range


class MemoryRanges(MemoryEndings):
    """Implements the dispatchers' side of `oncue.ports.claims.ClaimStore`."""

    def claim_range(
        self,
        queue: Queue,
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        in_flight: Sequence[RangeClaim] = (),
        due_until: Moment | None = None,
    ) -> RangeClaim:
        cutoff = now if due_until is None else due_until
        name, lease_ms = queue.name, round(lease_seconds * 1000)
        with self._writing():
            continued = self._continued(in_flight)
            busy = self._busy(name, dispatcher, continued, now)
            if self._shards_of(name) != self._wanted_shards(name):  # first, all are let go
                ends = [held.lease_until for held in self._ranges_of(name).values()]
                return RangeClaim(name, busy_until=min(ends))
            free = [(name, n) for n in range(self._shards_of(name)) if (name, n) not in busy]
            firsts = self._firsts(free, continued, limit, cutoff, now)
            if not firsts:
                return RangeClaim(name, busy_until=min(busy.values(), default=None))
            place, records = min(firsts.items(), key=lambda shard: shard[1][0].next_turn)
            self._spend(name, len(records), now)
            if place not in continued:
                self._fences[place] += 1
                self._spread[name] = self._shards_of(name)
                self._ranges[place] = Range(dispatcher, 0, lease_ms, 0, records[0].next_turn)
            held = self._ranges[place]
            held.lease_until = max(held.lease_until, now + lease_ms)
            held.cutoff = max(held.cutoff, cutoff)
            held.through = max(held.through, records[-1].next_turn)
            held.in_flight += len(records)
            for record in list(self._newly_covered(place, held)):
                self._refile(record)
            jobs = [record.as_delivery() for record in records]
            return RangeClaim(name, place[1], self._fences[place], jobs, now)

    def _busy(
        self, queue: str, dispatcher: str, continued: Mapping[Place, set[str]], now: Moment
    ) -> dict[Place, Moment]:
        """The shards of a queue that others hold, and until when. Those that can be taken over are
        closed."""
        busy: dict[Place, Moment] = {}
        for place, held in self._ranges_of(queue).items():
            if place in continued:
                held.in_flight = len(continued[place])
            elif held.lease_until <= now or held.dispatcher == dispatcher:
                self._take_away(place)
            else:
                busy[place] = held.lease_until
        return busy

    def _firsts(
        self,
        free: Sequence[Place],
        continued: Mapping[Place, set[str]],
        limit: int,
        cutoff: Moment,
        now: Moment,
    ) -> dict[Place, list[Record]]:
        """The first jobs of each of these shards of a queue, where there are any to take."""
        if not free:
            return {}
        turns = sorted(
            record.next_turn
            for place, known in continued.items()
            for record in self._arrived(place, known, cutoff, now)
        )
        room = self._make_ready(free[0][0], limit, cutoff, now, arrived=turns)
        firsts = {}
        for place in free:
            # Only now: what was put off may have come back into a range.
            known = continued.get(place)
            arrived = [] if known is None else self._arrived(place, known, cutoff, now)
            every = merge(arrived, self._waiting(place, cutoff), key=_turn)
            firsts[place] = list(islice(every, room))
        return {place: records for place, records in firsts.items() if records}

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        with self._writing():
            held = self._ranges.get(_place(claim)) if self._is_current(claim) else None
            if held is None:
                return False
            held.lease_until = max(held.lease_until, lease_until)
            return True

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        with self._writing():
            if not self._is_current(claim):
                return False
            held = self._ranges.get(_place(claim))
            if held is None:  # this very call has let it go before
                return True
            attempts = {job.id: job.attempt for job in claim.jobs}
            for job_id in (*delivered, *refused):
                record = held.records.get(job_id)
                if record is None or record.not_before is not None:
                    continue
                if record.attempt + 1 == attempts.get(job_id):
                    self._deliver(record, held, refused.get(job_id), claim, now)
            held.in_flight = left
            if left:
                self._announce_room(claim.queue)
            else:
                self._close(_place(claim))
            return True

    def _continued(self, in_flight: Sequence[RangeClaim]) -> dict[Place, set[str]]:
        """The shards that go on under the fence of these claims, and the jobs in flight."""
        continued: dict[Place, set[str]] = {}
        for claim in in_flight:
            if self._is_current(claim) and (place := _place(claim)) in self._ranges:
                continued.setdefault(place, set()).update(job.id for job in claim.jobs)
        return continued

    def _arrived(
        self, place: Place, in_flight: set[str], cutoff: Moment, now: Moment
    ) -> list[Record]:
        """What has come into a range since it was taken, in order."""
        arrived = [
            record
            for record in self._ranges[place].records.values()
            if record.covered and record.id not in in_flight
            if record.due_at <= cutoff and not record.has_lapsed(now)
        ]
        return sorted(arrived, key=_turn)

    def _waiting(self, place: Place, cutoff: Moment) -> Iterator[Record]:
        """What waits in a shard and is not covered, in order."""
        queue, shard = place
        shards = self._shards_of(queue)
        for turn in self._lines[queue]:
            if turn.due_at <= cutoff and shard_of(turn.id, shards) == shard:
                yield self._records[turn.id]

    def _newly_covered(self, place: Place, held: Range) -> Iterator[Record]:
        """What waits in a shard and is inside the range that now goes so far: what was taken, and
        what has fallen due in between."""
        waiting = self._waiting(place, held.cutoff)
        return takewhile(lambda record: record.next_turn <= held.through, waiting)

    def _is_current(self, claim: RangeClaim) -> bool:
        """Whether its shard was not taken over since."""
        return claim.fence > 0 and self._fences[_place(claim)] == claim.fence

    def _deliver(
        self,
        record: Record,
        held: Range,
        refusal: Refusal | None,
        claim: RangeClaim,
        now: Moment,
    ) -> None:
        """Apply what the sink answered. For a job that is over, this is a claim and its end."""
        queue = self._queue(claim.queue)
        del held.records[record.id]
        if refusal is not None and not refusal.permanent:
            record.put_off(queue.retry, refusal.detail, now)
            self._refile(record)
            return
        error = None if refusal is None else refusal.detail
        record.deliver(held.dispatcher, claim.claimed_at, error, queue, now)
        self._refile(record)
        if not queue.keeps_history:
            self._forget(record)


def _place(claim: RangeClaim) -> Place:
    return claim.queue, claim.shard


def _turn(record: Record) -> Turn:
    return record.next_turn
