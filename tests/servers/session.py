"""One server of each kind for a test session, started by whoever needs it first.

The owner of a session is the process that begins it: the controller of pytest, or the first process
that asks where nobody has begun one. What the owner starts finds the session's folder in its
environment: the workers of pytest-xdist and programs under test share its servers. Servers end with
the owner, however it ends (`guard.py`), and do not care about the end of anybody else. Locks are
those of processes (`lockf`): a process that ends lets go of them, and no fork inherits them.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

VARIABLE = "TEST_SERVERS_OF_ONCUE"  # the program refuses unknown variables that begin with ONCUE_
GUARD = Path(__file__).with_name("guard.py")
START_SECONDS = 60.0  # a busy machine is ten times slower
TRIES = 3  # a port that was free may be taken before the server has it

Command = Callable[[int], list[str]]
"""What starts a server on a port of 127.0.0.1."""

Reach = Callable[[int], None]
"""Raises if the server on this port cannot be reached."""


class NotStarted(Exception):
    """A server did not start. The message ends with what it printed."""


class Session:
    """The servers of one session; the folder holds an address, a log and a lock for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owner: tuple[int, IO[str]] | None = None
        self._threads = threading.Lock()
        self._guards: list[subprocess.Popen[bytes]] = []

    @classmethod
    def begin(cls) -> Session:
        """A new session, owned by this process."""
        session = cls(Path(tempfile.mkdtemp(prefix="oncue-servers-")))
        file = open(session.folder / "owner", "w")  # noqa: SIM115
        fcntl.lockf(file, fcntl.LOCK_EX)
        session._owner = os.getpid(), file
        return session

    def endpoint(
        self,
        name: str,
        command: Command,
        *,
        speaks_http: bool = True,
        port: int | None = None,
        stop: signal.Signals = signal.SIGKILL,
    ) -> str:
        """The address of the server of that name, which is started if nobody has done so.

        It gets any free port if none is named. `stop` ends it, with all its processes.
        """
        with self._threads, open(self.folder / f"{name}.lock", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            known = self.folder / f"{name}.address"
            if not (known.exists() and self.runs(name)):
                reach = _ask if speaks_http else _connect
                port = self._start(name, command, reach, port, stop)
                known.write_text(f"http://127.0.0.1:{port}")
            return known.read_text()

    def runs(self, name: str) -> bool:
        """Whether the server of that name runs; its guard does not outlive it."""
        with open(self.folder / f"{name}.guard", "a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def end(self) -> None:
        """Stop every server and wait until all are gone. Only the owner can."""
        if self._owner is None or self._owner[0] != os.getpid():
            return
        for file in self.folder.glob("*.guard"):
            self._stop(file.stem)
        for guard in self._guards:
            guard.wait()
        shutil.rmtree(self.folder)
        self._owner[1].close()

    def _start(
        self, name: str, command: Command, reach: Reach, port: int | None, stop: signal.Signals
    ) -> int:
        for _ in range(TRIES):
            self._stop(name)  # of one that died while it was starting the server
            tried = port or free_port()
            guard = self._guard(name, command(tried), stop)
            if _is_reached(reach, tried, guard):
                return tried
            self._stop(name)
        said = (self.folder / f"{name}.log").read_text(errors="replace")
        raise NotStarted(f"{name} did not start:\n{said}")

    def _guard(
        self, name: str, command: list[str], stop: signal.Signals
    ) -> subprocess.Popen[bytes]:
        guarded = [str(self.folder), name, str(int(stop)), *command]
        with open(self.folder / f"{name}.log", "wb") as log:
            guard = subprocess.Popen(
                [sys.executable, "-IS", str(GUARD), *guarded],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._guards = [known for known in self._guards if known.poll() is None]
        self._guards.append(guard)  # Python warns of one that nobody knows any more
        return guard

    def _stop(self, name: str) -> None:
        while self.runs(name):
            pid = (self.folder / f"{name}.guard").read_text()
            with suppress(ProcessLookupError):
                if pid.endswith("\n"):
                    os.kill(int(pid), signal.SIGTERM)
            time.sleep(0.01)


_current: list[Session] = []


def begin() -> Session:
    """The session that this process is in, or a new one, which it then owns."""
    if not _current:
        folder = os.environ.get(VARIABLE)
        _current.append(Session(Path(folder)) if folder else Session.begin())
        os.environ[VARIABLE] = str(_current[0].folder)
        atexit.register(_current[0].end)
    return _current[0]


def end() -> None:
    """This process leaves its session, which ends if the process owns it."""
    if _current:
        session = _current.pop()
        atexit.unregister(session.end)
        session.end()
        os.environ.pop(VARIABLE)


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def _is_reached(reach: Reach, port: int, guard: subprocess.Popen[bytes]) -> bool:
    """Whether the server can be reached before it ends or time is over."""
    ends = time.monotonic() + START_SECONDS
    while guard.poll() is None and time.monotonic() < ends:
        try:
            reach(port)
        except (OSError, HTTPException):
            time.sleep(0.05)
        else:
            return guard.poll() is None
    return False


def _ask(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)) as connection:
        connection.request("GET", "/")
        connection.getresponse()


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), START_SECONDS).close()
