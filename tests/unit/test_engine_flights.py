"""A dispatcher with several batches under way, to a sink that takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import SinkDown, StoreUnavailable
from oncue.core.job import Delivery, NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.core.shard import shard_of
from oncue.engine import dispatcher
from oncue.engine.batch import RangeHolder
from oncue.engine.circuit import Circuit
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.ports.store import Store
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.usecases.queues import put_queue

QUEUE = Queue("mail", sink="memory:mail")
PATIENCE = 30.0


class Gate(MemorySink):
    """Each delivery waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)
        self.through = threading.Semaphore(0)
        self.error: Exception | None = None

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self.arrived.release()
        assert self.through.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return super().deliver(queue, batch)


class Scene:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = SystemClock()
        self.sink = Gate()
        put_queue(store, QUEUE)
        node = Node.of(store, self.clock)
        keeper = Keeper(self.clock)
        self.dispatcher = Dispatcher(node, lambda: QUEUE, self.sink, "one", keeper, at_once=3)
        self.ended = threading.Semaphore(0)
        self.dispatcher.woken = self.ended.release
        self.dispatcher._remote = self.dispatcher._waits = True
        self.dispatcher._limit = 2

    def add(self, count: int) -> list[str]:
        now = self.clock.now()
        jobs = [NewJob(f"j{n:03}", "mail", now - 1000, b"{}", 0, now) for n in range(count)]
        self.store.insert(jobs, now)
        return [job.id for job in jobs]

    def states(self, ids: Sequence[str]) -> set[State]:
        jobs = [self.store.get(job_id) for job_id in ids]
        return {job.state for job in jobs if job is not None}

    def free(self) -> list[str]:
        """What another dispatcher could take now."""
        other, now = RangeHolder(self.store, "other"), self.clock.now()
        claims = []
        while (claim := other.claim(QUEUE, 100, now)).deliveries:
            claims.append(claim)
        assert all(claim.settle(None, now) for claim in claims)
        return [job.id for claim in claims for job in claim.deliveries]


