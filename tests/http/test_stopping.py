"""A server that ends while somebody is in the middle of a request."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from oncue.api import connections
from oncue.api.server import HttpServer
from oncue.core.job import JobFilter
from oncue.scheduler import Scheduler

HALF = (
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 16\r\nExpect: 100-continue\r\n\r\n{"queue'
)


def begun(server: HttpServer) -> socket.socket:
    """A connection on which the server has begun to read a body that is not complete."""
    connection = socket.create_connection((server.host, server.port), 30)
    connection.sendall(HALF)
    assert connection.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return connection


def test_one_that_takes_too_long_is_cut_off_and_it_is_told(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        server = HttpServer(cue, "127.0.0.1", 0)
        server.start()
        with begun(server) as connection:
            assert not server.stop(1)
            head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["type"] == "/problems/stopping"
        assert cue.page(JobFilter()).items == []


def test_half_a_request_does_not_hold_up_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HALF_SECONDS", 0.0)
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        server = HttpServer(cue, "127.0.0.1", 0)
        server.start()
        with begun(server) as connection:
            assert server.stop(30)
            assert connection.makefile("rb").read().startswith(b"HTTP/1.1 503 ")
