"""Dispatchers' range claims in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core import fencing
from oncue.core.fencing import Ending, Settlement, refused_by_sink
from oncue.core.job import Delivery
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.memory.endings import MemoryEndings
from oncue.stores.memory.record import Record
from oncue.stores.memory.state import Range


class MemoryRanges(MemoryEndings):
    """Implements the dispatchers' side of `oncue.ports.claims.ClaimStore`. A range is a queue here.
    A settlement names its jobs: a job that arrives inside the range meanwhile counts as dispatched
    until the range is closed, and then waits like any other."""

    def claim_range(
        self,
        queues: Sequence[Queue],
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        due_until: Moment | None = None,
    ) -> RangeClaim:
        cutoff = now if due_until is None else due_until
        lease_ms = round(lease_seconds * 1000)
        busy: list[Moment] = []
        with self._writing():
            for queue in queues:
                self._take_over(queue.name, dispatcher, now)
            for name in [queue.name for queue in queues]:
                if name in self._ranges:
                    busy.append(self._ranges[name].lease_until)
                    continue
                room = self._make_ready(name, limit, cutoff, now)
                records = self._first_ones(name, room, cutoff)
                if records:
                    self._spend(name, len(records), now)
                    until, through = now + lease_ms, records[-1].next_turn
                    self._ranges[name] = Range(dispatcher, now, until, lease_ms, cutoff, through)
                    self._fences[name] += 1
                    for record in records:
                        self._refile(record)
                    jobs = [
                        Delivery(r.id, r.due_at, r.payload, r.attempt + 1, None, name)
                        for r in records
                    ]
                    return RangeClaim(name, self._fences[name], jobs, queues)
        return RangeClaim("", 0, (), queues, min(busy, default=None))

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        with self._writing():
            held = self._range(claim)
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
    ) -> bool:
        queue = next((queue for queue in claim.queues if queue.name == claim.range), None)
        if queue is None:  # an empty claim
            return False
        with self._writing():
            held = self._range(claim)
            if held is None:
                return False
            for job_id in (*delivered, *refused):
                if (record := held.records.get(job_id)) is not None:
                    self._deliver(record, held, refused.get(job_id), queue, now)
            self._close(claim.range)
            return True

    def _range(self, claim: RangeClaim) -> Range | None:
        """The open range, if this fence is still the current one."""
        current = self._fences[claim.range] == claim.fence
        return self._ranges.get(claim.range) if current else None

    def _deliver(
        self, record: Record, held: Range, refusal: Refusal | None, queue: Queue, now: Moment
    ) -> None:
        """Apply what the sink answered. For a job that is over, this is a claim and its end."""
        if refusal is not None and not refusal.permanent:
            record.put_off(queue.retry, refusal.detail, now)
            record.updated_at = now
            return
        record.state, record.covered, record.worker = State.DISPATCHED, False, held.dispatcher
        record.begin_attempt(held.dispatcher, held.claimed_at)
        settlement = Settlement(record.id, record.epoch, Verb.COMPLETE)
        if refusal is None:
            record.refusals = 0
        else:
            detail = refused_by_sink(refusal.detail)
            settlement = settlement._replace(verb=Verb.FAIL, error=refusal.detail, detail=detail)
        ending = fencing.settle(record.as_held(), settlement, queue, now)
        assert isinstance(ending, Ending)  # a job inside a range cannot be asked to stop
        self._end_claim(record, ending, None, now, keep=queue.keeps_history)
