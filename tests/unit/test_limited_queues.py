"""Limited queues as worker and dispatcher see them: they rest until they may go on."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncue import HandledJob, Scheduler, State
from oncue.clock import FakeClock
from oncue.core.queue import Queue
from oncue.sinks.memory import named
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.statements import load
from oncue.testing import HandDriven
from oncue.usecases.queues import put_queue
from oncue.worker.worker import Worker
from tests.contract.desk import DELIVERY, Desk, Q
from tests.unit.statements import Statements
from tests.unit.test_engine_dispatcher import Bench


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def bench() -> Bench:
    return Bench()


def moments_of(cue: HandDriven, seconds: float) -> list[int]:
    """The milliseconds at which the jobs of queue q were handled or delivered."""
    start, seen = cue.clock.now(), []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        seen.append(cue.clock.now() - start)

    cue.advance(seconds)
    return seen


def test_workers_spread_a_burst_over_the_seconds_it_takes(url: str) -> None:
    with HandDriven(url) as cue:
        cue.set_queue("q", rate_per_second=10)
        cue.schedule_many([{"queue": "q"}] * 30)
        assert moments_of(cue, 3) == [100 * n for n in range(30)]


def test_dispatchers_spread_it_too() -> None:
    with HandDriven() as cue:
        sink = named("spread")
        cue.set_queue("q", sink="memory:spread", rate_per_second=10)
        cue.schedule_many([{"queue": "q"}] * 30)
        for second in range(1, 4):
            cue.advance(0.999)
            assert len(sink.deliveries) == 10 * second
            cue.advance(0.001)


def test_a_worker_far_away_makes_room_for_the_next_hand_over() -> None:
    with HandDriven() as cue:
        sink = named("few")
        cue.set_queue("q", sink="memory:few", completion="worker", concurrency=2)
        cue.schedule_many([{"queue": "q"}] * 5)
        cue.advance(3600)
        assert len(sink.deliveries) == 2
        first = sink.deliveries[0]
        assert first.token is not None
        cue.complete(first.id, first.token)
        cue.advance(0)
        assert len(sink.deliveries) == 3


def test_the_dispatcher_rests_until_the_rate_allows_one_more(bench: Bench) -> None:
    limit(bench, rate_per_second=4)
    bench.add("a", "b")
    assert bench.dispatcher.step() == 0.0
    assert bench.dispatcher.step() == 0.25
    assert bench.taken == ["a"]


def test_the_dispatcher_rests_until_woken_while_the_queue_is_full() -> None:
    bench = Bench(completion="worker")
    limit(bench, concurrency=1)
    bench.add("a", "b")
    assert bench.dispatcher.step() == 0.0
    assert bench.dispatcher.step() is None
    assert bench.taken == ["a"]


def limit(bench: Bench, **settings: Any) -> None:
    bench.queue = replace(bench.queue, **settings)
    put_queue(bench.store, bench.queue)


def test_the_threads_of_a_worker_keep_to_the_concurrency_and_do_everything(url: str) -> None:
    with Scheduler(url) as cue:
        cue.set_queue("q", concurrency=2)
        under_way: list[int] = []
        lock = threading.Lock()

        @cue.handler("q")
        def handle(job: HandledJob) -> None:
            with lock:
                counts = cue.stats("q").counts
                under_way.append(counts[State.DISPATCHED] + counts[State.EXECUTING])

        cue.schedule_many([{"queue": "q"}] * 60)
        Worker(cue, concurrency=4).run(until_empty=True)
        assert cue.stats("q").counts[State.SUCCEEDED] == 60
        assert max(under_way) <= 2


def test_a_worker_keeps_to_the_rate_and_does_everything(url: str) -> None:
    with Scheduler(url) as cue:
        cue.set_queue("q", rate_per_second=100)
        cue.handler("q")(lambda job: None)
        cue.schedule_many([{"queue": "q"}] * 30)
        Worker(cue, concurrency=2).run(until_empty=True)
        assert cue.stats("q").counts[State.SUCCEEDED] == 30


COSTS = [
    *(load("queues")[name] for name in ("put_bucket", "count_live")),
    load("claims")["queues_of"],
]


def test_a_queue_without_limits_pays_for_none_in_sqlite(tmp_path: Path) -> None:
    clock = FakeClock()
    with closing(SqliteStore(tmp_path / "jobs.db", clock)) as store:
        desk, statements = Desk(store, clock), Statements(store)
        for queue in (Q, Queue("q", rate_per_second=1, concurrency=9)):
            put_queue(store, queue)
            desk.complete(desk.take())
            desk.add(queue="d")
            desk.settle_range(desk.claim_range(DELIVERY))
            ran = set(map(str.strip, statements.all))
            paid = [statement for statement in COSTS if statement.strip() in ran]
            assert bool(paid) is (queue is not Q)
