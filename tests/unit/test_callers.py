"""Access tokens beside an event loop that must not wait for the store. Nothing here measures time:
a generous bound only ends a broken test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from oncue import Scheduler
from oncue.api.app import Service
from oncue.api.callers import Callers
from oncue.api.inline import whole_request
from oncue.clock import FakeClock
from oncue.core.access import AccessToken, id_of
from oncue.core.errors import StoreUnavailable, StoreUnusable
from oncue.stores.memory import MemoryStore
from oncue.usecases.tokens import STALE_SECONDS, Access

SOON = 20.0
STRANGER = f"oncue_{'0' * 16}_{'x' * 43}"


class Gate(MemoryStore):
    """Its tokens are read only while `open` is set."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        self.reads = 0
        self.trouble: Exception | None = None

    def tokens(self) -> list[AccessToken]:
        self.reads += 1
        self.reached.set()
        assert self.open.wait(SOON)
        if self.trouble is not None:
            raise self.trouble
        return super().tokens()

    def shut(self) -> None:
        self.open.clear()
        self.reached.clear()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[Gate]:
    store = Gate(clock)
    yield store
    store.open.set()


@pytest.fixture
def text(store: Gate, clock: FakeClock) -> str:
    return Access(store, clock).create("ci", ["read"])[1]


@asynccontextmanager
async def asked(store: Gate, clock: FakeClock) -> AsyncIterator[Callers]:
    """Callers who have been asked once, so that they know the tokens."""
    with ThreadPoolExecutor(1) as thread:
        callers = Callers(store, clock, thread)
        await callers.known(None)
        try:
            yield callers
        finally:
            callers.close()
            store.open.set()


async def is_known(callers: Callers, text: str) -> bool:
    token_id = id_of(text)
    assert token_id is not None
    return (await callers.known(token_id)).scopes_of(token_id, text) is not None


async def passed(condition: threading.Event) -> None:
    assert await asyncio.to_thread(condition.wait, SOON)


