"""Child processes of a test: started, waited for, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import TracebackType

from oncue.clock import SystemClock
from tests.proof.logs import RunLog
from tests.proof.points import VARIABLE

ROOT = Path(__file__).parents[2]
SOON_SECONDS = 60.0  # only reached if something is broken
LOOK_SECONDS = 0.01

_clock = SystemClock()


def wait_until(true: Callable[[], bool], what: str, seconds: float = SOON_SECONDS) -> None:
    """Look again and again; a test that waits in vain says for what."""
    ends = _clock.monotonic() + seconds
    while not true():
        assert _clock.monotonic() < ends, f"waited in vain until {what}"
        Event().wait(LOOK_SECONDS)


class Child:
    """One process. What it says is kept in files, so that no pipe can fill up."""

    def __init__(self, module: str, *args: object, log: Path, orders: str = "") -> None:
        command = [sys.executable, "-m", f"tests.integration.{module}", *map(str, args)]
        self._said = log.open("wb")
        self._said_path = log
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, VARIABLE: orders},
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def was_killed(self) -> bool:
        return self.process.poll() == -signal.SIGKILL

    @property
    def said(self) -> str:
        return self._said_path.read_text("utf-8", "replace")

    def tell(self, line: str) -> bool:
        """Write a line to its standard input. False: it is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def hang_up(self) -> None:
        """Tell it nothing more."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        wait_until(lambda: not self.alive, f"{self.process.args!r} ends; it said: {self.said}")
        return int(self.process.returncode)

    def end(self) -> None:
        if self.alive:
            self.process.kill()
        self.process.wait()
        self.hang_up()
        self._said.close()


class Crew:
    """All children of a test, their store and the log of what they received."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self.log = RunLog(folder / "received.log")
        self.children: list[Child] = []

    def start(self, module: str, *args: object, orders: str = "") -> Child:
        number = len(self.children)
        said = self.folder / f"child{number}.log"
        child = Child(module, self.url, self.log.log.path, *args, log=said, orders=orders)
        self.children.append(child)
        return child

    def worker(self, name: str, orders: str = "") -> Child:
        return self.start("child_worker", name, orders=orders)

    def file(self, name: str) -> Path:
        return self.folder / name

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self.children:
            child.end()
        self.log.log.close()
