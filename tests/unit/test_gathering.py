from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oncue.core.errors import IllegalState, StoreError, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.usecases.gathering import Gathering


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def one() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as one:
        yield one


class Groups:
    """Answers each number with its double, and remembers what came together."""

    def __init__(self) -> None:
        self.done: list[list[int]] = []

    def __call__(self, requests: list[int]) -> list[int | BaseException]:
        self.done.append(requests)
        return [request * 2 for request in requests]


def test_what_is_asked_in_one_turn_is_done_together(threads: ThreadPoolExecutor) -> None:
    groups = Groups()

    async def main() -> list[int]:
        gathering = Gathering[int, int](groups, threads, limit=100)
        return await asyncio.gather(*(gathering.ask(n) for n in range(10)))

    assert asyncio.run(main()) == [n * 2 for n in range(10)]
    assert groups.done == [list(range(10))]


def test_what_comes_while_a_group_is_under_way_makes_the_next_groups(
    threads: ThreadPoolExecutor,
) -> None:
    groups = Groups()

    async def main() -> None:
        gathering = Gathering[int, int](groups, threads, limit=3)
        first = gathering.ask(0)
        await asyncio.sleep(0)  # the turn is over: it goes alone
        await asyncio.gather(first, *(gathering.ask(n) for n in range(1, 8)))

    asyncio.run(main())
    assert groups.done == [[0], [1, 2, 3], [4, 5, 6], [7]]


def test_several_requests_of_one_caller_stay_together(threads: ThreadPoolExecutor) -> None:
    groups = Groups()

    async def main() -> list[Any]:
        gathering = Gathering[int, int](groups, threads, limit=4)
        asked = (gathering.ask(0), gathering.ask_all([1, 2]), gathering.ask_all([3, 4, 5]))
        return [*await asyncio.gather(*asked), await gathering.ask_all([])]

    assert asyncio.run(main()) == [0, [2, 4], [6, 8, 10], []]
    assert groups.done == [[0, 1, 2, 3, 4, 5], []]


def test_as_many_groups_as_allowed_are_under_way(threads: ThreadPoolExecutor) -> None:
    begun = threading.Barrier(3)

    def apply(requests: list[int]) -> list[int]:
        begun.wait(20)  # all three groups are here at the same time
        return requests

    async def main() -> list[int]:
        gathering = Gathering[int, int](apply, threads, limit=2, groups=3)
        return await asyncio.gather(*(gathering.ask(n) for n in range(6)))

    assert asyncio.run(main()) == list(range(6))


def test_many_requests_are_divided_among_the_groups_and_few_are_not(
    threads: ThreadPoolExecutor,
) -> None:
    groups = Groups()

    async def main(count: int) -> None:
        gathering = Gathering[int, int](groups, threads, limit=1000, groups=4)
        await asyncio.gather(*(gathering.ask(n) for n in range(count)))

    asyncio.run(main(31))
    asyncio.run(main(64))
    asyncio.run(main(400))
    assert sorted(map(len, groups.done)) == [31, 64, 100, 100, 100, 100]