def test_a_known_token_needs_no_read_and_waits_for_none(
    store: Gate, clock: FakeClock, text: str
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.shut()
            clock.advance(STALE_SECONDS - 0.001)
            assert await is_known(callers, text)

    asyncio.run(scene())


def test_known_tokens_hold_for_half_a_minute_while_the_store_is_away(
    store: Gate, clock: FakeClock, text: str
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.trouble = StoreUnavailable("away")
            clock.advance(STALE_SECONDS - 0.001)
            assert await is_known(callers, text)
            clock.advance(0.001)
            with pytest.raises(StoreUnavailable):
                await is_known(callers, text)
            store.trouble = None
            assert await is_known(callers, text)

    asyncio.run(scene())


def test_a_store_in_lasting_trouble_lets_nobody_in(
    store: Gate, clock: FakeClock, text: str
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.trouble = StoreUnusable("replaced")
            with pytest.raises(StoreUnusable):
                await is_known(callers, STRANGER)
            for _ in range(2):
                with pytest.raises(StoreUnusable):
                    await is_known(callers, text)

    asyncio.run(scene())


@pytest.mark.parametrize("quiet_seconds", [0.0, STALE_SECONDS])
@pytest.mark.parametrize("read_seconds", [0.0, 2.0])
def test_an_unknown_token_is_no_trouble_after_a_quiet_time_or_a_slow_read(
    store: Gate, clock: FakeClock, quiet_seconds: float, read_seconds: float
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            clock.advance(quiet_seconds)
            store.shut()
            asking = asyncio.create_task(is_known(callers, STRANGER))
            await passed(store.reached)
            clock.advance(read_seconds)
            store.open.set()
            assert not await asyncio.wait_for(asking, SOON)
            before = store.reads
            assert not await is_known(callers, STRANGER)
            assert store.reads == before, "it is remembered for a second"

    asyncio.run(scene())


def test_after_a_quiet_time_the_tokens_are_read_before_they_are_trusted(
    store: Gate, clock: FakeClock, text: str
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            assert callers._unwatch is not None
            callers._unwatch()  # on a network, news may get lost
            clock.advance(STALE_SECONDS - 1)
            await callers._read()
            clock.advance(1)
            callers._read_again()  # nobody asks any more: this was the last one
            Access(store, clock).revoke("ci")
            assert not await is_known(callers, text)

    asyncio.run(scene())


def test_after_a_quiet_time_known_tokens_hold_while_the_store_is_away(
    store: Gate, clock: FakeClock, text: str
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            clock.advance(STALE_SECONDS - 1)
            await callers._read()
            clock.advance(1)
            callers._read_again()
            store.trouble = StoreUnavailable("away")
            for _ in range(2):
                assert await is_known(callers, text)

    asyncio.run(scene())


def test_all_who_are_unknown_wait_for_one_read(store: Gate, clock: FakeClock) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.shut()
            before = store.reads
            strangers = [f"oncue_{number:016x}_{'x' * 43}" for number in range(20)]
            waiting = [asyncio.create_task(is_known(callers, one)) for one in strangers]
            await passed(store.reached)
            store.open.set()
            assert await asyncio.gather(*waiting) == [False] * 20
            assert store.reads == before + 1
            assert not await is_known(callers, strangers[0])
            assert store.reads == before + 1, "remembered"

    asyncio.run(scene())


def test_who_comes_during_a_read_waits_for_the_next(store: Gate, clock: FakeClock) -> None:
    """The token may have been made after the read under way had begun."""

    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.shut()
            first = asyncio.create_task(is_known(callers, STRANGER))
            await passed(store.reached)
            elsewhere = MemoryStore(clock)
            token, text = Access(elsewhere, clock).create()
            second = asyncio.create_task(is_known(callers, text))
            await asyncio.sleep(0)  # it has begun to wait
            store._tokens = {token.id: token}  # without a word to listeners
            store.open.set()
            assert [await first, await second] == [False, True]

    asyncio.run(scene())


def test_news_of_a_change_is_read_at_once(store: Gate, clock: FakeClock, text: str) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.reached.clear()
            await asyncio.to_thread(Access(store, clock).revoke, "ci")
            while await is_known(callers, text):
                await passed(store.reached)

    asyncio.run(asyncio.wait_for(scene(), SOON))


def test_while_requests_come_the_tokens_are_read_again_and_again(
    store: Gate, clock: FakeClock, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.api.callers.FRESH_SECONDS", 0.0)

    async def scene() -> None:
        async with asked(store, clock) as callers:
            assert await is_known(callers, text)
            store._tokens = {}  # without a word to listeners
            while await is_known(callers, text):
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scene(), SOON))


def test_a_read_that_hangs_is_not_waited_for_in_vain(
    store: Gate, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with asked(store, clock) as callers:
            store.shut()
            monkeypatch.setattr("oncue.api.callers.WAIT_SECONDS", 0.0)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="in time"):
                    await is_known(callers, STRANGER)

    asyncio.run(scene())


# -- the whole service -----------------------------------------------------------------------------


async def get(service: Service, path: str, bearer: str) -> int:
    """The status of an answer."""
    headers = {b"host": b"localhost", b"authorization": f"Bearer {bearer}".encode()}
    answer = await service.respond(whole_request("GET", path, b"", headers, b""))
    assert answer is not None
    return answer.status


def test_a_store_that_hangs_holds_up_neither_health_nor_known_callers(
    store: Gate, clock: FakeClock, text: str
) -> None:
    cue = Scheduler(store, clock=clock)

    async def scene() -> None:
        service = Service(cue, open_to_all=False)
        try:
            assert await get(service, "/livez", "") == 200
            assert store.reads == 0, "health needs no store"
            assert await get(service, "/jobs", text) == 200
            store.shut()
            stranger = asyncio.create_task(get(service, "/jobs", STRANGER))
            await passed(store.reached)
            assert await get(service, "/livez", "") == 200
            assert await get(service, "/livez", STRANGER) == 200
            assert await get(service, "/readyz", "") == 200, "its tokens hang, not the store"
            assert await get(service, "/jobs", text) == 200
            assert not stranger.done()
            store.open.set()
            assert await stranger == 401
            store.trouble = StoreUnavailable("away")
            clock.advance(STALE_SECONDS)
            assert await get(service, "/jobs", text) == 503
            assert await get(service, "/livez", "") == 200
        finally:
            store.open.set()
            service.close()

    asyncio.run(asyncio.wait_for(scene(), SOON))
