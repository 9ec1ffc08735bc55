"""Claims whose answer got lost: the caller that made one gets the jobs that it took."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from oncue import Job, Scheduler, State
from oncue.aio import AsyncScheduler, ClaimRequest
from oncue.api import waiting
from oncue.api.waiting import Waiting
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import Claimed
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


def test_an_outage_leaves_one_claim_to_look_for_however_many_were_refused() -> None:
    calls: list[bool] = []

    class Away(MemoryStore):
        away = True

        def claim(self, *args: Any, **named: Any) -> list[list[Claimed]]:
            calls.append(named.get("again", False))
            if self.away:
                raise StoreUnavailable("no answer")
            return super().claim(*args, **named)

    async def asked() -> None:
        acue = AsyncScheduler(cue)
        for _ in range(10):
            with pytest.raises(StoreUnavailable):
                await acue.claim(["q"], Taker("ada", 1))
        calls.clear()
        store.away = False
        assert await acue.claim(["q"], Taker("ada", 1)) == []

    store = Away()
    with Scheduler(store) as cue:
        asyncio.run(asked())
    assert calls == [True, False]


def test_threads_that_look_for_lost_claims_do_not_disturb_each_other(cue: Scheduler) -> None:
    class Shared(deque[Claiming]):
        def __bool__(self) -> bool:
            return True  # another thread takes the last one just then

    async def asked() -> list[Claimed]:
        acue = AsyncScheduler(cue)
        acue._unanswered = Shared()
        return await acue.claim(["q"], Taker("ada", 1))

    with pytest.raises(StoreUnavailable):
        cue.claim("q", "bob")
    assert asyncio.run(asked()) == []
