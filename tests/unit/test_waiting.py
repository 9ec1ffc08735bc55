"""Long polling, by hand: what becomes of work that nobody is there to receive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from oncue import Job, Scheduler, State
from oncue.aio import AsyncScheduler, ClaimRequest
from oncue.api.waiting import Waiting
from oncue.clock import FakeClock
from oncue.core.sharing import Taker
from oncue.core.token import sign
from oncue.stores.memory import MemoryStore

WISH = ClaimRequest(("left",), Taker("w", 1))


async def left_at(state: State) -> Job:
    """The job after a worker waited for it and left as soon as the job was in this state."""
    with Scheduler("memory:") as cue:
        waiting = Waiting(AsyncScheduler(cue))
        job_id = cue.schedule(queue="left").id

        async def gone() -> None:
            while state is not State.SCHEDULED and cue.job(job_id).state is not state:
                await asyncio.sleep(0)

        async with asyncio.timeout(30):
            assert await waiting.claim(WISH, 30.0, gone) == []
            waiting.close()
            await waiting.idle()
        return cue.job(job_id)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.DISPATCHED])
def test_what_was_taken_for_a_worker_that_has_left_goes_back_unharmed(state: State) -> None:
    job = asyncio.run(left_at(state))
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)


def test_one_that_cannot_go_back_keeps_no_other_from_it() -> None:
    async def left() -> list[State]:
        with Scheduler("memory:") as cue:
            waiting = Waiting(AsyncScheduler(cue))
            ids = [cue.schedule(queue="left", priority=priority).id for priority in (9, 0)]

            async def gone() -> None:
                while cue.job(ids[1]).state is not State.DISPATCHED:
                    await asyncio.sleep(0)
                cue.complete(ids[0], sign(cue.store.secret, ids[0], 1))

            async with asyncio.timeout(30):
                assert await waiting.claim(WISH._replace(taker=Taker("w", 2)), 30.0, gone) == []
                waiting.close()
                await waiting.idle()
            return [cue.job(job_id).state for job_id in ids]

    assert asyncio.run(left()) == [State.SUCCEEDED, State.SCHEDULED]


def test_a_clock_that_is_set_forward_is_noticed_while_somebody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncue.api.waiting.CLOCK_SECONDS", 0.01)

    async def waited() -> tuple[str, str]:
        async def never() -> None:
            await asyncio.Event().wait()

        clock = FakeClock()
        with Scheduler(MemoryStore(clock), clock=clock) as cue:
            waiting = Waiting(AsyncScheduler(cue))
            job_id = cue.schedule(queue="left", delay=3_600).id
            asking = asyncio.create_task(waiting.claim(WISH, 60.0, never))
            while waiting._timer is None:  # it has not looked yet
                await asyncio.sleep(0)
            clock.set(clock.now() + 3_600_000)
            async with asyncio.timeout(10):
                [taken] = await asking
            waiting.close()
            return job_id, taken.id

    awaited, taken = asyncio.run(waited())
    assert taken == awaited


def test_after_the_clock_was_set_back_waiting_requests_look_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncue.api.waiting.CLOCK_SECONDS", 0.01)

    async def waited() -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        clock = FakeClock()
        with Scheduler(MemoryStore(clock), clock=clock) as cue:
            waiting = Waiting(AsyncScheduler(cue))
            cue.schedule(queue="left", delay=3_600)
            asking = asyncio.create_task(waiting.claim(WISH, 60.0, never))
            while waiting._timer is None:  # it has not looked yet
                await asyncio.sleep(0)
            looks: list[object] = []
            monkeypatch.setattr(waiting, "_sweep", partial(_noted, waiting._sweep, looks))
            clock.set(clock.now() - 3_600_000)
            async with asyncio.timeout(10):
                while not looks:
                    await asyncio.sleep(0)
            waiting.close()
            assert await asking == []
            await waiting.idle()

    asyncio.run(waited())


async def _noted(call: Callable[[], Coroutine[Any, Any, None]], calls: list[object]) -> None:
    calls.append(call)
    await call()


def test_whoever_waits_is_let_go_when_it_closes() -> None:
    async def waited() -> list[object]:
        async def never() -> None:
            await asyncio.Event().wait()

        with Scheduler("memory:") as cue:
            waiting = Waiting(AsyncScheduler(cue))
            asking = asyncio.create_task(waiting.claim(WISH, 30.0, never))
            await asyncio.sleep(0)
            waiting.close()
            return list(await asking)

    assert asyncio.run(waited()) == []


@pytest.mark.parametrize("wait_seconds", [0.0, 30.0])
@pytest.mark.parametrize("turns", range(8))
def test_what_was_taken_for_a_request_that_was_cut_short_goes_back(
    turns: int, wait_seconds: float
) -> None:
    """Whatever turn of the loop it was cut in: the end of the server does so."""

    async def cut() -> tuple[Job, bool]:
        async def never() -> None:
            await asyncio.Event().wait()

        with Scheduler("memory:") as cue:
            waiting = Waiting(AsyncScheduler(cue))
            job_id = cue.schedule(queue="left").id
            asking = asyncio.create_task(waiting.claim(WISH, wait_seconds, never))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            [answer] = await asyncio.gather(asking, return_exceptions=True)
            waiting.close()
            async with asyncio.timeout(30):
                await waiting.idle()
            return cue.job(job_id), isinstance(answer, list)

    job, answered = asyncio.run(cut())
    expected = (State.DISPATCHED, 1) if answered else (State.SCHEDULED, 0)
    assert (job.state, job.attempt) == expected