class Held:
    """Calls that are made one after the other, each once it is let go."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._open = threading.Semaphore(0)

    def __call__(self, requests: list[int]) -> list[int]:
        self.begun.append(requests)
        assert self._open.acquire(timeout=20)
        return requests

    def let_go(self, calls: int = 1) -> None:
        self._open.release(calls)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def asking_again(gathering: Gathering[int, int], callers: int, times: int) -> Any:
    async def caller(number: int) -> None:
        for _ in range(times):
            await gathering.ask(number)

    return asyncio.gather(*map(caller, range(callers)))


def test_many_are_divided_in_two_and_one_half_is_sent_ahead(one: ThreadPoolExecutor) -> None:
    held = Held()

    async def main() -> None:
        gathering = Gathering[int, int](held, one, limit=1000, ahead=True)
        asked = asking_again(gathering, callers=99, times=1)
        await turns(2)
        assert gathering._sent == 2
        held.let_go(2)
        await asked

    asyncio.run(main())
    assert held.begun == [list(range(50)), list(range(50, 99))]


def test_what_is_sent_ahead_waits_in_the_thread_while_the_loop_goes_on(
    one: ThreadPoolExecutor,
) -> None:
    held = Held()

    async def main() -> None:
        gathering = Gathering[int, int](held, one, limit=2, ahead=True)
        asked = [gathering.ask(n) for n in range(4)]
        await turns(1)
        assert gathering._sent == 2
        last = gathering.ask(4)
        await turns(1)
        assert gathering._sent == 2
        held.let_go(3)
        await asyncio.gather(*asked, last)

    asyncio.run(main())
    assert held.begun == [[0, 1], [2, 3], [4]]


def test_a_few_are_not_sent_ahead_of_many_but_join_them(one: ThreadPoolExecutor) -> None:
    """Otherwise each of them would be a group of its own for ever."""
    held = Held()

    async def main() -> None:
        gathering = Gathering[int, int](held, one, limit=1000, ahead=True)
        many = asking_again(gathering, callers=20, times=2)
        await turns(2)
        few = gathering.ask(100)
        held.let_go(2)
        await asyncio.gather(many, few)

    asyncio.run(main())
    assert [len(group) for group in held.begun] == [20, 21]


def test_a_refusal_is_the_answer_to_its_own_request(threads: ThreadPoolExecutor) -> None:
    refusal = IllegalState("not now", State.FAILED)

    async def main() -> list[Any]:
        gathering = Gathering[int, int](
            lambda requests: [refusal if n == 2 else n for n in requests], threads, limit=100
        )
        asked = [gathering.ask(n) for n in (1, 2, 3)]
        return [
            *await asyncio.gather(*asked, return_exceptions=True),
            await gathering.ask_all([2, 5]),
        ]

    assert asyncio.run(main()) == [1, refusal, 3, [refusal, 5]]


@pytest.mark.parametrize(
    "error", [StoreUnavailable, StoreError, ZeroDivisionError, StopIteration, GeneratorExit]
)
def test_trouble_is_everybodys_and_nothing_is_done_again(
    threads: ThreadPoolExecutor, error: type[BaseException]
) -> None:
    groups: list[list[int]] = []

    def apply(requests: list[int]) -> list[int]:
        groups.append(requests)
        if 1 in requests:
            raise error("away")
        return requests

    async def main() -> list[Any]:
        gathering = Gathering[int, int](apply, threads, limit=100)
        asked = (gathering.ask(1), gathering.ask(2))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [*answers, await gathering.ask(3)]

    *failed, after = asyncio.run(main())
    expected = RuntimeError if error is StopIteration else error
    assert [type(answer) for answer in failed] == [expected] * 2
    assert groups == [[1, 2], [3]]
    assert after == 3


def test_whoever_stops_waiting_disturbs_nobody(threads: ThreadPoolExecutor) -> None:
    groups = Groups()

    async def main() -> list[Any]:
        gathering = Gathering[int, int](groups, threads, limit=100)
        gone, staying = gathering.ask(1), gathering.ask(2)
        gone.cancel()
        return [await staying]

    assert asyncio.run(main()) == [4]
    assert groups.done == [[1, 2]]


def test_threads_that_take_nothing_more_answer_everybody(threads: ThreadPoolExecutor) -> None:
    threads.shutdown()

    async def main() -> list[Any]:
        gathering = Gathering[int, int](Groups(), threads, limit=1)
        asked = (gathering.ask(1), gathering.ask(2))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(main())] == [StoreUnavailable] * 2


def test_any_number_of_groups_is_answered_when_there_are_no_threads(
    threads: ThreadPoolExecutor,
) -> None:
    threads.shutdown()

    async def main() -> list[int | BaseException]:
        gathering = Gathering[int, int](Groups(), threads, limit=1)
        asked = asyncio.gather(*(gathering.ask(n) for n in range(2000)), return_exceptions=True)
        return await asyncio.wait_for(asked, 30)

    answers = asyncio.run(main())
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
