"""Claims whose answer got lost: whoever made one gets the jobs that it took."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

import pytest

from oncue import Job, Scheduler, State
from oncue.aio import AsyncScheduler, ClaimRequest
from oncue.api import waiting
from oncue.api.waiting import Waiting
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.sharing import Taker
from oncue.engine.claiming import Claiming
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.worker.worker import Worker
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan


@pytest.fixture
def cue() -> Iterator[Scheduler]:
    """The first claim is made, and its caller sees a time-out."""
    clock = FakeClock()
    plan = Plan(1, {Fault.TIMEOUT: 1.0}, only={"claim"}, first_n=1)
    with Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock) as cue:
        yield cue


def test_a_program_gets_them_when_it_claims_in_the_same_way(cue: Scheduler) -> None:
    jobs = [cue.schedule(queue="q").id for _ in range(3)]
    with pytest.raises(StoreUnavailable):
        cue.claim("q", "ada", limit=2)
    assert [one.id for one in cue.claim("q", "bob", limit=2)] == jobs[2:]
    claims = cue.claim("q", "ada", limit=2)
    assert [(one.id, one.attempt) for one in claims] == [(jobs[0], 1), (jobs[1], 1)]
    assert cue.claim("q", "ada", limit=2) == []


def test_a_worker_does_them_first(cue: Scheduler) -> None:
    done: list[tuple[str, int]] = []
    for queue in ("a", "b"):
        cue.handler(queue)(lambda job: done.append((job.queue, job.attempt)))
        cue.schedule(queue=queue)
    worker = Worker(cue)
    with pytest.raises(StoreUnavailable):
        worker.step()
    while worker.step():
        pass
    assert done == [("a", 1), ("b", 1)]


def test_a_dispatcher_delivers_them_first(cue: Scheduler) -> None:
    queue = cue.set_queue("q", sink="log:", completion="worker")
    job, sink = cue.schedule(queue="q"), MemorySink()
    node = Node.of(cue.store, cue.clock)
    dispatcher = Dispatcher(node, lambda: queue, sink, "d", Keeper(cue.clock))
    with pytest.raises(StoreUnavailable):
        dispatcher.step()
    dispatcher.step()
    [delivery] = sink.deliveries
    assert (delivery.id, delivery.attempt) == (job.id, 1)


def test_requests_that_wait_get_them(cue: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TROUBLE_MS", -1)
    jobs = [cue.schedule(queue="q").id for _ in range(3)]

    async def never() -> None:
        await asyncio.Event().wait()

    async def asked() -> list[list[tuple[str, int]]]:
        place = Waiting(AsyncScheduler(cue))
        polls = [
            place.claim(ClaimRequest(("q",), Taker(name, 1)), 30.0, never) for name in ("a", "b")
        ]
        async with asyncio.timeout(30):
            taken = await asyncio.gather(*polls)
            place.close()
            await place.idle()
        return [[(one.id, one.attempt) for one in share] for share in taken]

    assert asyncio.run(asked()) == [[(jobs[0], 1)], [(jobs[1], 1)]]


def test_what_a_request_was_refused_is_released_with_the_next_one(cue: Scheduler) -> None:
    job_id = cue.schedule(queue="q").id

    async def asked() -> Job:
        acue = AsyncScheduler(cue)
        with pytest.raises(StoreUnavailable):
            await acue.claim(["q"], Taker("ada", 1))
        assert cue.job(job_id).state is State.DISPATCHED
        assert await acue.claim(["other"], Taker("bob", 1)) == []
        return cue.job(job_id)

    job = asyncio.run(asked())
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)


def test_while_the_store_is_away_no_more_claims_are_made_than_can_be_given_back() -> None:
    clock = FakeClock()
    plan = Plan(1, {Fault.TIMEOUT: 1.0}, only={"claim"})
    with Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock) as cue:
        jobs = [cue.schedule(queue="q").id for _ in range(5)]

        async def asked() -> None:
            acue = AsyncScheduler(cue)
            for _ in jobs:
                with pytest.raises(StoreUnavailable):
                    await acue.claim(["q"], Taker("ada", 1))

        asyncio.run(asked())
        assert [cue.job(job_id).state for job_id in jobs].count(State.DISPATCHED) == 1


def test_two_groups_may_give_back_at_the_same_time() -> None:
    class TakenMeanwhile(deque[Claiming]):
        """Another thread takes the last one just after this one has seen it."""

        def __len__(self) -> int:
            return super().__len__() or 1

    with Scheduler(MemoryStore(FakeClock())) as cue:

        async def asked() -> None:
            acue = AsyncScheduler(cue)
            acue._unanswered = TakenMeanwhile()
            assert await acue.claim(["q"], Taker("ada", 1)) == []

        asyncio.run(asked())
