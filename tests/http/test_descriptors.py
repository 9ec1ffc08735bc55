"""A server whose connections use all its descriptors: it can open no file."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.http.server import Server, running_server

CONNECTIONS = 20
PAGES = ("/docs", "/docs/style.css", "/docs/script.js", "/openapi.json", "/metrics", "/livez")


class Talk:
    """One connection, which stays open."""

    def __init__(self, server: Server) -> None:
        place = urlsplit(server.url)
        self._connection = HTTPConnection(str(place.hostname), place.port, timeout=30)

    def ask(self, method: str, path: str, fields: Any = None) -> tuple[int, bytes]:
        body = None if fields is None else json.dumps(fields)
        headers = {} if fields is None else {"Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """A connection to a server that has just started and cannot open anything any more. Its store
    needs no file: one that does opens readers when they are first needed."""
    folder = tmp_path_factory.mktemp("crowded")
    with running_server(folder, "--store", "memory:") as server, ExitStack() as others:
        place = urlsplit(server.url)
        for _ in range(CONNECTIONS):
            others.enter_context(socket.create_connection((place.hostname, place.port), 30))
        talk = Talk(server)
        others.callback(talk.close)
        assert talk.ask("GET", "/livez")[0] == 200  # by now all of them are accepted
        used = {int(one.name) for one in Path(f"/proc/{server.process.pid}/fd").iterdir()}
        free = next(number for number in count() if number not in used)
        assert free > CONNECTIONS
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
        yield talk
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_answered_without_a_free_descriptor(crowded: Talk, path: str) -> None:
    status, body = crowded.ask("GET", path)
    assert status == 200, body
    assert body


def test_time_zones_are_known_without_a_free_descriptor(crowded: Talk) -> None:
    nightly = {"cron": "30 2 * * *", "timezone": "Antarctica/Troll", "queue": "night"}
    assert crowded.ask("PUT", "/schedules/nightly", nightly)[0] == 201
    status, body = crowded.ask("GET", "/schedules/nightly/next?count=3")
    assert (status, len(json.loads(body)["items"])) == (200, 3)
    assert crowded.ask("PUT", "/schedules/x", {**nightly, "timezone": "Mars/Base"})[0] == 422
