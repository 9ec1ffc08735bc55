"""Waiting: what ends it early."""

from __future__ import annotations

import math
import signal
import threading

import pytest

from oncue.cli.stopping import Stopping
from oncue.clock import FakeClock, SystemClock
from oncue.core.moment import Moment
from oncue.engine.alarm import Alarm

AN_HOUR = 3600.0


def send_ctrl_c_to_another_thread() -> None:
    """Soon. As with Ctrl-C just before a wait begins, the main thread's wait is not interrupted."""

    def receive() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    threading.Timer(0.2, receive).start()


def test_ctrl_c_ends_a_pause_though_the_wait_misses_it() -> None:
    send_ctrl_c_to_another_thread()
    with pytest.raises(KeyboardInterrupt):
        Alarm(SystemClock()).pause(AN_HOUR)


@pytest.mark.parametrize("seconds", [AN_HOUR, math.inf])
def test_ctrl_c_ends_a_command_though_the_wait_misses_it(
    seconds: float, capfd: pytest.CaptureFixture[str]
) -> None:
    with Stopping("finishing") as stopping:
        send_ctrl_c_to_another_thread()
        assert stopping.wait(seconds)
    assert stopping.asked
    assert "Stopping: finishing" in capfd.readouterr().err


class FineClock(FakeClock):
    """Like a real one, it knows more of the time than whole milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self._start = self._now

    def now(self) -> Moment:
        return self._start + math.floor(self._monotonic * 1000)

    def seconds_until(self, moment: Moment) -> float:
        return (moment - self._start) / 1000 - self._monotonic

    def sleep(self, seconds: float) -> None:
        self._monotonic += seconds


@pytest.mark.parametrize("asked_at_ms", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_rest_ends_at_the_very_moment(
    asked_at_ms: float, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FineClock()
    alarm = Alarm(clock)
    due_at = clock.now() + 10
    monkeypatch.setattr(threading.Condition, "wait", clock.sleep)
    clock.advance(asked_at_ms / 1000)
    if is_told:
        alarm.wake_for(due_at)
    alarm.rest(None if is_told else clock.seconds_until(due_at))
    assert clock.seconds_until(due_at) == pytest.approx(0.0, abs=1e-9)