@pytest.fixture(params=["memory", "sharded", "sqlite"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    makers: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(),
        "sharded": lambda: MemoryStore(shards=4),
        "sqlite": lambda: SqliteStore(tmp_path / "jobs.db"),
    }
    store = makers[request.param]()
    yield Scene(store)
    store.close()


def test_a_slow_sink_is_given_several_batches_at_once(scene: Scene) -> None:
    added = scene.add(8)
    for _ in range(3):
        assert scene.dispatcher.step() == 0.0
        assert scene.sink.arrived.acquire(timeout=PATIENCE)
    assert scene.dispatcher.step() is None  # as many as may be
    assert not scene.sink.arrived.acquire(blocking=False)
    while len(scene.sink.deliveries) < len(added):
        scene.sink.through.release()
        assert scene.ended.acquire(timeout=PATIENCE)
        scene.dispatcher.step()
    assert scene.dispatcher.finish(PATIENCE)
    assert sorted(one.id for one in scene.sink.deliveries) == added
    assert scene.states(added) == {State.SUCCEEDED}
    later = scene.store.insert([NewJob("z", "mail", 1, b"{}", 0, 1)], 1)
    assert (later, scene.free()) == ({}, ["z"]), "a shard was not let go"


def test_stopping_waits_for_what_is_under_way(scene: Scene) -> None:
    added = scene.add(2)
    scene.dispatcher._limit = 100
    while scene.states(added) != {State.DISPATCHED}:
        assert scene.dispatcher.step() == 0.0
    assert not scene.dispatcher.finish(0)
    for _ in range(3):
        scene.sink.through.release()
    assert scene.dispatcher.finish(PATIENCE)
    assert scene.states(added) == {State.SUCCEEDED}


def test_what_a_flight_raises_is_raised_by_the_next_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = scene.add(1)

    def away(*_: object, **__: object) -> bool:
        raise StoreUnavailable("no answer")

    assert scene.dispatcher.step() == 0.0
    with monkeypatch.context() as patched:
        patched.setattr(type(scene.store), "settle_range", away)
        scene.sink.through.release()
        assert scene.ended.acquire(timeout=PATIENCE)
        with pytest.raises(StoreUnavailable):
            scene.dispatcher.step()
    with pytest.raises(StoreUnavailable):
        scene.dispatcher.step()  # what the flight had met
    scene.dispatcher.step()
    assert scene.states(added) == {State.SUCCEEDED}
    assert len(scene.sink.deliveries) == 1


def test_what_could_not_be_settled_is_settled_before_the_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = scene.add(1)

    def away(*_: object, **__: object) -> bool:
        raise StoreUnavailable("no answer")

    assert scene.dispatcher.step() == 0.0
    with monkeypatch.context() as patched:
        patched.setattr(type(scene.store), "settle_range", away)
        scene.sink.through.release()
        assert scene.dispatcher.finish(PATIENCE)
        assert scene.states(added) == {State.DISPATCHED}
    assert scene.dispatcher.finish(0)
    assert scene.dispatcher.settled
    assert scene.states(added) == {State.SUCCEEDED}
    assert scene.free() == []


def test_a_sink_that_is_down_gives_everything_back_and_is_waited_for_once(scene: Scene) -> None:
    added = scene.add(6)
    for _ in range(3):
        assert scene.dispatcher.step() == 0.0
    scene.sink.error = SinkDown("down")
    for _ in range(3):
        scene.sink.through.release()
    assert scene.dispatcher.finish(PATIENCE)
    pause = scene.dispatcher.step()
    assert pause is not None
    assert 0 < pause <= 1
    assert sorted(scene.free()) == added


def test_troubles_of_batches_that_were_under_way_together_count_once() -> None:
    clock = FakeClock()
    circuit = Circuit(clock)
    assert [circuit.trouble() for _ in range(3)] == [1.0, 1.0, 1.0]
    clock.advance(1)
    assert circuit.trouble() == 2.0


def test_a_fast_sink_is_given_one_batch_after_the_other() -> None:
    store = MemoryStore()
    scene = Scene(store)
    scene.dispatcher._remote = scene.dispatcher._waits = False
    added = scene.add(4)
    for _ in added:
        scene.sink.through.release()
    assert scene.dispatcher.step() == 0.0
    assert [one.id for one in scene.sink.deliveries] == added[:2]
    assert scene.dispatcher.finish(0)


def test_batches_under_way_together_have_no_more_payload_than_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "BATCH_BYTES", 12 * len(b"{}"))
    scene.add(40)
    scene.dispatcher.step()
    scene.sink.through.release()
    assert scene.ended.acquire(timeout=PATIENCE)
    for _ in range(3):
        scene.dispatcher.step()
        assert scene.sink.arrived.acquire(timeout=PATIENCE)
    for _ in range(3):
        scene.sink.through.release()
    assert scene.dispatcher.finish(PATIENCE)
    assert len(scene.sink.deliveries) == 2 + 12


def test_the_size_of_payloads_is_known_before_the_first_batch_is_delivered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "BATCH_BYTES", 3 * len(b"{}"))
    scene.add(40)
    for _ in range(3):
        scene.dispatcher.step()
        assert scene.sink.arrived.acquire(timeout=PATIENCE)
    for _ in range(3):
        scene.sink.through.release()
    assert scene.dispatcher.finish(PATIENCE)
    assert len(scene.sink.deliveries) == 2 + 1 + 1


@pytest.mark.parametrize("beside", [False, True])
def test_claims_and_settlements_of_many_threads_leave_nothing_held(
    scene: Scene, beside: bool
) -> None:
    """One thread claims, the others settle in any order: no job is handed out twice, and no shard
    stays held."""
    added = scene.add(300)
    holder = RangeHolder(scene.store, "one")
    taken: list[str] = []
    workers: list[threading.Thread] = []
    while batch := holder.claim(QUEUE, 7, scene.clock.now(), beside=beside):
        if not batch.deliveries:
            if len(taken) == len(added):
                break
            continue
        taken += [job.id for job in batch.deliveries]
        settle = threading.Thread(target=batch.settle, args=({}, scene.clock.now()))
        settle.start()
        workers.append(settle)
    for worker in workers:
        worker.join(PATIENCE)
    assert sorted(taken) == added
    assert scene.states(added) == {State.SUCCEEDED}
    assert holder._in_flight == {}


