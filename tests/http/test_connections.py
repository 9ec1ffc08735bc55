"""Clients that hold connections: by sending too slowly or too much, or by not reading."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from oncue.api.connection import HttpConnection
from oncue.api.connections import LEAST_READ, ConnectionLimits
from oncue.api.request import HttpAnswer, Request
from oncue.api.server import HttpServer
from oncue.scheduler import Scheduler
from tests.http.patience import until
from tests.http.server import bodies

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
FOR_EVER = 3600.0
PATIENT = ConnectionLimits(
    idle_seconds=FOR_EVER, head_seconds=FOR_EVER, unread_seconds=FOR_EVER, connections=20
)
UNTOLD = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
SLOW_BODY = (
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


class Served:
    def __init__(self, cue: Scheduler, limits: ConnectionLimits) -> None:
        self.cue = cue
        self.http = HttpServer(cue, "127.0.0.1", 0, limits=limits)
        self.http.start()
        self._all = ExitStack()

    def connect(self, sent: bytes = b"") -> socket.socket:
        """A connection on which this was sent."""
        made = socket.create_connection((self.http.host, self.http.port), 30)
        self._all.enter_context(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # else it grows when it is read
        made.sendall(sent)
        return made

    def open(self) -> int:
        """How many connections the server has."""
        return len(self.http._connections.open)

    def close(self) -> None:
        self._all.close()
        assert self.http.stop(30)


@contextmanager
def serving(tmp_path: Path, limits: ConnectionLimits) -> Iterator[Served]:
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        served = Served(cue, limits)
        try:
            yield served
        finally:
            served.close()


def rest(connection: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


# -- an answer before the end of its request -------------------------------------------------------


def test_an_answer_before_the_end_of_its_body_ends_the_connection(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT) as served:
        connection = served.connect(UNTOLD)
        answer = rest(connection)  # also if the client goes on sending
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"\r\nconnection: close\r\n" in answer
        connection.sendall(b"x")
        until(lambda: served.open() == 0)


def test_what_a_client_sends_after_the_answer_is_thrown_away(tmp_path: Path) -> None:
    """It has time to read the answer, but not for ever."""
    with serving(tmp_path, PATIENT) as served:
        connection = served.connect(UNTOLD + b"y" * 900)
        assert rest(connection).startswith(b"HTTP/1.1 404 ")
        until(lambda: served.open() == 0)


def test_an_answer_that_cannot_be_sent_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next answer would be taken for it."""

    async def respond(request: Request) -> HttpAnswer:
        return HttpAnswer(200, b"{}", headers={"broken": "\r\n"})

    with serving(tmp_path, PATIENT) as served:
        monkeypatch.setattr(served.http._service, "respond", respond)
        connection = served.connect(LIVEZ)
        until(lambda: served.open() == 0)
        assert rest(connection) == b""


def test_a_short_body_that_came_with_its_head_keeps_the_connection(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT) as served:
        request = UNTOLD.replace(b"1000", b"2") + b"{}"
        connection = served.connect(request + LIVEZ)
        assert [one["status"] for one in bodies(connection, 2)] == [404, "alive"]


# -- too slow --------------------------------------------------------------------------------------


def test_a_head_that_takes_too_long_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT._replace(head_seconds=0)) as served:
        answer = rest(served.connect(LIVEZ[:20]))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "/problems/request-timeout"


def test_a_second_head_has_no_more_time_than_the_first(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT._replace(head_seconds=0)) as served:
        connection = served.connect(LIVEZ + LIVEZ[:20])
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answer


def test_a_head_has_no_more_time_if_it_comes_byte_by_byte(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT._replace(head_seconds=0.5)) as served:
        connection = served.connect(LIVEZ[:-2] + b"Slow: ")
        until(served.open)

        def is_told() -> bool:
            with suppress(ConnectionError):
                connection.sendall(b"x")
            return served.open() == 0

        until(is_told)
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_was_refused_cannot_be_late_as_well(tmp_path: Path) -> None:
    """A second answer cannot be sent, and the deadlines of all others would end with it."""
    with serving(tmp_path, PATIENT._replace(head_seconds=0.5)) as served:
        connection = served.connect(LIVEZ[:20])
        until(served.open)
        connection.sendall(b"x")
        assert rest(connection).startswith(b"HTTP/1.1 400 ")
        until(lambda: served.open() == 0)
        assert rest(served.connect(LIVEZ[:20])).startswith(b"HTTP/1.1 408 ")


def test_a_defect_at_one_connection_leaves_the_deadlines_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[HttpConnection] = []
    head_is_late = HttpConnection.head_is_late

    def broken_once(connection: HttpConnection) -> None:
        told.append(connection)
        if len(told) == 1:
            raise RuntimeError
        head_is_late(connection)

    monkeypatch.setattr(HttpConnection, "head_is_late", broken_once)
    with serving(tmp_path, PATIENT._replace(head_seconds=0)) as served:
        both = [served.connect(LIVEZ[:20]) for _ in range(2)]
        until(lambda: told)
        assert rest(both[1]).startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_is_closed_without_a_word(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT._replace(idle_seconds=0)) as served:
        assert rest(served.connect()) == b""


