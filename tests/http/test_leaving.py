"""A client that leaves before its claim could be answered: the jobs are released at once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import urllib3

from oncue import Scheduler, State
from oncue.api.server import HttpServer
from oncue.core.job import Claimed
from oncue.stores.sqlite import SqliteStore
from tests.http.patience import until

LONG = 30.0


class HeldStore(SqliteStore):
    """Takes nothing before it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked = threading.Event()
        self.go = threading.Event()

    def claim(self, *args: Any, **options: Any) -> list[list[Claimed]]:
        self.asked.set()
        assert self.go.wait(LONG)
        return super().claim(*args, **options)


class Place:
    """A server in this process, and connections to it that can be cut."""

    def __init__(self, cue: Scheduler, store: HeldStore) -> None:
        self.cue = cue
        self.store = store
        self.server = HttpServer(cue, "127.0.0.1", 0)
        self.server.start()

    def ask(self, **wishes: Any) -> socket.socket:
        body = json.dumps({"worker": "w", **wishes}).encode()
        head = (
            "POST /queues/q/claim HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self.server.port), LONG)
        connection.sendall(head.encode() + body)
        return connection

    def turn(self) -> None:
        """Let the server notice what has happened to its connections: it answers two requests."""
        for _ in range(2):
            assert urllib3.request("GET", f"{self.server.url}/livez", retries=False).status == 200


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    store = HeldStore(tmp_path / "jobs.db")
    with Scheduler(store) as cue:
        place = Place(cue, store)
        yield place
        store.go.set()
        assert place.server.stop(LONG)
    store.close()


def states(cue: Scheduler, ids: Sequence[str]) -> set[tuple[State, int, str | None]]:
    jobs = [cue.job(job_id) for job_id in ids]
    return {(job.state, job.attempt, job.worker) for job in jobs}


@pytest.mark.parametrize("wishes", [{}, {"wait_seconds": 60}], ids=["at once", "waiting"])
@pytest.mark.parametrize("number", [1, 60], ids=["one", "many"])
def test_what_was_taken_for_a_client_that_has_left_is_released_at_once(
    place: Place, number: int, wishes: dict[str, Any]
) -> None:
    ids = place.cue.schedule_many(({} for _ in range(number)), queue="q").ids
    assert all(ids)
    with place.ask(limit=100, lease_seconds=3600, **wishes):
        assert place.store.asked.wait(LONG)
    place.turn()
    place.store.go.set()
    released = {(State.SCHEDULED, 0, None)}
    until(lambda: all(place.cue.history(one).attempts for one in ids))
    until(lambda: states(place.cue, ids) == released)
    outcomes = {a.outcome for one in ids for a in place.cue.history(one).attempts}
    assert outcomes == {"released"}
    again = place.cue.claim("q", "next", limit=100)
    assert {(claim.attempt, claim.attempt_base) for claim in again} == {(1, 0)}


def test_a_client_that_has_sent_more_is_noticed_to_leave(place: Place) -> None:
    place.cue.schedule(queue="q", id="mine")
    with place.ask(lease_seconds=3600, wait_seconds=60) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert place.store.asked.wait(LONG)
        place.turn()
    place.turn()
    place.store.go.set()
    until(lambda: place.cue.history("mine").attempts)
    until(lambda: states(place.cue, ["mine"]) == {(State.SCHEDULED, 0, None)})


def test_a_client_that_stays_gets_its_jobs(place: Place) -> None:
    place.cue.schedule(queue="q", id="mine")
    with place.ask(lease_seconds=3600) as connection:
        assert place.store.asked.wait(LONG)
        place.turn()
        place.store.go.set()
        head = connection.recv(65_536)
    assert head.startswith(b"HTTP/1.1 200")
    assert b'"id":"mine"' in head
    assert place.cue.job("mine").state is State.DISPATCHED
