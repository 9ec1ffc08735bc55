"""What a process says of itself in the store, and for how long."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from oncue import Scheduler, __version__
from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import StoreUnavailable
from oncue.core.nodes import NOTHING, NodeReport, Running, together
from oncue.engine.reporter import Reporter
from oncue.stores.memory import MemoryStore
from oncue.worker.worker import Worker

SOON = 20.0
ENGINE = Running(engine=True, dispatches=("b", "a"))


class Reported(MemoryStore):
    """Counts reports, so that a test can wait for one."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.reports: list[NodeReport] = []
        self.away = False
        self._changed = threading.Condition()

    def report_node(self, report: NodeReport) -> None:
        with self._changed:
            self._changed.notify_all()
            self.reports.append(report)
            if self.away:
                raise StoreUnavailable("away")
            super().report_node(report)

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.reports) >= count, SOON)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Reported:
    return Reported(clock)


@pytest.fixture
def reporter(store: Reported, clock: FakeClock) -> Iterator[Reporter]:
    reporter = Reporter(store, clock)
    yield reporter
    reporter.close()


def test_the_parts_of_a_process_are_told_as_a_whole() -> None:
    assert together([]) == NOTHING
    parts = [ENGINE, Running(works=("b",)), Running(works=("a", "b")), Running(url="http://x")]
    assert together(parts) == Running(True, ("a", "b"), ("a", "b"), "http://x")


def test_a_process_that_runs_something_is_a_node(
    reporter: Reporter, store: Reported, clock: FakeClock
) -> None:
    assert store.nodes(clock.now()) == []
    reporter.begin(lambda: ENGINE)
    store.wait_for(1)
    [node] = store.nodes(clock.now())
    assert (node.pid, node.version) == (os.getpid(), __version__)
    assert node.id.startswith(f"{node.host}:{node.pid}:")
    assert node.started_at == node.seen_at
    assert node.running == Running(True, ("a", "b"), (), None)


def test_it_reports_every_ten_seconds_and_after_a_change(
    reporter: Reporter, store: Reported, clock: FakeClock
) -> None:
    running = [Running(works=("mail",))]
    reporter.begin(lambda: running[0])
    store.wait_for(1)
    [first] = store.nodes(clock.now())
    clock.advance(9.999)
    reporter.step()
    assert store.nodes(clock.now()) == [first]
    clock.advance(0.001)
    reporter.step()
    [second] = store.nodes(clock.now())
    assert (second.seen_at - second.started_at).total_seconds() == 10
    running[0] = Running(works=("mail", "sms"))
    clock.advance(1)
    reporter.step()
    [third] = store.nodes(clock.now())
    assert third.works == ("mail", "sms")
    assert (third.id, third.started_at) == (first.id, first.started_at)


def test_what_ends_is_no_longer_told_and_the_last_end_removes_the_node(
    reporter: Reporter, store: Reported, clock: FakeClock
) -> None:
    end_engine = reporter.begin(lambda: ENGINE)
    end_worker = reporter.begin(lambda: Running(works=("mail",)))
    reporter.step()
    end_engine()
    reporter.step()
    [node] = store.nodes(clock.now())
    assert node.running == Running(works=("mail",))
    end_worker()
    end_worker()
    assert store.nodes(clock.now()) == []


def test_a_process_may_begin_again(reporter: Reporter, store: Reported, clock: FakeClock) -> None:
    reporter.begin(lambda: ENGINE)()
    reporter.begin(lambda: ENGINE)
    reporter.step()
    assert len(store.nodes(clock.now())) == 1


def test_what_begins_while_the_last_other_part_ends_is_told(
    reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = reporter.begin(lambda: ENGINE)
    beginning = threading.Thread(target=lambda: reporter.begin(lambda: Running(works=("q",))))
    close = reporter.close

    def meet() -> None:
        beginning.start()
        beginning.join(0.1)  # it may be over by then; if it waits for the end, go on
        close()

    with monkeypatch.context() as patched:
        patched.setattr(reporter, "close", meet)
        end()
    beginning.join(SOON)
    assert [part() for part in reporter._parts] == [Running(works=("q",))]


def test_a_store_that_is_away_hinders_neither_the_work_nor_the_end(
    reporter: Reporter, store: Reported, clock: FakeClock
) -> None:
    reporter.begin(lambda: ENGINE)
    store.wait_for(1)
    store.away = True
    clock.advance(10)
    with pytest.raises(StoreUnavailable):
        reporter.step()
    reporter.close()
    assert len(store.nodes(clock.now())) == 1, "until its lease ends"


def test_the_end_of_a_forked_child_leaves_the_parents_node(
    reporter: Reporter, store: Reported, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter.begin(lambda: ENGINE)
    store.wait_for(1)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        reporter.close()
    assert len(store.nodes(clock.now())) == 1


def test_a_scheduler_is_a_node_while_it_runs_the_loops(store: Reported) -> None:
    cue = Scheduler(store, clock=SystemClock())
    cue.set_queue("audit", sink="log:")
    assert cue.nodes() == []
    cue.engine.step_all()  # finds the queue
    cue.run_loops()
    store.wait_for(1)
    assert [node.running for node in cue.nodes()] == [Running(True, ("audit",))]
    cue.close()
    assert cue.nodes() == []


def test_a_worker_is_a_node_while_it_runs() -> None:
    cue = Scheduler("memory:")
    seen: list[NodeReport] = []

    @cue.handler("mail")
    def send(job: object) -> None:
        cue.reporter.step()
        seen.extend(cue.nodes())

    cue.schedule(queue="mail")
    Worker(cue).run(until_empty=True)
    assert [node.running for node in seen] == [Running(works=("mail",))]
    assert cue.nodes() == []
    cue.close()
