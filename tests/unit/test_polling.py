"""How long the loops rest before they look again: as long as the store says, and not in step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncue.aio import AsyncScheduler
from oncue.api.waiting import TROUBLE_MS, Waiting, _Shared
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.core.moment import LATEST, Moment
from oncue.core.polling import POLL_SECONDS, about
from oncue.core.sharing import Taker
from oncue.engine.claiming import Claiming
from oncue.ports.clock import Clock
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.worker.source import LocalClaimSource


class CostlyStore(MemoryStore):
    """Wants to be looked at only now and then."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.traits = self.traits._replace(poll_seconds=2.0)


def test_a_rest_is_spread_below_its_length() -> None:
    assert about(2.0, lambda: 0.0) == 1.5
    assert about(2.0, lambda: 0.5) == 1.75
    assert about(2.0, lambda: 1.0) == 2.0


def test_two_rests_differ() -> None:
    assert len({about(1.0) for _ in range(100)}) > 90


def test_memory_is_looked_at_as_often_as_the_default_says() -> None:
    assert MemoryStore().traits.poll_seconds == pytest.approx(POLL_SECONDS)


def test_a_worker_asks_the_store_how_long_to_rest() -> None:
    cue = Scheduler(CostlyStore(FakeClock()))
    assert LocalClaimSource(cue, "ada").poll_seconds == 2.0


def test_requests_that_wait_look_again_after_a_share_of_it() -> None:
    clock = FakeClock()
    now = clock.now()
    waiting = Waiting(AsyncScheduler(Scheduler(CostlyStore(clock), clock=clock)))
    assert waiting._next_look(None, now) == LATEST
    assert waiting._next_look(now + 1, now) == now + 1, "it was not due before the claim"
    rests = [waiting._next_look(now, now) - now for _ in range(50)]
    assert 450 <= min(rests) < max(rests) <= 600


def test_requests_that_wait_go_on_waiting_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    store = CostlyStore(clock)
    waiting = Waiting(AsyncScheduler(Scheduler(store, clock=clock)))
    store.insert([NewJob("a", "q", 1, b"{}", 0, 1)], 1)

    def away(queues: Sequence[str]) -> Moment | None:
        raise StoreUnavailable("the network is down")

    monkeypatch.setattr(store, "next_due", away)
    shared = _Shared(("q",), [], [Taker("w", 1), Taker("x", 1)], Claiming(store))
    taken, again = waiting._take(shared, clock.now())
    assert [len(items) for items in taken] == [1, 0], "what was taken is handed out"
    assert again == {"q": clock.now() + TROUBLE_MS}
