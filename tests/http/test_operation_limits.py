"""Jobs with very many operations, or very large ones: a client can make no answer grow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncue import Client, HandledJob, Scheduler, State
from oncue.core.operations import PAGE_BYTES, OperationLimits
from oncue.usecases.tokens import Access
from oncue.worker.worker import Worker
from tests.http.errand import one_taken, taken, told
from tests.http.patience import until
from tests.http.server import Reply, Server, running_server

LARGE = "x" * 250_000
STEPS = 6  # whose results, each LARGE, are more than one answer has room for


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that allows little."""
    limits = {"ONCUE_OPERATIONS_PER_JOB": "3", "ONCUE_OPERATION_BYTES_PER_JOB": "100"}
    with running_server(tmp_path_factory.mktemp("narrow"), **limits) as server:
        yield server


def put(server: Server, job: Any, name: str, **fields: Any) -> Reply:
    report = {"token": job["token"], "state": "succeeded", **fields}
    return server.put(f"/jobs/{job['id']}/operations/{name}", report)


def listed(server: Server, job_id: str, **query: Any) -> list[Any]:
    """The operations of a job, page by page."""
    found: list[Any] = []
    while True:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        page = server.get(f"/jobs/{job_id}/operations?{asked}").json
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


def retaken_with_large_operations(server: Server, cue: Scheduler, queue: str) -> Any:
    """A job that is claimed again, with more operations than an answer has room for."""
    cue.operation_limits = OperationLimits(1000, 10**8)
    job = one_taken(server, queue)
    for n in range(STEPS):
        cue.operation(job["id"], job["token"], f"o{n}", "succeeded", result=LARGE)
    assert told(server, job, "release").status == 200
    [again] = taken(server, queue)
    return again


def test_an_operation_too_many_is_a_422_and_changes_nothing(narrow: Server) -> None:
    job = one_taken(narrow, "many")
    for name in "abc":
        assert put(narrow, job, name, result=1).status == 200
    before = narrow.get(f"/jobs/{job['id']}").json
    for _ in range(3):
        reply = put(narrow, job, "d", result=1)
        assert (reply.status, reply.pointer) == (422, "/name")
        assert "has 3 operations, and may have no more" in reply.json["detail"]
    assert narrow.get(f"/jobs/{job['id']}").json == before
    assert put(narrow, job, "c", result=1).status == 200
    assert told(narrow, job, "complete").status == 200


def test_results_too_large_are_a_413_and_change_nothing(narrow: Server) -> None:
    job = one_taken(narrow, "large")
    assert put(narrow, job, "a", result="x" * 90).status == 200
    before = narrow.get(f"/jobs/{job['id']}").json
    reply = put(narrow, job, "b", result="x" * 10)
    assert (reply.status, reply.json["type"]) == (413, "/problems/too-large")
    assert "100 bytes of results" in reply.json["detail"]
    assert narrow.get(f"/jobs/{job['id']}").json == before
    assert put(narrow, job, "b", result=1).status == 200


def test_a_client_that_reports_large_results_without_end_is_stopped(server: Server) -> None:
    job = one_taken(server, "endless")
    statuses = [put(server, job, f"o{n}", result="x" * 262_000).status for n in range(8)]
    assert statuses == [200] * 4 + [413] * 4
    assert len(server.get(f"/jobs/{job['id']}").body) < PAGE_BYTES + 10_000
    assert len(listed(server, job["id"])) == 4


def test_operations_are_listed_page_by_page(server: Server) -> None:
    job = one_taken(server, "pages")
    for n in range(7):
        put(server, job, f"o{n}", result=n)
    first = server.get(f"/jobs/{job['id']}/operations?limit=3").json
    assert [one["name"] for one in first["items"]] == ["o0", "o1", "o2"]
    assert first["items"] == server.get(f"/jobs/{job['id']}").json["operations"][:3]
    assert [one["result"] for one in listed(server, job["id"], limit=3)] == list(range(7))
    whole = server.get(f"/jobs/{job['id']}/operations").json
    assert (len(whole["items"]), whole["next_cursor"]) == (7, None)


