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
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any, TextIO

PROGRAM = (sys.executable, "-m", "oncue.cli")
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.program_preload"])
# multiprocessing looks after all its children whenever it starts one: two threads at once could
# both ask for the same exit code, which can be read only once.
_CHILDREN = threading.Lock()


class Program:
    """A started `oncue`, or another module of it. The methods are those of `subprocess.Popen`."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        module: str = "oncue.cli",
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        terminal: str | None = None,
    ) -> None:
        """`terminal` is the name of a pty that becomes the controlling terminal."""
        with ExitStack() as theirs:
            self.stdin, reading = _pipe(theirs, stdin, writes=True)
            self.stdout, writing = _pipe(theirs, stdout)
            self.stderr, complaining = _pipe(theirs, stderr)
            streams = [Descriptor(reading), Descriptor(writing), Descriptor(complaining)]
            self._process = _FORKING.Process(
                target=_run, args=(module, arguments, str(cwd), dict(env), streams, terminal)
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

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()  # nobody will tell it to end
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()


def run(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    module: str = "oncue.cli",
    stdin: bytes = b"",
    timeout: float = 30.0,
) -> subprocess.CompletedProcess[str]:
    """The program without a terminal, to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Program(
            *arguments,
            cwd=cwd,
            env=env,
            module=module,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
        )
        writer = threading.Thread(target=_write, args=(process.stdin, stdin))
        writer.start()
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            writer.join()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            arguments, code, out.read().decode(), err.read().decode()
        )


def _write(pipe: TextIO, data: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.buffer.write(data)


def _pipe(
    theirs: ExitStack, wanted: int | IO[Any], *, writes: bool = False
) -> tuple[Any, int | IO[Any]]:
    """Our end of a pipe, if one is wanted, and the stream that the program gets."""
    if wanted == subprocess.DEVNULL:
        return None, theirs.enter_context(open(os.devnull, "r+b"))
    if wanted != subprocess.PIPE:
        return None, wanted
    read, write = os.pipe()
    if writes:
        return open(write, "w"), theirs.enter_context(open(read, "rb"))
    return open(read), theirs.enter_context(open(write, "wb"))


class Descriptor:
    """An open file that is handed to another process; there it is a number."""

    def __init__(self, file: int | IO[Any]) -> None:
        self._number = file if isinstance(file, int) else file.fileno()

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (reduction.DupFd(self._number),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


def _run(
    module: str,
    arguments: tuple[str, ...],
    cwd: str,
    env: dict[str, str],
    streams: list[int],
    terminal: str | None,
) -> None:
    """In the new process: become what `python -m` would have been."""
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
    sys.argv[1:] = arguments
    sys.path.insert(0, cwd)
    warnings.filterwarnings("ignore", module="runpy")  # the module was imported before
    runpy.run_module(module, run_name="__main__", alter_sys=True)
