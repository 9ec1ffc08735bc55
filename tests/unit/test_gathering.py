from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from oncue import Scheduler
from oncue.clock import FakeClock
from oncue.core.errors import IllegalState, NotFound, StoreError, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.stores.memory import MemoryStore
from oncue.usecases.gathering import Gathering, isolated, together


class Threaded(MemoryStore):
    """Runs what is submitted in another thread, as a store with a disk does."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(1)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(call)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def store() -> Any:
    store = Threaded()
    yield store
    store.close()


def one_by_one(store: MemoryStore) -> Any:
    return isolated(store, FakeClock().monotonic)


def test_what_is_asked_in_one_turn_is_done_together(store: Threaded) -> None:
    groups: list[list[int]] = []

    def apply(requests: list[int]) -> list[int]:
        groups.append(requests)
        return [request * 2 for request in requests]

    async def main() -> list[int]:
        gathering = Gathering[int, int](together(store, apply), limit=100)
        return await asyncio.gather(*(gathering.ask(n) for n in range(10)))

    assert asyncio.run(main()) == [n * 2 for n in range(10)]
    assert groups == [list(range(10))]


def test_what_comes_while_a_group_is_under_way_makes_the_next_groups(store: Threaded) -> None:
    groups: list[list[int]] = []

    def apply(requests: list[int]) -> list[int]:
        groups.append(requests)
        return requests

    async def main() -> None:
        gathering = Gathering[int, int](together(store, apply), limit=3)
        first = gathering.ask(0)
        await asyncio.sleep(0)  # the turn is over: it goes alone
        await asyncio.gather(first, *(gathering.ask(n) for n in range(1, 8)))

    asyncio.run(main())
    assert groups == [[0], [1, 2, 3], [4, 5, 6], [7]]


def test_a_refusal_is_the_answer_of_its_own_call(store: Threaded) -> None:
    def refuse() -> None:
        raise IllegalState("not now", State.FAILED)

    async def main() -> list[Any]:
        gathering = Gathering[Callable[[], Any], Any](one_by_one(store), limit=100)
        asked = [gathering.ask(lambda: 1), gathering.ask(refuse), gathering.ask(lambda: 3)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    first, second, third = asyncio.run(main())
    assert (first, third) == (1, 3)
    assert isinstance(second, IllegalState)


def test_trouble_with_the_store_is_everybodys_and_is_not_asked_for_again(store: Threaded) -> None:
    groups: list[list[int]] = []

    def apply(requests: list[int]) -> list[int]:
        groups.append(requests)
        raise StoreUnavailable("away")

    async def main() -> list[Any]:
        gathering = Gathering[int, int](together(store, apply), limit=100)
        asked = (gathering.ask(1), gathering.ask(2))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(main())] == [StoreUnavailable] * 2
    assert groups == [[1, 2]]


@pytest.mark.parametrize("defect", [ZeroDivisionError(), StoreError("CHECK constraint failed")])
def test_a_request_that_cannot_be_stored_fails_alone(store: Threaded, defect: Exception) -> None:
    def apply(requests: list[int]) -> list[int]:
        if 2 in requests:
            raise defect
        return requests

    async def main() -> list[Any]:
        gathering = Gathering[int, int](together(store, apply), limit=100)
        asked = [gathering.ask(n) for n in range(4)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert asyncio.run(main()) == [0, 1, defect, 3]


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, StopIteration, StoreError, StoreUnavailable, GeneratorExit]
)
def test_a_failing_call_fails_alone_and_no_other_is_repeated(
    store: Threaded, error: type[BaseException]
) -> None:
    done: list[int] = []

    def failing() -> None:
        raise error("no")

    async def main() -> list[Any]:
        gathering = Gathering[Callable[[], Any], Any](one_by_one(store), limit=100)
        asked = [gathering.ask(partial(done.append, n)) for n in range(3)]
        asked = [*asked, gathering.ask(failing), gathering.ask(partial(done.append, 3))]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [*answers, await gathering.ask(lambda: "and it goes on")]

    *before, bad, last, after = asyncio.run(main())
    assert [*before, last] == [None] * 4
    assert isinstance(bad, RuntimeError if error is StopIteration else error)
    assert after == "and it goes on"
    assert done == [0, 1, 2, 3]


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scheduler]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Scheduler(url, clock=FakeClock()) as cue:
        yield cue


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, StopIteration, StoreError, StoreUnavailable, apsw.ConstraintError]
)
def test_on_every_store_a_failing_call_fails_alone_and_the_others_are_done_once(
    cue: Scheduler, error: type[Exception]
) -> None:
    def failing() -> None:
        raise error("no")

    def refused() -> None:
        raise IllegalState("not now", State.FAILED)

    async def main() -> list[Any]:
        gathering = Gathering[Callable[[], Any], Any](
            isolated(cue.store, cue.clock.monotonic), limit=100
        )
        asked = [gathering.ask(partial(cue.schedule, n)) for n in range(20)]
        asked = [*asked, gathering.ask(failing), gathering.ask(refused)]
        asked += [gathering.ask(partial(cue.schedule, n)) for n in range(20, 40)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    answers = asyncio.run(main())
    failed = {place for place, answer in enumerate(answers) if isinstance(answer, Exception)}
    assert failed == {20, 21}
    assert isinstance(answers[21], IllegalState)
    assert sorted(job.payload for job in cue.jobs()) == list(range(40))


def test_whoever_stops_waiting_disturbs_nobody(store: Threaded) -> None:
    async def main() -> list[Any]:
        gathering = Gathering[Callable[[], Any], Any](one_by_one(store), limit=100)
        gone, staying = gathering.ask(lambda: 1), gathering.ask(lambda: 2)
        gone.cancel()
        return [await staying]

    assert asyncio.run(main()) == [2]


def test_a_store_that_takes_nothing_more_answers_everybody() -> None:
    class Closed(MemoryStore):
        def submit(self, call: Callable[[], Any]) -> Future[Any]:
            raise NotFound("closed")

    async def main() -> list[Any]:
        gathering = Gathering[Callable[[], Any], Any](one_by_one(Closed()), limit=100)
        asked = (gathering.ask(lambda: 1), gathering.ask(lambda: 2))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(main())] == [NotFound] * 2


def test_calls_that_take_long_do_not_share_one_long_transaction(tmp_path: Path) -> None:
    clock = FakeClock()
    groups: list[int] = []

    def slow(seconds: float) -> None:
        clock.advance(seconds)
        slow_cue.schedule(seconds)

    async def main() -> list[Any]:
        store = slow_cue.store
        gathering = Gathering[Callable[[], Any], Any](isolated(store, clock.monotonic), limit=100)
        asked = [gathering.ask(partial(slow, seconds)) for seconds in (0.02, 0.02, 0.02, 9, 9, 0)]
        asked.append(gathering.ask(lambda: 1 / 0))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    with Scheduler(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as slow_cue:
        slow_cue.store.watch(lambda *_: groups.append(len(list(slow_cue.jobs()))))
        *answers, failed = asyncio.run(main())
        assert len(list(slow_cue.jobs())) == 6
    assert answers == [None] * 6
    assert isinstance(failed, ZeroDivisionError)
    assert groups[:3] == [3, 4, 5]
