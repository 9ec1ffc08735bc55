from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import InvalidInput
from oncue.core.job import Delivery, NewJob
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.engine import Engine
from oncue.engine.loop import Loop
from oncue.engine.node import Node
from oncue.ports.sink import Refusal, Sink
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from tests.contract.desk import claim_due
from tests.stores.kinds import open_kind

SOON = 20.0


class SignallingSink(MemorySink):
    """Lets a test wait for deliveries, and hold one up."""

    def __init__(self) -> None:
        super().__init__()
        self.delivered = threading.Semaphore(0)
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self.begun.set()
        assert self.may_end.wait(SOON)
        answer = super().deliver(queue, batch)
        self.delivered.release()
        return answer


class Bench:
    def __init__(self, kind: str = "memory") -> None:
        self.clock = FakeClock(1_000_000)
        self.store = open_kind(kind, Path(), self.clock)
        self.sinks: dict[str, SignallingSink] = {}
        self.opened = threading.Semaphore(0)
        self.engine = Engine(Node.of(self.store, self.clock), self.open_sink)

    def open_sink(self, url: str) -> Sink:
        if url.startswith("bad:"):
            raise InvalidInput("no such sink", "/sink")
        self.sinks[url] = SignallingSink()
        self.opened.release()
        return self.sinks[url]

    def add(self, queue: str, *ids: str, after: float = 0.0) -> None:
        now = self.clock.now()
        due_at = now + round(after * 1000)
        self.store.insert([NewJob(i, queue, due_at, b"{}", 0, now) for i in ids], now)

    def taken(self, url: str) -> list[str]:
        return [delivery.id for delivery in self.sinks[url].deliveries]


