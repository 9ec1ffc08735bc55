"""A job that kills whoever takes it: it ends, and nothing that was fetched with it is harmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from oncue.clock import FakeClock
from oncue.core.job import Delivery, NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.sink import Refusal
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue


class Death(KeyboardInterrupt):
    """As if the process had been killed: nothing in it may catch this."""


class DeadlySink(MemorySink):
    """Kills its dispatcher before anything is delivered."""

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        raise Death


class House:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.cue = Scheduler(self.store, clock=self.clock)
        self.reclaimer = Reclaimer(Node.of(self.store, self.clock))

    def reclaim(self) -> None:
        """Let every lease end, and everything lost be found."""
        self.clock.advance(61)
        while self.reclaimer.step() == 0.0:
            continue

    def counts(self, queue: str) -> dict[str, int]:
        return {str(s): n for s, n in self.cue.stats(queue).counts.items() if n}


@pytest.fixture
def house() -> House:
    return House()


def test_three_deaths_of_the_dispatcher_leave_the_whole_batch_deliverable(house: House) -> None:
    queue = Queue("letters", sink="memory:letters", completion="worker")
    put_queue(house.store, queue)
    now = house.clock.now()
    jobs = [NewJob(f"j{n:03}", "letters", now, b"{}", 0, now) for n in range(500)]
    house.store.insert(jobs, now)

    def dispatcher(name: str, sink: MemorySink) -> Dispatcher:
        return Dispatcher(
            Node.of(house.store, house.clock), lambda: queue, sink, name, Keeper(house.clock)
        )

    for life in range(3):
        with pytest.raises(Death):
            dispatcher(f"life {life}", DeadlySink()).step()
        house.reclaim()
    assert house.counts("letters") == {"scheduled": 500}
    sink = MemorySink()
    survivor = dispatcher("survivor", sink)
    while len(sink.deliveries) < len(jobs):
        survivor.step()
    assert {delivery.id for delivery in sink.deliveries} == {job.id for job in jobs}


def test_a_killed_worker_with_jobs_in_hand_uses_up_none_of_their_attempts(house: House) -> None:
    house.cue.set_queue("once", max_attempts=1)
    house.cue.schedule_many(({} for _ in range(1000)), queue="once")
    claimed = house.cue.claim_source("w").claim("once", 1000, house.clock.now())
    assert claimed is not None
    assert len(claimed.claims) == 1000
    house.reclaim()
    assert house.counts("once") == {"scheduled": 1000}


def test_a_worker_that_claims_by_hand_loses_one_job_to_poison(house: House) -> None:
    cue = house.cue
    poison = cue.schedule("poison", queue="q", priority=9)
    cue.schedule_many(({} for _ in range(20)), queue="q")
    begun = []
    while cue.job(poison.id).state not in (State.FAILED, State.SUCCEEDED):
        for claim in cue.claim("q", "by hand", limit=100):
            if claim.id == poison.id:
                begun.append(claim.attempt)
                break
            cue.complete(claim.id, cue.token(claim))
        house.reclaim()
    assert begun == [1, 2, 3, 4]
    while claims := cue.claim("q", "by hand", limit=100):
        for claim in claims:
            cue.complete(claim.id, cue.token(claim))
    assert house.counts("q") == {"succeeded": 20, "failed": 1}


def test_a_queue_may_say_how_many_lost_starts_are_poison(house: House) -> None:
    house.cue.set_queue("q", max_attempts=20, poison_after=5)
    job = house.cue.schedule(queue="q")
    for _ in range(5):
        assert house.cue.job(job.id).state is State.SCHEDULED
        [claim] = house.cue.claim("q", "w")
        house.cue.start(claim.id, house.cue.token(claim))
        house.reclaim()
    assert house.cue.job(job.id).state is State.FAILED
    last = house.cue.history(job.id).diagnostics[-1]
    assert (last.code, last.facts["decision"]) == ("poison", "give up")


def test_lost_answers_to_claims_make_no_poison(house: House) -> None:
    """The server died between the commit and the answer: nobody ever saw the job."""
    house.cue.set_queue("q", max_attempts=20)
    job = house.cue.schedule(queue="q")
    for _ in range(19):
        assert len(house.cue.claim("q", "w")) == 1
        house.reclaim()
    assert house.cue.job(job.id).state is State.SCHEDULED