def test_empty_lines_do_not_keep_a_connection(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT._replace(idle_seconds=1.5)) as served:
        connection = served.connect(LIVEZ)
        until(served.open)

        def is_closed() -> bool:
            with suppress(ConnectionError):
                connection.sendall(b"\r\n")
            return served.open() == 0

        until(is_closed)


# -- too many --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", LIVEZ, LIVEZ[:20], SLOW_BODY], ids=str)
def test_at_the_limit_the_client_that_waits_longest_goes(tmp_path: Path, sent: bytes) -> None:
    with serving(tmp_path, PATIENT) as served:
        first, *_ = [served.connect(sent) for _ in range(PATIENT.connections)]
        until(lambda: served.open() == PATIENT.connections)
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"
        assert served.open() == PATIENT.connections
        with suppress(ConnectionError):  # it was broken
            rest(first)
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"


def test_requests_that_are_being_answered_are_not_broken(tmp_path: Path) -> None:
    """Those that wait for work: a new connection is refused, and told why."""
    wait = b'{"wait_seconds": 60}'
    claim = (
        b"POST /queues/q/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(wait), wait)
    )
    with serving(tmp_path, PATIENT) as served:
        waiting = [served.connect(claim) for _ in range(PATIENT.connections)]
        until(lambda: len(served.http._connections.busy) == PATIENT.connections)
        answer = rest(served.connect())
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"/problems/too-many-connections" in answer
        for _ in waiting:
            served.cue.schedule(queue="q")
        assert sum(len(bodies(one, 1)[0]["items"]) for one in waiting) == PATIENT.connections


def test_bodies_that_do_not_end_do_not_add_up(tmp_path: Path) -> None:
    """Without a token: reports on claims have theirs in the body."""
    most = 8 * 1024 * 1024
    head = SLOW_BODY.replace(b"/jobs", b"/jobs/x/heartbeat").replace(b"1000", b"2000000")
    with serving(tmp_path, PATIENT._replace(unread_bytes=most)) as served:
        for _ in range(12):
            with suppress(ConnectionError):
                served.connect(head + b" " * 1_900_000)
        until(lambda: served.open() <= 5)
        until(lambda: served.http._connections._body_bytes <= most)
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"
        assert served.open() >= 3
    assert served.http._connections._body_bytes == 0


