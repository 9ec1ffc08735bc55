"""Waiting: what ends it early."""

from __future__ import annotations

import math
import signal
import threading

import pytest

from oncue.cli.stopping import Stopping
from oncue.clock import SystemClock
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
