"""Servers are started once, shared, and gone when their session is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.servers.session import VARIABLE, NotStarted, Session

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
FILES = "[sys.executable, '-m', 'http.server', '--bind', '127.0.0.1', str(port)]"
ASK = f"""
import sys
from tests.servers.session import begin
print(begin().endpoint('files', lambda port: {FILES}), begin().folder, flush=True)
input()
"""


def files(port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]


def answers(endpoint: str) -> bool:
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def eventually(condition: Callable[[], bool]) -> bool:
    ends = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < ends:
        time.sleep(0.02)
    return condition()


class Asker:
    """A process that asks for the server, says what it was told, and waits for a word."""

    def __init__(self, session: Session | None) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        env.pop(VARIABLE)
        if session:
            env[VARIABLE] = str(session.folder)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASK], env=env, stdin=pipe, stdout=pipe, text=True
        )

    def told(self) -> tuple[str, Path]:
        assert self.process.stdout
        endpoint, folder = self.process.stdout.readline().split()
        return endpoint, Path(folder)

    def leave(self) -> None:
        self.process.communicate("\n", timeout=PATIENCE)

    def crash(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session.begin()
    yield session
    session.end()


def test_a_server_is_started_once_and_shared_by_all_processes(session: Session) -> None:
    askers = [Asker(session) for _ in range(3)]
    told = {asker.told()[0] for asker in askers} | {session.endpoint("files", files)}
    assert len(told) == 1
    assert answers(told.pop())
    for asker in askers:
        asker.leave()


def test_a_server_outlives_who_started_it(session: Session) -> None:
    first = Asker(session)
    endpoint, _ = first.told()
    first.crash()
    assert session.endpoint("files", files) == endpoint
    assert answers(endpoint)


def test_a_server_that_died_is_started_again(session: Session) -> None:
    session.endpoint("files", files)
    os.kill(int((session.folder / "files.guard").read_text()), signal.SIGTERM)
    session._guards[0].wait()
    assert answers(session.endpoint("files", files))


def test_nothing_is_left_when_a_session_has_ended() -> None:
    session = Session.begin()
    endpoint = session.endpoint("files", files)
    session.end()
    assert not answers(endpoint)
    assert not session.folder.exists()


def test_nothing_is_left_of_a_server_that_another_process_started() -> None:
    session = Session.begin()
    other = Asker(session)
    endpoint, _ = other.told()
    other.leave()
    session.end()
    assert not answers(endpoint)


def test_a_process_that_nobody_gave_a_session_owns_one_until_it_ends() -> None:
    asker = Asker(None)
    endpoint, folder = asker.told()
    assert answers(endpoint)
    asker.leave()
    assert not answers(endpoint)
    assert not folder.exists()


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    owner = Asker(None)
    endpoint, folder = owner.told()
    owner.crash()
    assert eventually(lambda: not answers(endpoint) and not folder.exists())


def test_a_server_that_does_not_start_is_told_with_what_it_printed(session: Session) -> None:
    with pytest.raises(NotStarted, match="no such option"):
        session.endpoint("broken", lambda port: ["sh", "-c", "echo no such option"])


def test_a_fork_does_not_end_the_session(session: Session) -> None:
    endpoint = session.endpoint("files", files)
    child = os.fork()
    if not child:
        session.end()
        os._exit(0)
    os.waitpid(child, 0)
    assert answers(endpoint)