def test_the_next_claim_does_not_wait_for_the_settlement_of_a_full_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(MemoryStore(shards=4))
    added = scene.add(2)
    holder, now = RangeHolder(scene.store, "one"), scene.clock.now()
    settle_range = scene.store.settle_range
    found: list[str] = []

    def claim() -> None:
        batch = holder.claim(QUEUE, 1, now, beside=True)
        found.extend(job.id for job in batch.deliveries)
        batch.settle({}, now)

    def settle(*args: Any, **kwargs: Any) -> bool:
        if not found:
            other = threading.Thread(target=claim, daemon=True)
            other.start()
            other.join(PATIENCE)
        return settle_range(*args, **kwargs)

    first = holder.claim(QUEUE, 1, now, beside=True)
    monkeypatch.setattr(scene.store, "settle_range", settle)
    assert first.settle({}, now)
    assert sorted([first.deliveries[0].id, *found]) == added
    assert holder._in_flight == {}
    assert scene.free() == []


def test_a_settlement_is_repeated_if_letting_go_met_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(MemoryStore())
    added = scene.add(2)
    holder, now = RangeHolder(scene.store, "one"), scene.clock.now()
    one, two = (holder.claim(QUEUE, 1, now) for _ in range(2))
    settle_range = scene.store.settle_range
    met: list[RangeClaim] = []

    def settle(claim: RangeClaim, *args: Any, **kwargs: Any) -> bool:
        if not met:  # the other one is settled meanwhile: both leave something in flight
            met.append(claim)
            two.settle({}, now)
        if not claim.jobs:
            raise StoreUnavailable("no answer")
        return settle_range(claim, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(scene.store, "settle_range", settle)
        with pytest.raises(StoreUnavailable):
            one.settle({}, now)
    assert one.settle({}, now)
    assert scene.states(added) == {State.SUCCEEDED}
    assert holder._in_flight == {}


def test_nothing_is_claimed_until_it_is_known_whether_a_shard_was_let_go(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scene.add(2)
    holder, now = RangeHolder(scene.store, "one"), scene.clock.now()
    one = holder.claim(QUEUE, 1, now)
    settle_range = scene.store.settle_range

    def settle(*args: Any, **kwargs: Any) -> bool:
        settle_range(*args, **kwargs)
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(scene.store, "settle_range", settle)
        with pytest.raises(StoreUnavailable):
            one.settle({}, now)
    assert not holder.claim(QUEUE, 1, now).deliveries
    assert one.settle({}, now), "it was applied, and nobody took it over"
    two = holder.claim(QUEUE, 1, now)
    assert [job.id for job in (*one.deliveries, *two.deliveries)] == [first, second]
    assert two.settle({}, now)
    assert scene.states([first, second]) == {State.SUCCEEDED}


def test_after_a_shard_could_not_be_let_go_work_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.add(2)
    holder, now = RangeHolder(scene.store, "one"), scene.clock.now()
    one = holder.claim(QUEUE, 1, now)

    def settle(*args: Any, **kwargs: Any) -> bool:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(scene.store, "settle_range", settle)
        with pytest.raises(RuntimeError):
            one.settle({}, now)
    one.forget()
    assert holder.claim(QUEUE, 2, now).deliveries


def test_a_settlement_that_meets_a_claim_leaves_the_concurrency_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore(shards=2)
    queue = replace(QUEUE, concurrency=6)
    put_queue(store, queue)
    names = [f"j{n}" for n in range(100)]
    here, there = ([name for name in names if shard_of(name, 2) == n][:9] for n in range(2))
    store.insert([NewJob(name, "mail", 1, b"{}", 0, 1) for name in here], 1)
    holder = RangeHolder(store, "one")
    one, two = (holder.claim(queue, 2, 1) for _ in range(2))
    batches = [two]
    claiming = threading.Thread(target=lambda: batches.append(holder.claim(queue, 4, 1)))
    settle_range = store.settle_range

    def settle(*args: Any, **kwargs: Any) -> bool:
        claiming.start()
        claiming.join(0.1)  # it may be over by then; if it waits for the settlement, go on
        return settle_range(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(store, "settle_range", settle)
        one.settle({}, 1)
    claiming.join(PATIENCE)
    store.insert([NewJob(name, "mail", 1, b"{}", 0, 1) for name in there], 1)
    batches.append(RangeHolder(store, "other").claim(queue, 100, 1))
    assert sum(len(batch.deliveries) for batch in batches) == 6
