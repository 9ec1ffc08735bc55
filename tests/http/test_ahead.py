"""`GET /queues/{queue}/due-counts`: what is due when. `GET /access`: what a token allows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.client import Client
from oncue.core.access import Scope
from oncue.core.moment import from_datetime
from oncue.usecases.tokens import Access
from tests.http.server import Server, running_server

NOON = "2036-02-29T12:00:00.000Z"
AT_NOON = from_datetime(datetime(2036, 2, 29, 12, tzinfo=UTC))
MINUTE_MS = 60_000


def add(server: Server, queue: str, *times: str) -> None:
    for at in times:
        assert server.post("/jobs", {"queue": queue, "due_at": at}).status == 201


def test_due_jobs_are_counted_step_by_step(server: Server) -> None:
    add(server, "steps", NOON, NOON, "2036-02-29T12:00:59.999Z", "2036-02-29T12:05:00Z")
    add(server, "steps", "2036-02-29T11:59:59.999Z", "2036-02-29T12:10:00Z")
    asked = f"/queues/steps/due-counts?from={NOON}&until=2036-02-29T12:10:00Z"
    reply = server.get(asked)
    assert (reply.status, reply.json) == (
        200,
        {
            "items": [
                {"at": NOON, "count": 3},
                {"at": "2036-02-29T12:05:00.000Z", "count": 1},
            ],
            "next_cursor": None,
        },
    )
    whole = server.get(f"{asked}&step_seconds=600").json["items"]
    assert whole == [{"at": NOON, "count": 4}]


def test_without_parameters_it_is_the_next_hour(server: Server) -> None:
    server.post("/jobs", {"queue": "hour", "delay": 1800})
    server.post("/jobs", {"queue": "hour", "delay": 7200})
    [item] = server.get("/queues/hour/due-counts").json["items"]
    assert item["count"] == 1


def test_a_client_counts_what_a_scheduler_counts(server: Server) -> None:
    add(server, "alike", NOON, NOON, "2036-02-29T12:07:30Z")
    with Scheduler(server.store) as here, Client(server.url) as there:
        span = ("alike", AT_NOON, AT_NOON + 10 * MINUTE_MS, MINUTE_MS)
        assert dict(here.due_counts(*span)) == {AT_NOON: 2, AT_NOON + 7 * MINUTE_MS: 1}
        assert there.due_counts(*span) == here.due_counts(*span)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("from=yesterday", "?from"),
        (f"from={NOON}&until=2036-02-29T12:00:00Z", "?until"),
        ("step_seconds=0", "?step_seconds"),
        ("step_seconds=-1", "?step_seconds"),
        ("step_seconds=nan", "?step_seconds"),
        ("step_seconds=soon", "?step_seconds"),
        ("step_seconds=0.001", "?step_seconds"),
        ("steps=1", "?steps"),
    ],
)
def test_wrong_parameters_are_named(server: Server, query: str, pointer: str) -> None:
    reply = server.get(f"/queues/mail/due-counts?{query}")
    assert (reply.status, reply.pointer) == (422, pointer)


def test_a_server_without_tokens_allows_this_machine_everything(server: Server) -> None:
    assert server.get("/access").json == {"scopes": ["read", "write", "work", "admin"]}


def test_a_token_learns_its_own_scopes(tmp_path: Path) -> None:
    with running_server(tmp_path, "--no-engine") as server, Scheduler(server.store) as cue:
        access = Access(cue.store, cue.clock)
        _, text = access.create(None, frozenset({Scope.WORK, Scope.READ}))
        assert server.get("/access").status == 401
        unknown = {"Authorization": "Bearer oncue_unknown"}
        assert server.get("/access", headers=unknown).status == 401
        known = {"Authorization": f"Bearer {text}"}
        assert server.get("/access", headers=known).json == {"scopes": ["read", "work"]}
