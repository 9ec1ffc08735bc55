"""Requests with much to do take turns with others: one client does not hold up the rest."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3

from oncue import Scheduler
from oncue.api.routes import batch, bulk
from oncue.api.server import HttpServer
from oncue.core.bulk import BulkChange
from oncue.core.cursor import Cursor
from oncue.core.job import JobFilter, NewJob
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkFound
from oncue.ports.jobs import Clash
from oncue.stores.sqlite import SqliteStore
from tests.http.patience import until
from tests.http.server import running_server

LONG = 30.0


class Watched(SqliteStore):
    """Notes what it is asked for. A walk over the queue "endless" never ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.inserted: list[int] = []
        self.looks: dict[str | None, int] = {}

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        self.looks[wanted.queue] = count = self.looks.get(wanted.queue, 0) + 1
        if wanted.queue == "endless":
            return BulkFound([], f"place-{count}")
        return super().find_all(change, wanted, after, limit)

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        self.inserted.append(len(jobs))
        return super().insert(jobs, now)


class Place:
    """A server in this process, and its store."""

    def __init__(self, cue: Scheduler, store: Watched) -> None:
        self.cue = cue
        self.store = store
        self.server = HttpServer(cue, "127.0.0.1", 0)
        self.answered: bool | None = None
        self.server.start()

    def stop(self) -> bool:
        """Whether all requests were answered. Can be repeated."""
        if self.answered is None:
            self.answered = self.server.stop(LONG)
        return self.answered

    def post(self, path: str, body: bytes, media_type: str = "application/json") -> Any:
        headers = {"Content-Type": media_type}
        url = self.server.url + path
        answer = urllib3.request("POST", url, body=body, headers=headers, timeout=LONG)
        assert answer.status == 200
        return json.loads(answer.data)


def cancel_all(url: str, queue: str) -> socket.socket:
    """A request to cancel all jobs of a queue, without waiting for the answer."""
    body = json.dumps({"filter": {"queue": queue}}).encode()
    head = (
        "POST /jobs/cancel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", urlsplit(url).port), LONG)
    connection.sendall(head.encode() + body)
    return connection


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(bulk, "SECONDS", math.inf)
    store = Watched(tmp_path / "jobs.db")
    with Scheduler(store) as cue:
        place = Place(cue, store)
        yield place
        assert place.stop()
    store.close()


def test_a_batch_over_many_queues_is_stored_in_short_steps(place: Place) -> None:
    count = 3 * batch.STEP
    lines = b"".join(b'{"queue": "q%d", "delay": 60}\n' % n for n in range(count))
    answer = place.post("/jobs/batch", lines, "application/x-ndjson")
    assert answer["accepted"] == count
    assert len(place.store.inserted) >= 3
    assert max(place.store.inserted) <= batch.STEP


def test_a_bulk_verb_does_not_wait_until_another_one_ends(place: Place) -> None:
    place.cue.schedule(queue="q", delay=60)
    with cancel_all(place.server.url, "endless"):
        until(lambda: place.store.looks.get("endless"))
        answer = place.post("/jobs/cancel", b'{"filter": {"queue": "q"}}')
    assert answer["changed"] == 1


def test_a_bulk_verb_ends_with_the_part_in_which_its_client_left(place: Place) -> None:
    with cancel_all(place.server.url, "endless"):
        until(lambda: place.store.looks.get("endless"))

    def at_rest() -> bool:
        looks = place.store.looks["endless"]
        for _ in range(20):  # these take turns with it, if it still goes on
            place.post("/jobs/cancel", b'{"filter": {"queue": "q"}}')
        return place.store.looks["endless"] == looks

    assert until(at_rest)


def test_a_bulk_verb_under_way_is_answered_when_the_server_stops(place: Place) -> None:
    with cancel_all(place.server.url, "endless") as connection:
        until(lambda: place.store.looks.get("endless"))
        assert place.stop()
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert "_place-" in json.loads(body)["next_cursor"]


def test_a_server_ends_although_a_bulk_verb_does_not(tmp_path: Path) -> None:
    with running_server(tmp_path, weather="hung") as server, cancel_all(server.url, "q"):
        until(lambda: "looking" in server.log)
        assert server.stop() == 1
    assert "did not end within 1 s" in server.log


def test_many_queues_do_not_make_a_short_walk_a_long_one(place: Place) -> None:
    place.cue.schedule_many({"queue": f"q{n}", "delay": 60} for n in range(2000))
    body = b'{"filter": {"due_before": "2020-01-01T00:00:00Z"}, "limit": 1}'
    answer = place.post("/jobs/cancel", body)
    assert (answer["matched"], answer["next_cursor"]) == (0, None)
    assert place.store.looks[None] <= 10