def test_a_low_limit_of_open_files_locks_nobody_out(tmp_path: Path) -> None:
    """Each of these clients had its answer, and sends a byte of its body from time to time."""
    command = [sys.executable, "-m", "oncue.cli", "--store", f"sqlite:///{tmp_path / 'jobs.db'}"]
    limited = ["sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *command, "serve", "--port", "0"]
    with subprocess.Popen(limited, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "Listening on" in line)
        port = int(line.split("Listening on http://127.0.0.1:")[1].split(";")[0])
        with ExitStack() as held:
            for _ in range(300):
                one = held.enter_context(socket.create_connection(("127.0.0.1", port), 30))
                one.sendall(UNTOLD + b"x")
            last = held.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            last.sendall(LIVEZ)
            assert bodies(last, 1)[0]["status"] == "alive"
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0


# -- not reading -----------------------------------------------------------------------------------


def test_answers_that_nobody_reads_do_not_add_up(tmp_path: Path) -> None:
    """Each client asks again and again for a large page, and reads nothing."""
    limits = PATIENT._replace(unread_bytes=8 * 1024 * 1024)
    with serving(tmp_path, limits) as served:
        served.cue.schedule_many([{"payload": "x" * 200_000} for _ in range(10)])
        ask = b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
        clients = [served.connect(ask * 100) for _ in range(12)]
        connections = served.http._connections
        until(lambda: served.open() < len(clients))
        held = sum(one.held_bytes for one in list(connections.open))
        assert held <= limits.unread_bytes
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"


@pytest.mark.parametrize("more", [b"", b"\r\n", LIVEZ[:20], LIVEZ], ids=str)
def test_a_client_that_does_not_read_is_given_up(tmp_path: Path, more: bytes) -> None:
    """Also if it goes on sending."""
    with serving(tmp_path, PATIENT._replace(unread_seconds=2)) as served:
        served.cue.schedule_many([{"payload": "x" * 250_000} for _ in range(40)])
        connection = served.connect(b"GET /jobs?limit=40 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: bool(served.http._connections._unread))
        connection.sendall(more)
        until(lambda: served.open() == 0)


def test_deadlines_hold_when_answers_that_are_not_read_become_too_much(tmp_path: Path) -> None:
    """As the first of two clients has read a little."""
    with serving(tmp_path, PATIENT) as served:
        served.cue.schedule_many([{"payload": "x" * 250_000} for _ in range(40)])
        connections, ask = served.http._connections, LIVEZ.replace(b"/livez", b"/jobs?limit=40")

        def held() -> int:
            return sum(one.held_bytes for one in list(connections.open))

        first = served.connect(ask)
        before = until(held)
        while before - held() < LEAST_READ:
            assert first.recv(65536)
        some = held()
        served.connect(ask)
        until(lambda: held() > some)
        connections.limits = PATIENT._replace(unread_seconds=0, unread_bytes=1, idle_seconds=0)
        until(lambda: served.open() == 0)
        assert rest(served.connect()) == b""


def test_a_client_that_stops_reading_its_last_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read so much that the server could have written more."""
    most = 4 * 1024 * 1024
    found: list[HttpConnection] = []

    def made(connection: HttpConnection, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(most, most)
        found.append(connection)
        plain(connection, transport)

    plain = HttpConnection.connection_made
    monkeypatch.setitem(sys.modules, "uvloop", None)  # which does not say so to those that close
    monkeypatch.setattr(HttpConnection, "connection_made", made)
    with serving(tmp_path, PATIENT) as served:
        served.cue.schedule_many([{"payload": "x" * 250_000} for _ in range(40)])
        ask = LIVEZ.replace(b"/livez", b"/jobs?limit=40").replace(
            b"Host", b"Connection: close\r\nHost"
        )
        client, connections = served.connect(ask), served.http._connections
        until(lambda: found and found[0].held_bytes > most)
        while found[0].held_bytes > most:
            assert client.recv(65536)
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"  # the server has noticed
        connections.limits = PATIENT._replace(unread_seconds=0)
        until(lambda: found[0] not in connections.open)


# -- many at once, on one connection ---------------------------------------------------------------


def test_requests_in_a_row_are_answered_in_their_order(tmp_path: Path) -> None:
    paths = ["/livez", "/nowhere", "/jobs/x"] * 200
    sent = b"".join(f"GET {one} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for one in paths)
    with serving(tmp_path, PATIENT) as served:
        told = [one["status"] for one in bodies(served.connect(sent), len(paths))]
        assert told == ["alive", 404, 404] * 200


@pytest.mark.parametrize("size", [2, 10_000, 1_000_000])
def test_a_body_behind_another_request_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    post = SLOW_BODY.replace(b"1000", str(size).encode())[:-1] + b"{}".ljust(size)
    with serving(tmp_path, PATIENT) as served:
        [alive, job, other] = bodies(served.connect(LIVEZ + post * 2), 3)
        assert alive["status"] == "alive"
        assert job["state"] == other["state"] == "scheduled"


def test_only_a_little_is_kept_behind_a_request_that_waits(tmp_path: Path) -> None:
    """The claim is not answered; its client goes on sending."""
    wait = b'{"wait_seconds": 60}'
    claim = SLOW_BODY.replace(b"/jobs", b"/queues/q/claim").replace(b"1000", b"%d" % len(wait))
    large = LIVEZ[:-2] + b"x: " + b"y" * 10_000 + b"\r\n\r\n"
    with serving(tmp_path, PATIENT) as served:
        connection = served.connect(LIVEZ + claim[:-1] + wait + large)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.sendall(large * 3000)
        [held] = served.http._connections.open
        assert held.held_bytes < 1024 * 1024
        assert bodies(served.connect(LIVEZ), 1)[0]["status"] == "alive"


def test_requests_that_come_with_the_end_of_a_body_are_answered_in_their_order(
    tmp_path: Path,
) -> None:
    head = SLOW_BODY.replace(b"1000", b"2")[:-1]
    with serving(tmp_path, PATIENT) as served:
        connection = served.connect(head + b"{")
        until(lambda: bool(served.http._connections.busy))
        connection.sendall(b"}" + LIVEZ * 1000)
        created, *others = bodies(connection, 1001)
        assert created["state"] == "scheduled"
        assert [one["status"] for one in others] == ["alive"] * 1000


def test_a_doubtful_head_is_refused_also_with_an_offer(tmp_path: Path) -> None:
    offer = LIVEZ.replace(b"Host", b"Host: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHost")
    with serving(tmp_path, PATIENT) as served:
        assert rest(served.connect(offer)).startswith(b"HTTP/1.1 400 ")


def test_what_is_no_request_is_refused_after_those_before_it(tmp_path: Path) -> None:
    with serving(tmp_path, PATIENT) as served:
        connection = served.connect(LIVEZ * 3 + b"nonsense\r\n\r\n" + LIVEZ)
        statuses = re.findall(rb"HTTP/1\.1 (\d+) ", rest(connection))
        assert statuses == [b"200", b"200", b"200", b"400"]


def test_a_body_that_breaks_off_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    head = SLOW_BODY.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")[:-1]
    broken = head + b"2\r\n{}\r\nnonsense\r\n"
    with serving(tmp_path, PATIENT) as served:
        for before in range(3):
            answers = rest(served.connect(LIVEZ * before + broken + LIVEZ))
            found = re.findall(rb"HTTP/1\.1 (\d+) ", answers)
            assert found == [b"200"] * before + [b"400"]
        assert not list(served.cue.jobs())


def test_what_follows_the_last_request_is_ignored(tmp_path: Path) -> None:
    last = LIVEZ.replace(b"Host", b"Connection: close\r\nHost")
    with serving(tmp_path, PATIENT) as served:
        assert rest(served.connect(last + LIVEZ * 5)).count(b"HTTP/1.1 200 ") == 1
