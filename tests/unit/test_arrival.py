from __future__ import annotations

import asyncio

import pytest

from oncue.api.arrival import PENDING, at_once, in_time


def test_what_is_there_is_answered_at_once() -> None:
    async def arrived() -> int:
        return 7

    assert asyncio.run(in_time(arrived(), 0)) == 7


def test_what_comes_later_is_waited_for() -> None:
    async def main() -> int:
        door = asyncio.Event()

        async def arriving() -> int:
            await door.wait()
            await asyncio.sleep(0)
            return 7

        asyncio.get_running_loop().call_soon(door.set)
        return await in_time(arriving(), 60)

    assert asyncio.run(main()) == 7


def test_what_does_not_come_in_time_is_given_up() -> None:
    gave_up = []

    async def arriving() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            gave_up.append(True)

    with pytest.raises(TimeoutError):
        asyncio.run(in_time(arriving(), 0))
    assert gave_up == [True]


def test_what_goes_wrong_later_is_told() -> None:
    async def arriving() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(in_time(arriving(), 60))


def test_whoever_is_cancelled_while_waiting_is_cancelled() -> None:
    async def main() -> bool:
        task = asyncio.create_task(in_time(asyncio.Event().wait(), 60))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_a_result_that_needs_no_waiting_is_there_at_once() -> None:
    async def arrived() -> int:
        return 7

    assert at_once(arrived()) == 7


def test_a_result_that_must_be_waited_for_is_given_up() -> None:
    gave_up = []

    async def arriving() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            gave_up.append(True)

    assert at_once(arriving()) is PENDING
    assert gave_up
