"""The loop's thread. Nothing here measures time: a generous bound only ends a broken test."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.engine.loop import Loop

SOON = 20.0


class Steps:
    """A step that does what its script says, then rests as told, and counts itself."""

    def __init__(
        self, script: list[float | BaseException | None], rest: float | None = None
    ) -> None:
        self.count = 0
        self._script = script
        self._rest = rest
        self._made = threading.Condition()

    def __call__(self) -> float | None:
        with self._made:
            self.count += 1
            self._made.notify_all()
            answer = self._script.pop(0) if self._script else self._rest
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def wait_for(self, count: int) -> bool:
        with self._made:
            return self._made.wait_for(lambda: self.count >= count, SOON)


class HaltingClock(FakeClock):
    """So many seconds pass after each reading, as if the process were stopped there."""

    def __init__(self, seconds: float) -> None:
        super().__init__(1_000_000)
        self._seconds = seconds

    def monotonic(self) -> float:
        reading = super().monotonic()
        self.advance(self._seconds)
        return reading


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000)


@pytest.fixture
def run(clock: FakeClock) -> Iterator[Callable[[Steps], Loop]]:
    loops: list[Loop] = []

    def start(steps: Steps) -> Loop:
        loops.append(Loop("test-loop", steps, clock))
        loops[-1].start()
        return loops[-1]

    yield start
    assert all([loop.stop(SOON) for loop in loops])  # noqa: C419 (stop them all)


def test_a_step_that_may_not_rest_is_followed_by_another(run: Callable[[Steps], Loop]) -> None:
    steps = Steps([0.0, 0.0, 0.0])
    run(steps)
    assert steps.wait_for(4)


def test_a_loop_that_rests_until_woken_makes_a_step_when_woken(
    run: Callable[[Steps], Loop],
) -> None:
    steps = Steps([])
    loop = run(steps)
    assert steps.wait_for(1)
    loop.wake()
    assert steps.wait_for(2)


def test_work_due_earlier_than_planned_wakes_the_loop_when_it_is_due(
    run: Callable[[Steps], Loop], clock: FakeClock
) -> None:
    steps = Steps([], rest=25.0)
    loop = run(steps)
    assert steps.wait_for(1)
    clock.advance(1)
    loop.wake_for(clock.now())
    assert steps.wait_for(2)


@pytest.mark.parametrize(("stopped_for", "told"), [(6.9, False), (7.1, True)])
def test_a_step_much_later_than_planned_is_told(stopped_for: float, told: bool) -> None:
    calls = []
    steps = Steps([], rest=2.0)
    stepped = threading.Event()

    def step() -> float | None:
        calls.append("step")
        if len(calls) > 2:
            stepped.set()
        return steps()

    loop = Loop("test-loop", step, HaltingClock(stopped_for), lambda: calls.append("overslept"))
    loop.start()
    assert stepped.wait(SOON)
    assert loop.stop(SOON)
    assert calls[:3] == ["step", "overslept" if told else "step", "step"]


def test_a_wake_up_during_a_step_is_not_lost(clock: FakeClock) -> None:
    stepped = threading.Semaphore(0)

    def step() -> float | None:
        stepped.release()
        if first.acquire(blocking=False):
            loop.wake_for(clock.now())
        return None

    first = threading.Semaphore(1)
    loop = Loop("test-loop", step, clock)
    loop.start()
    assert stepped.acquire(timeout=SOON)
    assert stepped.acquire(timeout=SOON)
    assert loop.stop(SOON)


def test_work_due_later_than_planned_does_not_wake_the_loop(clock: FakeClock) -> None:
    loop = Loop("test-loop", Steps([]), clock)
    loop.wake_for(5_000)
    loop.wake_for(6_000)
    assert loop._alarm._planned == 5_000


class WatchedClock(FakeClock):
    """Knows when a loop has begun to rest: it has then looked twice at how much time is left."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.looks = threading.Semaphore(0)

    def monotonic(self) -> float:
        self.looks.release()
        return super().monotonic()

    def wait_for_rest(self, loop: Loop) -> None:
        for _ in range(2):
            assert self.looks.acquire(timeout=SOON)
        with loop._alarm._changed:  # held from the second look until it waits
            pass


def test_a_wall_clock_set_back_does_not_prolong_a_rest() -> None:
    clock, steps = WatchedClock(), Steps([], rest=10.0)
    loop = Loop("test-loop", steps, clock)
    loop.start()
    clock.wait_for_rest(loop)
    clock.advance(10)
    clock.set(0)
    with loop._alarm._changed:
        loop._alarm._changed.notify_all()  # as the end of a real wait would
    assert steps.wait_for(2)
    assert loop.stop(SOON)


def test_a_wall_clock_set_back_does_not_delay_a_wake_up_that_was_asked_for() -> None:
    clock, steps = WatchedClock(), Steps([], rest=25.0)
    loop = Loop("test-loop", steps, clock)
    loop.start()
    clock.wait_for_rest(loop)
    loop.wake_for(clock.now() + 10_000)
    clock.advance(10)
    clock.set(0)
    with loop._alarm._changed:
        loop._alarm._changed.notify_all()  # as the end of a real wait would
    assert steps.wait_for(2)
    assert loop.stop(SOON)


