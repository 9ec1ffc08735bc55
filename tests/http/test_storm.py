"""A server on a stormy store: calls fail, are applied in part, or are applied and not answered. A
client and its workers get everything done; nothing is lost, early, or settled twice."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncue import Client, HandledJob, State
from oncue.stores.sqlite import SqliteStore
from oncue.worker.worker import Worker
from tests.http.patience import until
from tests.http.server import running_server

JOBS = 40


@pytest.mark.parametrize("seed", [1, 2])
def test_a_client_and_its_workers_outlast_a_storm(tmp_path: Path, seed: int) -> None:
    received: list[tuple[str, int]] = []
    early: list[str] = []
    with running_server(tmp_path, weather=str(seed)) as server, Client(server.url) as client:
        client.set_queue("q", max_attempts=20, lease_seconds=1)
        due = {f"job-{n}": datetime.now(UTC) + timedelta(seconds=n / 50) for n in range(JOBS)}

        @client.handler("q")
        def handle(job: HandledJob) -> None:
            received.append((job.id, job.attempt))
            if datetime.now(UTC) < due[job.id]:
                early.append(job.id)

        worker = Worker(client, concurrency=3)
        working = threading.Thread(target=worker.run)
        working.start()
        for job_id, at in due.items():
            client.schedule({}, id=job_id, queue="q", at=at)
        with closing(SqliteStore(tmp_path / "jobs.db")) as store:
            until(lambda: store.stats("q").counts.get(State.SUCCEEDED) == JOBS)
            worker.stop()
            working.join(60)
            outcomes = {
                job_id: [attempt.outcome for attempt in store.history(job_id).attempts]
                for job_id in due
            }
    assert {job_id for job_id, _ in received} == set(due)
    assert early == []
    assert {ends.count("succeeded") for ends in outcomes.values()} == {1}
    twice = [one for one, times in Counter(received).items() if times > 1]
    assert twice == [], "whoever does a job again can tell by its attempt"
