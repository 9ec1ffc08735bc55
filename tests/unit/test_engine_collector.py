"""The collector: items of the inbox go to the sinks of their queues, by way of the dispatchers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from oncue.core.errors import SinkDown, StoreUnavailable
from oncue.core.job import Delivery
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.ports.inbox import Accept
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from tests.unit.inbox_desk import InboxDesk


class Place:
    """An inbox with an engine on it, whose sink is in memory."""

    def __init__(self) -> None:
        self.desk = InboxDesk()
        self.sink = MemorySink()
        self.engine = Engine(Node.of(self.desk.store, self.desk.clock), lambda _: self.sink, "e")
        self.engine.step_all()

    def set(self, **settings: object) -> None:
        [seen] = [one for one in self.desk.store.queues() if one.name == "out"]
        assert self.desk.store.put_queue(seen, Queue("out", sink="memory:x", **settings))  # type: ignore[arg-type]
        self.engine.node.policies.forget()

    def steps(self, count: int = 3) -> None:
        for _ in range(count):
            self.desk.clock.advance(1)
            self.engine.step_all()

    def delivered(self) -> list[str]:
        return [one.id for one in self.sink.deliveries]


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.engine.stop(10)
    place.desk.store.close()


def test_an_item_of_a_queue_with_a_sink_is_delivered_without_a_copy(place: Place) -> None:
    place.desk.put("a", place.desk.now, {"M": {"n": {"N": "1"}}})
    place.desk.client.asked.clear()
    place.steps(1)
    [delivery] = place.sink.deliveries
    assert delivery == Delivery("a", place.desk.now - 1000, b'{"n":1}', 1, None, "out")
    assert place.desk.left() == []
    puts = place.desk.client.requests("put_item")
    assert not [one for one in puts if one["Item"]["pk"]["S"][:2] in ("i#", "w#")]
    assert not place.desk.client.requests("transact_write_items")


@pytest.mark.parametrize(
    "settings", [{"paused": True}, {"rate_per_second": 5.0}, {"concurrency": 5}]
)
def test_what_needs_a_job_becomes_one(place: Place, settings: dict[str, object]) -> None:
    place.set(retention_seconds=60, **settings)
    place.desk.put("a", place.desk.now)
    place.steps()
    job = place.desk.store.get("a")
    assert job is not None
    assert job.state is (State.SCHEDULED if "paused" in settings else State.SUCCEEDED)
    assert place.desk.left() == []


def test_a_sink_that_is_down_gets_the_items_when_it_works_again(place: Place) -> None:
    place.sink.fail_next(SinkDown("closed for today"))
    place.desk.put("a", place.desk.now)
    place.steps(1)
    assert place.delivered() == []
    assert len(place.desk.left()) == 1
    place.steps(5)
    assert place.delivered() == ["a"]
    assert place.desk.left() == []


def test_a_batch_that_could_not_be_settled_is_settled_later_and_not_delivered_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.desk.put("a", place.desk.now)
    with monkeypatch.context() as trouble:
        trouble.setattr(place.desk.store.table, "write_each", _unavailable)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                place.steps(1)
    assert len(place.desk.left()) == 1
    place.steps(2)
    assert place.delivered() == ["a"]
    assert place.desk.left() == []


def _unavailable(writes: Sequence[object]) -> list[bool]:
    raise StoreUnavailable("no answer")


def test_an_engine_that_stops_lets_go_of_the_inbox(place: Place) -> None:
    place.steps(1)
    assert {lease.holder for lease in place.desk.leases()} == {"e"}
    place.engine.stop(10)
    assert {lease.holder for lease in place.desk.leases()} == {""}


def test_items_of_all_partitions_are_delivered(place: Place) -> None:
    for n in range(50):
        place.desk.put(f"j{n}", place.desk.now, shard=n % 3 > 0)
    place.steps(2)
    assert sorted(place.delivered()) == sorted(f"j{n}" for n in range(50))


def test_a_store_without_an_inbox_has_no_collector() -> None:
    store = MemoryStore()
    engine = Engine(Node.of(store, store.clock), lambda _: MemorySink())
    assert [loop.name for loop in engine._loops() if "collector" in loop.name] == []


class BrokenInbox:
    """Raises at each step."""

    def step(self, holder: str, now: Moment, accept: Accept) -> float:
        raise StoreUnavailable("no answer")

    def leave(self, now: Moment) -> None:
        raise StoreUnavailable("no answer")


def test_trouble_with_the_inbox_does_not_keep_an_engine_from_stopping() -> None:
    store = MemoryStore()
    store.inbox = BrokenInbox()  # type: ignore[attr-defined]
    engine = Engine(Node.of(store, store.clock), lambda _: MemorySink())
    engine.start()
    assert engine.stop(10)