@pytest.mark.parametrize("seconds", [20.0, 600.0])
def test_work_that_a_clock_set_forward_has_made_due_ends_the_rest(seconds: float) -> None:
    """Its moment was known, and planned for if it was near."""
    clock, steps = WatchedClock(), Steps([], rest=seconds)
    due_at = clock.now() + round(1000 * seconds)
    loop = Loop("test-loop", steps, clock)
    loop.start()
    clock.wait_for_rest(loop)
    clock.set(due_at)
    loop.wake_for(due_at)
    assert steps.wait_for(2)
    assert loop.stop(SOON)


def test_a_rest_lasts_about_thirty_seconds_at_most() -> None:
    clock = WatchedClock()
    loop = Loop("test-loop", lambda: 3600.0, clock)
    loop.start()
    clock.wait_for_rest(loop)
    assert 1_022_500 <= loop._alarm._planned <= 1_030_000
    assert loop.stop(SOON)


def test_a_stopped_loop_makes_no_other_step(run: Callable[[Steps], Loop]) -> None:
    steps = Steps([])
    loop = run(steps)
    assert steps.wait_for(1)
    assert loop.stop(SOON)
    loop.wake()
    assert steps.count == 1


def test_a_loop_that_was_never_started_can_be_stopped(clock: FakeClock) -> None:
    assert Loop("test-loop", Steps([]), clock).stop(SOON)


def test_trouble_is_logged_once_per_change_and_the_loop_goes_on(
    run: Callable[[Steps], Loop], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncue.engine")
    locked = [StoreUnavailable("locked") for _ in range(3)]
    steps = Steps([*locked, StoreUnavailable("disk full"), None])
    loop = run(steps)
    for count in range(1, 5):
        assert steps.wait_for(count)
        assert _end_back_off(loop, clock, lambda: steps.count > count)  # noqa: B023
    assert loop.stop(SOON)
    messages = [record.getMessage() for record in caplog.records]
    assert [m for m in messages if "locked" in m or "full" in m] == [
        "test-loop: StoreUnavailable: locked (trying again)",
        "test-loop: StoreUnavailable: disk full (trying again)",
    ]
    assert messages[-1] == "test-loop: works again"
    assert caplog.records[-1].levelno == logging.WARNING  # as visible as the trouble, by default
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize(
    ("error", "pauses"),
    [(StoreUnavailable("away"), [1, 2, 4, 5, 5]), (ZeroDivisionError(), [1, 2, 4, 8, 16, 30, 30])],
)
def test_a_loop_tries_again_less_and_less_often_but_soon_while_the_store_is_away(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, error: Exception, pauses: list[float]
) -> None:
    loop, paused = Loop("test-loop", Steps([]), clock), list[float]()
    monkeypatch.setattr(loop._alarm, "pause", paused.append)
    for _ in pauses:
        loop._back_off(error)
    assert paused == pauses


def test_an_unexpected_error_is_logged_with_its_traceback_and_the_loop_goes_on(
    run: Callable[[Steps], Loop], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    steps = Steps([ZeroDivisionError("oops")])
    loop = run(steps)
    assert steps.wait_for(1)
    assert _end_back_off(loop, clock, lambda: steps.count > 1)
    assert caplog.records[0].exc_info is not None


class Unspeakable(Exception):
    """Even its text is trouble."""

    def __str__(self) -> str:
        raise MemoryError


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        asyncio.CancelledError(),
        GeneratorExit(),
        KeyboardInterrupt(),
        MemoryError(),
        Unspeakable(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_step_raises_the_loop_goes_on(
    run: Callable[[Steps], Loop], clock: FakeClock, error: BaseException
) -> None:
    steps = Steps([error])
    loop = run(steps)
    assert steps.wait_for(1)
    assert _end_back_off(loop, clock, lambda: steps.count > 1)


def test_trouble_of_the_log_does_not_end_a_loop(
    run: Callable[[Steps], Loop], clock: FakeClock
) -> None:
    def broken(record: logging.LogRecord) -> bool:
        raise OSError("disk full")

    logger = logging.getLogger("oncue.engine")
    logger.addFilter(broken)
    try:
        steps = Steps([ZeroDivisionError("oops")])
        loop = run(steps)
        assert steps.wait_for(1)
        assert _end_back_off(loop, clock, lambda: steps.count > 1)
    finally:
        logger.removeFilter(broken)


class StoppedClock(FakeClock):
    """Does not tell the time while it is `broken`: a loop then can neither work nor wait."""

    broken = False

    def now(self) -> int:
        if self.broken:
            raise MemoryError
        return super().now()

    def monotonic(self) -> float:
        if self.broken:
            raise MemoryError
        return super().monotonic()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_whose_thread_has_died_goes_on_in_a_new_one() -> None:
    clock = StoppedClock()
    steps = Steps([0.0])
    loop = Loop("test-loop", steps, clock)
    clock.broken = True
    loop.start()
    loop._thread.join(SOON)
    clock.broken = False
    made = steps.count
    assert loop.start()
    assert steps.wait_for(made + 1)
    assert not loop.start()
    assert loop.stop(SOON)


def test_a_loop_that_was_stopped_stays_so(run: Callable[[Steps], Loop]) -> None:
    loop = run(Steps([]))
    assert loop.stop(SOON)
    assert not loop.start()


def _end_back_off(loop: Loop, clock: FakeClock, done: Callable[[], bool]) -> bool:
    """Let time pass until the back-off is over; bounded, whenever it may have begun."""
    for _ in range(100_000):
        if done():
            return True
        clock.advance(30)
        loop.wake()
    return False
