"""Long polling: workers that wait for work, alone and by the thousand."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.http.errand import created, taken, told
from tests.http.patience import until
from tests.http.server import Server, running_server

LONG = 60.0
MANY = 1000


@pytest.fixture
def hands() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def waiting(
    server: Server, hands: ThreadPoolExecutor, *queues: str, **wishes: Any
) -> Future[list[Any]]:
    """A worker that waits until something of these queues is due."""
    fields = {"queues": list(queues), "wait_seconds": LONG, **wishes}
    reply = hands.submit(server.post, "/claim", fields, timeout=2 * LONG)
    items: Future[list[Any]] = hands.submit(lambda: list(reply.result().json["items"]))
    return items


@contextmanager
def asking(server: Server, queue: str, **wishes: Any) -> Iterator[socket.socket]:
    """A connection on which a claim was sent and not yet answered."""
    place = urlsplit(server.url)
    body = json.dumps({"wait_seconds": LONG, **wishes}).encode()
    head = (
        f"POST /queues/{queue}/claim HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((place.hostname, place.port), LONG) as connection:
        connection.sendall(head.encode() + body)
        yield connection


def read_items(connection: socket.socket) -> list[Any]:
    text = b""
    while part := connection.recv(65_536):
        text += part
    return list(json.loads(text.partition(b"\r\n\r\n")[2])["items"])


def test_a_claim_waits_for_a_job_that_is_created_meanwhile(
    server: Server, hands: ThreadPoolExecutor
) -> None:
    found = waiting(server, hands, "meanwhile")
    job_id = created(server, "meanwhile")
    assert [job["id"] for job in found.result(LONG)] == [job_id]


def test_a_claim_waits_for_a_job_to_fall_due_and_is_never_early(
    server: Server, hands: ThreadPoolExecutor
) -> None:
    job_id = created(server, "falls-due", delay=0.3)
    [job] = waiting(server, hands, "falls-due").result(LONG)
    assert job["id"] == job_id
    attempt = server.get(f"/jobs/{job_id}").json["attempts"][0]
    assert attempt["claimed_at"] >= job["due_at"]


def test_whatever_is_due_first_in_any_of_the_queues_is_handed_out(
    server: Server, hands: ThreadPoolExecutor
) -> None:
    created(server, "any-late", delay=600)
    found = waiting(server, hands, "any-late", "any-early")
    job_id = created(server, "any-early", delay=0.1)
    assert [job["id"] for job in found.result(LONG)] == [job_id]


@pytest.mark.parametrize("change", ["run", "retry", "resume", "release", "patch"])
def test_whatever_makes_a_job_due_wakes_who_waits(
    server: Server, hands: ThreadPoolExecutor, change: str
) -> None:
    queue = f"woken-{change}"
    job_id = created(server, queue, delay=0 if change in ("resume", "release") else 600)
    held = taken(server, queue) if change == "release" else []
    if change == "resume":
        server.post(f"/queues/{queue}/pause")
    if change == "retry":
        server.delete(f"/jobs/{job_id}")
    found = waiting(server, hands, queue)
    if change in ("run", "retry"):
        server.post(f"/jobs/{job_id}/{change}")
    elif change == "resume":
        server.post(f"/queues/{queue}/resume")
    elif change == "release":
        told(server, held[0], "release")
    else:
        server.patch(f"/jobs/{job_id}", {"delay": 0.05})
    assert [job["id"] for job in found.result(LONG)] == [job_id]


def test_a_wait_that_is_over_is_an_empty_answer(server: Server) -> None:
    assert taken(server, "nothing-comes", wait_seconds=0.05) == []


def test_who_waited_longest_is_served_first_and_everybody_once(
    server: Server, hands: ThreadPoolExecutor
) -> None:
    workers = [waiting(server, hands, "line", worker=f"w-{n}") for n in range(4)]
    ids = {created(server, "line") for _ in range(4)}
    found = [job["id"] for worker in workers for job in worker.result(LONG)]
    assert sorted(found) == sorted(ids)


def test_a_worker_that_hangs_up_while_waiting_loses_nothing(server: Server) -> None:
    """The job goes to the next one, and no attempt is counted."""
    with asking(server, "hung-up"):
        until(lambda: server.get("/livez").status == 200)
    job_id = created(server, "hung-up")
    [job] = until(lambda: taken(server, "hung-up", wait_seconds=0.5))
    assert (job["id"], job["attempt"]) == (job_id, 1)


def test_hanging_up_while_work_is_handed_out_loses_nothing(server: Server) -> None:
    """Whatever the moment at which a worker leaves: its job is handed out again, at the latest when
    the lease has ended."""
    # On a busy machine one job may be handed to several workers that have left.
    server.put("/queues/leaving", {"max_attempts": 20, "poison_after": 0})
    ids = set()
    for number in range(20):
        with asking(server, "leaving", lease_seconds=0.2):
            ids.add(created(server, "leaving", id=f"left-{number}"))
    found: set[str] = set()

    def everything() -> bool:
        found.update(job["id"] for job in taken(server, "leaving", limit=20))
        return found == ids

    until(everything)


def test_a_thousand_waiting_workers_are_all_served(server: Server) -> None:
    with ExitStack() as stack:
        watched = stack.enter_context(selectors.DefaultSelector())
        for number in range(MANY):
            connection = stack.enter_context(asking(server, "thousand"))
            watched.register(connection, selectors.EVENT_READ, number)
        assert server.get("/livez").status == 200
        ids = server.post("/jobs/batch", [{"queue": "thousand"}] * MANY).json["ids"]
        found: list[str] = []
        while len(found) < MANY:
            ready = watched.select(LONG)
            assert ready, f"only {len(found)} were served"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                watched.unregister(key.fileobj)
                found += [job["id"] for job in read_items(key.fileobj)]
        assert sorted(found) == sorted(ids)


def test_a_server_that_stops_lets_those_go_who_wait(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, ExitStack() as stack:
        idle = [stack.enter_context(asking(server, "idle", wait_seconds=300)) for _ in range(50)]
        until(lambda: server.get("/livez").status == 200)
        stopped: list[int] = []
        stopping = threading.Thread(target=lambda: stopped.append(server.stop()))
        stopping.start()
        answers = [read_items(connection) for connection in idle]
        stopping.join(LONG)
    assert answers == [[]] * 50
    assert stopped == [0]
    assert "Stopped." in server.log


def test_a_server_that_stops_while_work_comes_in_hands_nothing_to_nobody(tmp_path: Path) -> None:
    """What is taken when it has stopped is exactly what somebody was given."""
    with running_server(tmp_path) as server, ExitStack() as stack:
        idle = [stack.enter_context(asking(server, "busy")) for _ in range(400)]
        until(lambda: server.get("/livez").status == 200)
        creating = [threading.Thread(target=create_until_stopped, args=(server,)) for _ in range(4)]
        for thread in creating:
            thread.start()
        until(lambda: server.get("/jobs?queue=busy&state=dispatched").json["items"])
        server.terminate()
        given = [job["id"] for connection in idle for job in read_items(connection)]
        assert server.stop() == 0
        for thread in creating:
            thread.join(LONG)
    with running_server(tmp_path) as server:
        items = server.get("/jobs?queue=busy&state=dispatched&limit=500").json["items"]
        assert sorted(job["id"] for job in items) == sorted(given)


def create_until_stopped(server: Server) -> None:
    with suppress(urllib3.exceptions.HTTPError):
        while server.post("/jobs", {"queue": "busy"}).status == 201:
            continue