def test_a_list_of_operations_refuses_what_makes_no_sense(server: Server) -> None:
    job = one_taken(server, "senseless")
    place = f"/jobs/{job['id']}/operations"
    for query, pointer in {
        "limit=0": "?limit",
        "limit=501": "?limit",
        "cursor=x": "?cursor",
        "cursor=-1": "?cursor",
    }.items():
        reply = server.get(f"{place}?{query}")
        assert (reply.status, reply.pointer) == (422, pointer)
    assert server.get("/jobs/nobody/operations").status == 404
    assert server.get("/jobs/nobody/operations?cursor=3").status == 404
    assert server.get(f"{place}?page=2").status == 422


def test_a_list_too_long_for_an_answer_carries_a_cursor(server: Server, cue: Scheduler) -> None:
    again = retaken_with_large_operations(server, cue, "too-long")
    job = server.get(f"/jobs/{again['id']}")
    assert len(job.body) < PAGE_BYTES + 10_000
    for told_of in (again, job.json):
        names = [one["name"] for one in told_of["operations"]]
        more = listed(server, again["id"], cursor=told_of["operations_cursor"])
        assert 0 < len(names) < STEPS
        assert names + [one["name"] for one in more] == [f"o{n}" for n in range(STEPS)]
        assert {one["result"] for one in more} == {LARGE}
    few = one_taken(server, "short-enough")
    assert "operations_cursor" not in few
    assert "operations_cursor" not in server.get(f"/jobs/{few['id']}").json


def test_the_holder_of_a_claim_reads_the_rest_with_its_token(
    server: Server, cue: Scheduler
) -> None:
    again = retaken_with_large_operations(server, cue, "token-reads")
    cursor, names = again["operations_cursor"], [one["name"] for one in again["operations"]]
    while cursor is not None:
        reply = told(server, again, "operations", cursor=cursor)
        assert reply.status == 200
        names += [one["name"] for one in reply.json["items"]]
        cursor = reply.json["next_cursor"]
    assert names == [f"o{n}" for n in range(STEPS)]
    assert told(server, again, "operations").json["items"][0]["name"] == "o0"

    reply = told(server, again, "operations", cursor="x")
    assert (reply.status, reply.pointer) == (422, "/cursor")
    assert told(server, {**again, "token": "1.1.a"}, "operations").status == 422
    assert told(server, again, "release").status == 200
    late = told(server, again, "operations", cursor="1")
    assert (late.status, late.json["type"]) == (409, "/problems/fenced")


def test_a_worker_reads_all_operations_before_its_first_step(tmp_path: Path) -> None:
    """Its access token lets it work and nothing else."""
    with (
        running_server(tmp_path, ONCUE_OPERATION_BYTES_PER_JOB="10000000") as server,
        Scheduler(server.store) as cue,
    ):
        job = cue.schedule(queue="steps")
        cue.set_queue("steps", retry={"initial_seconds": 0})
        token = Access(cue.store, cue.clock).create("worker", ["work"])[1]
        ran: list[int] = []

        with Client(server.url, token) as client:

            def step(n: int) -> str:
                ran.append(n)
                return LARGE

            @client.handler("steps")
            def handle(job: HandledJob) -> list[int]:
                order = reversed(range(STEPS))
                sizes = [len(job.step(f"o{n}", partial(step, n))) for n in order]
                if job.attempt == 1:
                    raise ConnectionError("not now")
                return sizes

            worker = Worker(client)
            until(lambda: worker.step() and cue.job(job.id).state is State.SUCCEEDED)
        assert sorted(ran) == list(range(STEPS))
        done = cue.job(job.id)
        assert (done.state, done.attempt) == (State.SUCCEEDED, 2)
        assert done.result == [len(LARGE)] * STEPS


def test_a_client_reads_a_history_page_by_page(server: Server, cue: Scheduler) -> None:
    again = retaken_with_large_operations(server, cue, "client-pages")
    with Client(server.url) as client:
        for one in (client, cue):
            history = one.history(again["id"])
            assert history.operations_cursor is not None
            rest = one.history(again["id"], history.operations_cursor)
            assert len(history.operations) + len(rest.operations) == STEPS
            assert (rest.operations_cursor, rest.attempts) == (None, ())
        after = history.operations_cursor
        assert client.history(again["id"], after) == cue.history(again["id"], after)
