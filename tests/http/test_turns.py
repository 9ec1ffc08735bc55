"""Requests with much to do take turns with others: one client does not hold up the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import urllib3

from oncue import Scheduler
from oncue.api.routes import batch
from oncue.api.server import HttpServer
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.ports.jobs import Clash
from oncue.stores.sqlite import SqliteStore

LONG = 30.0


class Watched(SqliteStore):
    """Notes what it is asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.inserted: list[int] = []

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        self.inserted.append(len(jobs))
        return super().insert(jobs, now)


class Place:
    """A server in this process, and its store."""

    def __init__(self, cue: Scheduler, store: Watched) -> None:
        self.cue = cue
        self.store = store
        self.server = HttpServer(cue, "127.0.0.1", 0)
        self.server.start()

    def post(self, path: str, body: bytes, media_type: str = "application/json") -> Any:
        headers = {"Content-Type": media_type}
        url = self.server.url + path
        answer = urllib3.request("POST", url, body=body, headers=headers, timeout=LONG)
        assert answer.status == 200
        return json.loads(answer.data)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    store = Watched(tmp_path / "jobs.db")
    with Scheduler(store) as cue:
        place = Place(cue, store)
        yield place
        assert place.server.stop(LONG)
    store.close()


def test_a_batch_over_many_queues_is_stored_in_short_steps(place: Place) -> None:
    count = 3 * batch.STEP
    lines = b"".join(b'{"queue": "q%d", "delay": 60}\n' % n for n in range(count))
    answer = place.post("/jobs/batch", lines, "application/x-ndjson")
    assert answer["accepted"] == count
    assert len(place.store.inserted) >= 3
    assert max(place.store.inserted) <= batch.STEP