@pytest.fixture(params=["memory", "hostile"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_each_queue_with_a_sink_is_dispatched_and_pulled_ones_are_left_alone(
    bench: Bench,
) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    put_queue(bench.store, Queue("sms", sink="memory:sms"))
    bench.add("mail", "a")
    bench.add("sms", "b")
    bench.add("pulled", "c")
    assert bench.engine.step_all() == 0.0
    assert bench.taken("memory:mail") == ["a"]
    assert bench.taken("memory:sms") == ["b"]
    job = bench.store.get("c")
    assert job is not None
    assert job.state is State.SCHEDULED


def test_when_the_clock_is_set_all_that_rest_for_long_look_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(Loop, "wake", lambda loop: woken.append(loop.name))
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    bench.engine.step_all()
    woken.clear()
    bench.clock.advance(3600)
    bench.engine.step_all()
    assert woken == []
    bench.clock.set(bench.clock.now() + 60_000)
    bench.engine.step_all()
    assert woken == ["oncue-recurrer", "oncue-dispatcher-mail"]


def test_of_many_dispatchers_each_looks_less_often_unasked(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    assert bench.engine._longest() == 30
    bench.engine._routes = {str(n): bench.engine._routes["mail"] for n in range(250)}
    assert bench.engine._longest() == 75


def test_step_all_answers_with_the_shortest_rest(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.add("mail", "a", after=0.5)
    rest = bench.engine.step_all()
    assert rest is not None
    assert 0 < rest <= 0.5
    bench.clock.advance(0.5)
    bench.engine.step_all()
    assert bench.taken("memory:mail") == ["a"]


def test_a_queue_that_gets_a_sink_later_is_dispatched(bench: Bench) -> None:
    bench.add("mail", "a")
    bench.engine.step_all()
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    assert bench.taken("memory:mail") == ["a"]


def test_a_queue_whose_sink_changes_goes_on_with_the_new_one_and_the_old_is_closed(
    bench: Bench,
) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:old"))
    bench.engine.step_all()
    put_queue(bench.store, Queue("mail", sink="memory:new"))
    bench.add("mail", "a")
    bench.engine.step_all()
    assert bench.taken("memory:new") == ["a"]
    assert bench.sinks["memory:old"].closed


def test_a_queue_whose_sink_is_removed_is_not_dispatched(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    put_queue(bench.store, Queue("mail"))
    bench.add("mail", "a")
    bench.engine.step_all()
    assert bench.taken("memory:mail") == []
    assert bench.sinks["memory:mail"].closed


def test_a_sink_that_cannot_be_opened_is_logged_once_and_disturbs_no_other_queue(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    put_queue(bench.store, Queue("bad", sink="bad:sink"))
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.add("mail", "a")
    bench.engine.step_all()
    bench.engine.step_all()
    assert bench.taken("memory:mail") == ["a"]
    assert caplog.text.count("cannot be opened") == 1


@pytest.mark.parametrize("way", ["deleted", "without its sink"])
def test_a_queue_whose_sink_could_not_be_opened_is_forgotten_when_it_is_gone(
    bench: Bench, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    put_queue(bench.store, Queue("bad", sink="bad:sink"))
    bench.engine.step_all()
    if way == "deleted":
        assert bench.store.delete_queue("bad", bench.clock.now(), 10).outcome == "deleted"
    else:
        put_queue(bench.store, Queue("bad"))
    bench.engine.step_all()
    put_queue(bench.store, Queue("bad", sink="bad:sink"))
    bench.engine.step_all()
    assert caplog.text.count("cannot be opened") == 2


def test_lost_claims_are_reclaimed(bench: Bench) -> None:
    queue = Queue("pulled", lease_seconds=10)
    bench.add("pulled", "a")
    claim_due(bench.store, [queue], "worker", 1, bench.clock.now())
    bench.clock.advance(11)
    bench.engine.step_all()
    job = bench.store.get("a")
    assert job is not None
    assert job.state is State.SCHEDULED


def test_a_running_engine_delivers_what_is_inserted(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    bench.engine.start()
    bench.add("mail", "a")
    assert bench.sinks["memory:mail"].delivered.acquire(timeout=SOON)
    assert bench.engine.stop(SOON)
    assert bench.taken("memory:mail") == ["a"]
    assert bench.sinks["memory:mail"].closed


def test_stopping_finishes_and_settles_the_delivery_under_way(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    sink = bench.sinks["memory:mail"]
    sink.may_end.clear()
    bench.engine.start()
    bench.add("mail", "a")
    assert sink.begun.wait(SOON)
    stopping = threading.Thread(target=bench.engine.stop, args=(SOON,))
    stopping.start()
    sink.may_end.set()
    stopping.join(SOON)
    job = bench.store.get("a")
    assert job is not None
    assert job.state is State.SUCCEEDED
    assert sink.closed


def test_stopping_takes_no_longer_than_it_may(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    began = bench.clock.monotonic()

    def wait(seconds: float, *, ended: bool) -> bool:
        bench.clock.advance(seconds)
        return ended

    monkeypatch.setattr(Loop, "stop", lambda _, timeout: wait(timeout / 2, ended=True))
    monkeypatch.setattr(Dispatcher, "finish", lambda _, timeout: wait(timeout, ended=False))
    assert not bench.engine.stop(SOON)
    assert bench.clock.monotonic() - began <= SOON


def test_a_stopped_engine_listens_no_longer(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    bench.engine.step_all()
    bench.engine.start()
    assert bench.engine.stop(SOON)
    bench.add("mail", "a")
    assert bench.taken("memory:mail") == []


def test_an_engine_that_was_stopped_goes_on_where_steps_are_made_again(bench: Bench) -> None:
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    for one in ("a", "b"):
        bench.add("mail", one)
        bench.engine.tick(lambda: False)
        assert bench.taken("memory:mail") == [one]


def test_the_first_job_of_a_queue_that_has_a_sink_by_default_is_delivered_at_once(
    bench: Bench,
) -> None:
    bench.engine.start()
    try:
        bench.add("pulled", "a")  # seen, so that the next look is not the first one
        bench.add("tasks", "b")
        assert bench.opened.acquire(timeout=SOON)
        assert bench.sinks["log:"].delivered.acquire(timeout=SOON)
    finally:
        assert bench.engine.stop(SOON)
    assert bench.taken("log:") == ["b"]


def test_queues_that_come_with_their_first_job_do_not_make_it_read_all_queues(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[Loop] = []
    bench.store.watch(bench.engine._woken)
    monkeypatch.setattr(Loop, "wake", lambda loop: woken.append(loop))
    bench.add("pulled", "a")
    assert woken == []
    bench.add("rules", "b")
    assert set(woken) == {bench.engine._supervisor}


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_a_sink_whose_opening_or_closing_raises_anything_disturbs_no_other_queue(
    bench: Bench, error: BaseException
) -> None:
    class Unclosable(SignallingSink):
        def close(self) -> None:
            raise error

    def open_sink(url: str) -> Sink:
        if url == "memory:unclosable":
            return Unclosable()
        if url == "memory:unopenable":
            raise error
        return bench.open_sink(url)

    bench.engine = Engine(Node.of(bench.store, bench.clock), open_sink)
    for name in ("a-unopenable", "b-unclosable", "mail"):
        put_queue(bench.store, Queue(name, sink=f"memory:{name.rpartition('-')[2]}"))
    bench.engine.step_all()
    put_queue(bench.store, Queue("b-unclosable"))
    bench.add("mail", "a")
    bench.engine.step_all()
    bench.engine.step_all()
    assert bench.taken("memory:mail") == ["a"]
    assert bench.engine.stop(SOON)


class MortalClock(FakeClock):
    """Raises in the threads of these names, which can then neither work nor wait."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.deadly: set[str] = set()

    def now(self) -> Moment:
        self._strike()
        return super().now()

    def monotonic(self) -> float:
        self._strike()
        return super().monotonic()

    def _strike(self) -> None:
        if threading.current_thread().name in self.deadly:
            raise MemoryError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "name",
    [
        "oncue-dispatcher-mail",
        "oncue-keeper",
        "oncue-recurrer",
        "oncue-reclaimer",
        "oncue-pruner",
        "oncue-supervisor",
    ],
)
def test_a_thread_that_died_is_replaced_and_that_is_told(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MortalClock()
    store = MemoryStore(clock)
    put_queue(store, Queue("mail", sink="memory:mail"))
    node = Node.of(store, clock)
    engine, telemetry = Engine(node, lambda url: MemorySink()), node.telemetry
    engine.step_all()
    clock.deadly.add(name)
    engine.start()
    [dead] = [one for one in _loops(engine) if one.name == name]
    _pass_time(clock, engine, lambda: telemetry.totals().counts["threads_replaced"] > 0)
    clock.deadly.clear()
    _pass_time(clock, engine, lambda: dead._thread.is_alive())
    assert engine.stop(SOON)
    assert f"{name}: its thread had ended; a new one goes on" in caplog.text


def test_a_dispatcher_whose_thread_cannot_be_started_keeps_no_other_from_starting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system lets no thread be started for a while: each is tried again at the next look."""
    queues = ("a", "b", "c")
    for queue in queues:
        put_queue(bench.store, Queue(queue, sink=f"memory:{queue}"))
    refused: list[str] = []
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("oncue-dispatcher") and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    bench.engine.start()

    def all_run() -> bool:
        running = {thread.name for thread in threading.enumerate()}
        return running >= {f"oncue-dispatcher-{queue}" for queue in queues}

    _pass_time(bench.clock, bench.engine, all_run)
    assert bench.engine.stop(SOON)
    assert refused


def _loops(engine: Engine) -> list[Loop]:
    routes = [route.loop for route in engine._routes.values()]
    return [engine._supervisor, engine.keeper.loop, *engine._upkeep, *routes]


def _pass_time(clock: FakeClock, engine: Engine, done: Callable[[], bool]) -> None:
    """Let time pass, and wake the loops as the end of a real wait would, until `done`."""
    for _ in range(100_000):
        if done():
            return
        clock.advance(1)
        for loop in _loops(engine):
            loop.wake()
    raise AssertionError("it never happened")


def test_what_was_counted_of_a_deleted_queue_is_dropped(bench: Bench) -> None:
    node = Node.of(bench.store, bench.clock)
    engine, telemetry = Engine(node, bench.open_sink), node.telemetry
    put_queue(bench.store, Queue("mail", sink="memory:mail"))
    put_queue(bench.store, Queue("sms", sink="memory:sms"))
    bench.add("mail", "a")
    bench.add("sms", "b")
    engine.step_all()
    assert set(telemetry.totals().queues) == {"mail", "sms"}
    assert bench.store.delete_queue("mail", bench.clock.now(), 10).outcome == "deleted"
    engine.step_all()
    assert set(telemetry.totals().queues) == {"sms"}
    assert set(telemetry.totals().circuits) == {"sms"}
    assert telemetry.lateness("mail") is None
