"""Starts `oncue …` in a process of its own, without the start of an interpreter each time.

Importing the program costs far more than most commands do. So one process per test worker imports
everything once and then forks: what runs is a real process with its own standard streams, folder,
environment, signals and exit code. Tests about the start itself (what is imported, the encoding of
a locale, a pipe of a shell) run `PROGRAM` as a user does.

    process = Program("jobs", "list", cwd=folder, env=environment, stdout=file)
    process.wait(30)                                     # the exit code
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

PROGRAM = (sys.executable, "-m", "oncue.cli")
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.program_preload"])
# multiprocessing looks after all its children whenever it starts one: two threads at once could
# both ask for the same exit code, which can be read only once.
_CHILDREN = threading.Lock()


class Program:
    """A started `oncue`. The methods are those of `subprocess.Popen`."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        terminal: str | None = None,
    ) -> None:
        """`terminal` is the name of a pty that becomes the controlling terminal."""
        with open(os.devnull, "r+b") as nothing:
            streams = [
                Descriptor(nothing if stream == subprocess.DEVNULL else stream)
                for stream in (stdin, stdout, stderr)
            ]
            self._process = _FORKING.Process(
                target=_run, args=(arguments, str(cwd), dict(env), streams, terminal)
            )
            with _CHILDREN:
                self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _CHILDREN:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        if not multiprocessing.connection.wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(PROGRAM, timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Descriptor:
    """An open file that is handed to another process; there it is a number."""

    def __init__(self, file: int | IO[Any]) -> None:
        self._number = file if isinstance(file, int) else file.fileno()

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (reduction.DupFd(self._number),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


def _run(
    arguments: tuple[str, ...],
    cwd: str,
    env: dict[str, str],
    streams: list[int],
    terminal: str | None,
) -> None:
    """In the new process: become what `python -m oncue.cli` would have been."""
    if terminal is not None:
        os.setsid()
        streams = [os.open(terminal, os.O_RDWR)] * 3  # the first a session opens becomes its own
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[:] = ["oncue", *arguments]
    sys.path.insert(0, cwd)
    from oncue.cli import main

    main()
