"""`POST /reclaim`: a run asked for over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from oncue import Client, InvalidInput, Scheduler
from oncue.core.access import Scope
from oncue.usecases.tokens import Access
from tests.http.errand import one_taken, state, taken, told
from tests.http.patience import until
from tests.http.server import Server, running_server

SAMPLE = b"""{
"maximumExecutionSeconds":60,
"agendaProgressEndpointURL":"https://www.myurl.com",
"idFieldName":"id",
"maximumExecutionSeconds":120,
"objectScanLimit":25,
"reclaimAgeMinutes":4320,
"scanDelayMillis":500,
"tableName":"POP-ProgressAgenda-dev",
"targetBatchSize":50,
"timeFieldName":"updatedTime"
}"""
WAITING = {"processingState": "WAITING"}
JSON = {"Content-Type": "application/json"}
INSTANT = 0.0001  # minutes: six milliseconds
_NEVER = Event()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One for each test: a run looks at every claim there is."""
    with running_server(tmp_path, "--no-engine") as running:
        yield running


def age() -> None:
    """Let what was just claimed become older than an instant."""
    _NEVER.wait(0.02)


def ran(server: Server, **parameters: Any) -> Any:
    age()
    reply = server.post("/reclaim", {"reclaimAgeMinutes": INSTANT, **parameters})
    assert reply.status == 200, reply.body
    return reply.json


def test_the_sample_is_accepted_as_it_stands(server: Server) -> None:
    one_taken(server, "fresh")
    reply = server.post("/reclaim", body=SAMPLE, headers=JSON)
    assert (reply.status, reply.json) == (
        200,
        {
            **dict.fromkeys(("scanned", "reclaimed", "retried", "failed", "cancelled"), 0),
            "lostRaces": 0,
            "anomalies": 0,
            "warnings": reply.json["warnings"],
            "endedBy": "end",
        },
    )
    [warning] = reply.json["warnings"]
    assert warning.startswith("tableName, the names of fields")


def test_of_a_repeated_member_the_last_counts(server: Server) -> None:
    one_taken(server, "twice")
    age()
    body = b'{"reclaimAgeMinutes": 9999, "reclaimAgeMinutes": 0, "mode": "retry", "mode": "fail"}'
    report = server.post("/reclaim", body=body, headers=JSON).json
    assert (report["reclaimed"], report["failed"]) == (1, 1)


def test_a_silent_claim_is_retried_and_its_worker_fenced(server: Server) -> None:
    job = one_taken(server, "silent", worker="ada")
    report = ran(server)
    assert (report["scanned"], report["reclaimed"], report["retried"]) == (1, 1, 1)
    assert state(server, job["id"]) == "scheduled"
    reply = told(server, job, "complete", result="late")
    assert (reply.status, reply.json["reason"]) == (409, "reclaimed")
    assert reply.json["diagnostic"]["code"] == "timeout_dispatched"
    [again] = taken(server, "silent")
    assert (again["id"], again["attempt"]) == (job["id"], 2)


def test_a_dry_run_tells_what_it_would_do_and_why(server: Server) -> None:
    job = one_taken(server, "dry", worker="ada")
    report = ran(server, logReclaimOnly=True)
    assert (report["reclaimed"], report["wouldReclaimCount"]) == (0, 1)
    [would] = report["wouldReclaim"]
    assert (would["id"], would["queue"], would["state"]) == (job["id"], "dry", "dispatched")
    assert (would["worker"], would["attempt"], would["decision"]) == ("ada", 1, "retry")
    assert would["why"].startswith("Nothing was heard from the worker for ")
    assert would["ageSeconds"] >= 0
    assert would["updatedTime"].endswith("Z")
    assert state(server, job["id"]) == "dispatched"
    assert "wouldReclaim" not in ran(server, reclaimAgeMinutes=9999)


def test_without_a_body_all_that_is_silent_is_taken_with_a_warning(server: Server) -> None:
    one_taken(server, "all")
    report = until(lambda: _if_any(server.post("/reclaim").json))
    assert report["retried"] == 1
    assert "reclaimAgeMinutes is 0" in report["warnings"][0]


def _if_any(report: Any) -> Any:
    return report if report["reclaimed"] else None


