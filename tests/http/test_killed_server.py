"""A server that is killed again and again while workers claim and complete: no job fails of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from tests.http.errand import created
from tests.http.patience import until
from tests.http.server import Reply, Server

JOBS = 40
KILLS = 4
WORKERS = 4
LEASE_SECONDS = 0.3
AWAY = (urllib3.exceptions.HTTPError, ConnectionError)


class Service:
    """One address; whoever answers there is killed and born again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = self._born("0")
        self.port = self.server.url.rpartition(":")[2]
        self.claimed = threading.Event()
        self.over = threading.Event()

    def _born(self, port: str) -> Server:
        server = Server(self.folder, "--port", port)
        server.wait_until_listening()
        return server

    def kill(self) -> None:
        self.server.kill()
        self.server = self._born(self.port)

    def insist(self, path: str, fields: Any) -> Reply | None:
        """The answer, from whoever gives one; None: it is over."""
        while not self.over.is_set():
            try:
                return self.server.post(path, fields)
            except AWAY:
                self.over.wait(0.02)
        return None

    def work(self, number: int) -> None:
        """Claim, take some time without a sign of life, complete."""
        wish = {"limit": 3, "lease_seconds": LEASE_SECONDS, "worker": f"w-{number}"}
        while reply := self.insist("/queues/q/claim", {**wish, "wait_seconds": 1}):
            items = reply.json["items"]
            if items and not self.claimed.is_set():
                self.claimed.set()
                continue  # this worker is lost together with the server
            self.over.wait(LEASE_SECONDS / 4)
            for job in items:
                self.insist(f"/jobs/{job['id']}/complete", {"token": job["token"]})


@contextmanager
def working(service: Service) -> Iterator[None]:
    workers = [threading.Thread(target=service.work, args=(n,)) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        service.over.set()
        for worker in workers:
            worker.join(60)
        service.server.stop()


def test_a_server_that_is_killed_again_and_again_fails_no_job(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.server.put("/queues/q", {"max_attempts": 20})
    ids = [created(service.server, "q") for _ in range(JOBS)]
    with working(service):
        for _ in range(KILLS):
            assert service.claimed.wait(30)
            service.claimed.clear()
            service.kill()

        def counts() -> dict[str, int]:
            found: dict[str, int] = service.server.get("/queues/q").json["counts"]
            return {state: number for state, number in found.items() if number}

        until(lambda: counts().keys() <= {"succeeded", "failed"})
        assert counts() == {"succeeded": JOBS}
        jobs = [service.server.get(f"/jobs/{one}").json for one in ids]
        codes = {one["code"] for job in jobs for one in job["diagnostics"]}
        assert "timeout_dispatched" in codes, "no claim was lost: the test proves nothing"
