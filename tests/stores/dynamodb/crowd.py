"""An open range in a crowd: a dispatcher has three batches in flight, jobs of a high priority are
due later, others arrive late, and somebody cancels everything, all of it under conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from tests.contract.changing import CANCEL
from tests.proof.plan import Fault
from tests.stores.dynamodb.rig import Node, Rig
from tests.stores.dynamodb.steps import Actor

QUEUE = Queue("crowd", sink="log:")
CONFLICTS: Mapping[Fault, float] = {
    Fault.CONFLICT: 0.15,
    Fault.THROTTLE: 0.05,
    Fault.TIMEOUT: 0.05,
    Fault.HALF_REFUSED: 0.05,
}
IN_FLIGHT = 3
SOON = 60.0  # within what a dispatcher may look ahead


class Crowd:
    """`jobs` are due now, a tenth as many later with the highest priority, and as many arrive while
    the batches are in flight."""

    def __init__(self, rig: Rig, jobs: int, seed: int) -> None:
        self._rig = rig
        self._batch = max(2, jobs // 10)
        self._dispatcher = rig.node(CONFLICTS, seed)
        self._canceller = rig.node(CONFLICTS, seed + 1)
        self._open: list[RangeClaim] = []
        self.sent: Counter[str] = Counter()
        add = rig.calm.desk.add_many
        self.due = add(jobs, queue=QUEUE.name, priority=1)
        self.future = add(jobs // 10, queue=QUEUE.name, priority=9, due_in=SOON)

    def run(self) -> None:
        for _ in range(IN_FLIGHT):
            self._take()
        covered = {job.id for claim in self._open for job in claim.jobs}
        late = self._arrive()
        everything = [*self.due, *self.future, *late]
        cancelled = self._cancel(everything)
        assert not covered & cancelled
        assert set(self.future) <= cancelled, "a range covers what is not due"
        self._finish()
        assert set(self.sent) & cancelled == set(), "sent, and cancelled"
        assert set(self.sent) | cancelled == set(everything), "lost"
        assert set(self.sent.values()) == {1}
        assert self._rig.line(QUEUE.name) == []

    def _take(self) -> None:
        desk = self._dispatcher.desk
        claim = desk.claim_range(QUEUE, "dora", limit=self._batch, in_flight=self._open)
        if claim.jobs:
            self._open.append(claim)
            self.sent.update(job.id for job in claim.jobs)

    def _settle(self) -> None:
        claim = self._open.pop(0)
        left = sum(len(one.jobs) for one in self._open)
        assert self._dispatcher.desk.settle_range(claim, left=left)

    def _arrive(self) -> list[str]:
        """In front of what is in flight, and behind it."""
        add, some = self._rig.calm.desk.add_many, self._batch // 2
        front = add(some, queue=QUEUE.name, priority=5)
        return [*front, *add(some, queue=QUEUE.name, priority=0)]

    def _cancel(self, ids: Sequence[str]) -> set[str]:
        """Between its requests, the dispatcher settles batches and takes others."""
        actor = Actor(self._canceller.client, lambda: _cancelled(self._canceller, ids))
        steps = 0
        while actor.step():
            steps += 1
            if steps % 4 == 0 and self._open:
                self._settle()
                self._take()
        found: set[str] = actor.answer()
        return found

    def _finish(self) -> None:
        """In peace: what was neither sent nor cancelled waits, and is sent."""
        self._dispatcher.client.plan.heal()
        self._rig.clock.advance(SOON)
        while self._open:
            self._settle()
            self._take()


def _cancelled(node: Node, ids: Sequence[str]) -> set[str]:
    refused = node.store.change(ids, CANCEL, node.desk.now).refused
    return {job_id for at, job_id in enumerate(ids) if at not in refused}