def test_no_time_means_nothing_is_reclaimed(server: Server) -> None:
    job = one_taken(server, "timeless")
    report = ran(server, maximumExecutionSeconds=0)
    assert (report["scanned"], report["reclaimed"], report["endedBy"]) == (1, 0, "time")
    assert state(server, job["id"]) == "dispatched"


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"maximumExecutionSeconds": -1}, "/maximumExecutionSeconds"),
        ({"reclaimAgeMinutes": -0.5}, "/reclaimAgeMinutes"),
        ({"scanDelayMillis": -1}, "/scanDelayMillis"),
        ({"scanDelayMillis": "500"}, "/scanDelayMillis"),
        ({"targetBatchSize": 0}, "/targetBatchSize"),
        ({"objectScanLimit": 0}, "/objectScanLimit"),
        ({"logReclaimOnly": "yes"}, "/logReclaimOnly"),
        ({"mode": "destroy"}, "/mode"),
        ({"agendaProgressEndpointURL": 5}, "/agendaProgressEndpointURL"),
    ],
)
def test_a_bad_parameter_is_a_422_that_names_it(
    server: Server, parameters: dict[str, Any], pointer: str
) -> None:
    reply = server.post("/reclaim", parameters)
    assert (reply.status, reply.pointer) == (422, pointer)


def test_an_unknown_parameter_is_a_422_that_names_the_known_ones(server: Server) -> None:
    reply = server.post("/reclaim", {"reclaim_age_minutes": 5})
    assert (reply.status, reply.pointer) == (422, "/reclaim_age_minutes")
    assert "reclaimAgeMinutes, scanDelayMillis" in reply.json["detail"]
    assert server.post("/reclaim", [1]).status == 422
    assert server.post("/reclaim", body=b"{", headers=JSON).status == 400


def test_a_run_is_counted_in_the_metrics(server: Server) -> None:
    one_taken(server, "measured")
    ran(server)
    assert 'oncue_reclaimed_total{outcome="retried"} 1.0' in server.get("/metrics").body.decode()


def test_a_run_and_a_write_around_the_token_take_the_scope_admin(tmp_path: Path) -> None:
    statuses = {}
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        access = Access(cue.store, cue.clock)
        tokens = {scope: access.create(scope, frozenset({scope}))[1] for scope in Scope}
    with running_server(tmp_path, "--no-engine") as server:
        for scope, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            statuses[scope] = (
                server.post("/reclaim", {}, headers=headers).status,
                server.get("/agenda-progress/nobody", headers=headers).status,
                server.put("/agenda-progress/nobody", WAITING, headers=headers).status,
            )
    assert statuses == {
        Scope.READ: (403, 404, 403),
        Scope.WRITE: (403, 403, 403),
        Scope.WORK: (403, 403, 403),
        Scope.ADMIN: (200, 404, 404),
    }


def test_a_client_starts_a_run_and_reads_its_report(server: Server) -> None:
    job = one_taken(server, "from-afar", worker="ada")
    age()
    with Client(server.url) as client:
        report = client.reclaim(reclaim_age_minutes=INSTANT, log_reclaim_only=True)
        assert report.would_reclaim is not None
        assert [(one.id, one.decision) for one in report.would_reclaim] == [(job["id"], "retry")]
        report = client.reclaim(reclaim_age_minutes=INSTANT, mode="fail")
        assert (report.scanned, report.reclaimed, report.failed) == (1, 1, 1)
        assert report.would_reclaim is None
        with pytest.raises(InvalidInput):
            client.reclaim(mode="destroy")


def test_a_run_that_pauses_ends_when_the_server_is_stopped(tmp_path: Path) -> None:
    with running_server(tmp_path, "--no-engine") as server:
        for _ in range(3):
            one_taken(server, "long")
        age()
        slow = {"reclaimAgeMinutes": INSTANT, "objectScanLimit": 1, "targetBatchSize": 1}
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.post, "/reclaim", {**slow, "scanDelayMillis": 60_000})
            until(lambda: "scheduled" in {s["state"] for s in server.get("/jobs").json["items"]})
            assert server.stop() == 0
            report = asked.result().json
    assert (report["reclaimed"], report["endedBy"]) == (1, "time")
