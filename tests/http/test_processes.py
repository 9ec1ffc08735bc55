"""Many processes on one store, and processes that end while they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3

from tests.http.errand import created, state, taken, told
from tests.http.patience import until
from tests.http.server import Server, running_server

CLIENTS = 8


@contextmanager
def engine(folder: Path) -> Iterator[Server]:
    """A process that runs the loops and answers nobody."""
    server = Server(folder, "--engine-only")
    try:
        until(lambda: "oncue serve: pid" in server.log)
        yield server
    finally:
        assert server.stop() == 0


def test_two_servers_on_one_store_are_one_service(tmp_path: Path) -> None:
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        job_id = created(one, "shared", key="k")
        assert two.get(f"/jobs/{job_id}").json["queue"] == "shared"
        assert two.post("/jobs", {"queue": "shared", "key": "k"}).json["id"] == job_id
        [job] = taken(two, "shared")
        assert taken(one, "shared") == []
        assert told(one, job, "complete", result=1).status == 200
        assert told(two, job, "complete", result=1).status == 200
        two.post("/queues/shared/pause")
        created(one, "shared")
        assert taken(one, "shared") == []


def test_a_worker_at_one_server_hears_of_a_job_at_the_other(tmp_path: Path) -> None:
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        found: list[str] = []

        def wait() -> None:
            found.extend(job["id"] for job in taken(two, "far", wait_seconds=20))

        worker = threading.Thread(target=wait)
        worker.start()
        job_id = created(one, "far")
        worker.join(30)
    assert found == [job_id]


def test_every_job_is_handed_out_once_however_many_ask(tmp_path: Path) -> None:
    found: list[str] = []
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        ids = [created(one, "raced") for _ in range(60)]

        def work(server: Server) -> None:
            while items := taken(server, "raced", limit=3):
                for job in items:
                    found.append(job["id"])
                    assert told(server, job, "complete").status == 200

        workers = [threading.Thread(target=work, args=(s,)) for s in (one, two, one, two)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert one.get("/queues/raced").json["counts"]["succeeded"] == 60
    assert sorted(found) == sorted(ids)


def test_http_and_the_loops_can_be_run_apart(tmp_path: Path) -> None:
    with running_server(tmp_path, "--no-engine") as server:
        server.put("/queues/apart", {"sink": "log:"})
        server.put("/queues/pulled", {"retry": {"initial_seconds": 0}})
        delivered, lost = created(server, "apart"), created(server, "pulled")
        taken(server, "pulled", lease_seconds=0.05)
        assert (state(server, delivered), state(server, lost)) == ("scheduled", "dispatched")
        with engine(tmp_path) as loops:
            until(lambda: state(server, delivered) == "succeeded")
            until(lambda: state(server, lost) == "scheduled")
            assert not loops.url
        assert f"job={delivered}" in loops.log
        assert f"job={delivered}" not in server.log


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        fields = {"queue": "durable", "payload": {"n": 1}, "delay": 600}
        job = server.post("/jobs", fields).json
        server.kill()
    with running_server(tmp_path) as server:
        found = server.get(f"/jobs/{job['id']}").json
        assert {name: found[name] for name in job} == job


def test_a_claim_survives_a_kill_and_its_token_too(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        created(server, "claimed")
        [job] = taken(server, "claimed", lease_seconds=600)
        server.kill()
    with running_server(tmp_path) as server:
        assert told(server, job, "heartbeat").status == 200
        assert told(server, job, "complete", result="done").status == 200
        assert state(server, job["id"]) == "succeeded"


def test_stopping_under_load_answers_what_it_stores(tmp_path: Path) -> None:
    """Whoever was answered 201 finds the job; whoever was not answered stored nothing."""
    answered: list[str] = []
    enough = threading.Event()

    def create(server: Server, client: int) -> None:
        for number in range(100_000):
            try:
                reply = server.post("/jobs", {"id": f"c{client}-{number}", "queue": "load"})
            except urllib3.exceptions.HTTPError:
                return
            if reply.status != 201:
                return
            answered.append(reply.json["id"])
            if len(answered) >= 100:
                enough.set()

    with running_server(tmp_path) as server:
        clients = [threading.Thread(target=create, args=(server, n)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        assert enough.wait(60)
        server.terminate()
        for client in clients:
            client.join(60)
        assert server.stop() == 0
    with running_server(tmp_path) as server:
        stored: set[str] = set()
        place = "/jobs?queue=load&limit=500"
        page = server.get(place).json
        while True:
            stored |= {job["id"] for job in page["items"]}
            if page["next_cursor"] is None:
                break
            page = server.get(f"{place}&cursor={page['next_cursor']}").json
    assert stored == set(answered)
