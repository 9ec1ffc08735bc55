"""Whatever the description allows is accepted, whatever it forbids is refused, and all answers look
as described: asked of a live server by schemathesis."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import negative_data_rejection

from oncue import Scheduler
from oncue.api import routes
from oncue.api.docs.openapi import document
from oncue.core.access import Scope
from oncue.core.bulk import BulkCursor
from oncue.core.cursor import cursor_at
from oncue.usecases.tokens import Access
from oncue.wire.formats import DURATION_PATTERN
from tests.http.server import Server, running_server

HOW = settings(
    max_examples=10,  # for each route, beside those that schemathesis derives from each bound
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# An item that is wrong is told beside the others, with 200: nothing here is refused as a whole.
EACH_BY_ITSELF = ("/jobs/batch", "/settle", "/heartbeat")
_unique = itertools.count(1)

# What JSON Schema cannot say: how far ahead a moment may lie, how long a length may be, what is
# printable, what a cursor is made of, what is a path.
schemathesis.openapi.format(
    "date-time",
    st.datetimes(datetime(1990, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)).map(
        datetime.isoformat
    ),
)
schemathesis.openapi.format(
    "date", st.dates(datetime(1990, 1, 1).date(), datetime(2099, 1, 1).date()).map(str)
)
schemathesis.openapi.format(
    "oncue-duration", st.integers(1, 59).map("PT{}M".format) | st.just("P1W2DT3H4.5S")
)
schemathesis.openapi.format(
    "oncue-cron", st.sampled_from(["30 9 * * MON-FRI", "*/5 * * * *", "0 0 0 L * *", "0 9 * * 1#2"])
)
schemathesis.openapi.format(
    "oncue-timezone", st.sampled_from(["UTC", "Europe/Paris", "America/Port-au-Prince"])
)
_printable = st.text(min_size=1, max_size=200).filter(str.isprintable)
# Texts that are too long are asked for as well. Where none come, a long search for them is made.
schemathesis.openapi.format("printable", st.one_of(*[_printable] * 3, st.just("a" * 201)))
schemathesis.openapi.format(
    "job-cursor", st.integers(0, 10**14).map(lambda due_at: cursor_at((due_at, "a")))
)
schemathesis.openapi.format("operation-cursor", st.integers(0, 10**14).map(str))
schemathesis.openapi.format("event-cursor", st.integers(0, 10**14).map(str))
schemathesis.openapi.format("rule-cursor", st.text("abc").map(lambda name: cursor_at((name,))))

schemathesis.openapi.format(
    "oncue-stamp",
    st.datetimes(datetime(1990, 1, 1), datetime(2025, 1, 1)).map("{:%Y-%m-%d %H:%M:%S.%f}".format),
)
_resource = st.from_regex("/?[a-z]{1,8}(/[a-z]{1,8}){0,3}/?")
schemathesis.openapi.format("oncue-resource", st.one_of(*[_resource] * 3, st.just("a" * 1025)))
schemathesis.openapi.format(
    "bulk-cursor",
    st.integers(0, 10**14).map(lambda due_at: str(BulkCursor(0, cursor_at((due_at, "a"))))),
)

schema = schemathesis.openapi.from_dict(document(routes.ROUTES))
ROUTES = [(method, path) for path, item in schema.raw_schema["paths"].items() for method in item]


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> Any:
    return value if isinstance(value, str | bytes) else json.dumps(value).encode()


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of an administrator. As there is one, the server asks everybody who they are."""
    folder = tmp_path_factory.getbasetemp() / "described"
    folder.mkdir()
    with Scheduler(f"sqlite:///{folder / 'jobs.db'}") as cue:
        return Access(cue.store, cue.clock).create("tests", frozenset({Scope.ADMIN}))[1]


@pytest.fixture(scope="module")
def server(token: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.getbasetemp() / "described") as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"), ROUTES, ids=[f"{method.upper()} {path}" for method, path in ROUTES]
)
def test_a_route_does_what_its_description_says(
    method: str, path: str, server: Server, token: str
) -> None:
    """Its examples are made here and not by `schema.parametrize()`: there, every worker makes those
    of all routes before its first test, and that takes longer than sending them. `from_fixture`
    would make them as late; but that of schemathesis 4.32 fails under pytest 9.2, so the function
    behind it is called, which is not public."""
    headers = {"Authorization": f"Bearer {token}"}

    def ask(case: Case[Any]) -> None:
        if isinstance(case.body, dict) and "wait_seconds" in case.body:
            hurry(case.body)
        if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
            make_possible(case, Claims(server, headers))
        excluded: list[Any] = [negative_data_rejection] if case.path in EACH_BY_ITSELF else []
        case.call_and_validate(
            base_url=server.url, session=session, headers=headers, excluded_checks=excluded
        )

    chosen = schema.include(method=method.upper(), path=path)
    [made] = get_all_tests(schema=chosen, test_func=ask, settings=HOW, given_kwargs=None)
    assert isinstance(made, Ok), made
    _, ask_all = made.ok()
    with requests.Session() as session:
        ask_all()


class Claims:
    """Jobs and tasks to report on."""

    def __init__(self, server: Server, headers: dict[str, str]) -> None:
        self.server = server
        self.headers = headers

    def ask(self, path: str, **fields: Any) -> Any:
        return self.server.post(path, fields, headers=self.headers).json

    def job(self, cancelled: bool) -> str:
        job_id = self.ask("/jobs", queue="described", delay=60)["id"]
        if cancelled:
            self.server.delete(f"/jobs/{job_id}", headers=self.headers)
        return str(job_id)

    def task(self, user: str) -> str:
        return str(self.ask("/tasks", userId=user, afterDays=1)["requestId"])

    def rule(self) -> str:
        waits = {"type": "TABLE", "resourceId": "described", "lifeDuration": 0}
        fields = {"dependencies": [waits], "queue": "described"}
        self.server.put("/rules/described", fields, headers=self.headers)
        return "described"

    def make_rule(self, case: Case[Any], body: Any) -> None:
        """A rule is there unless it is about to be put."""
        if case.method != "PUT":
            case.path_parameters["rule"] = self.rule()
        elif "name" in body:
            body["name"] = body["name"] and unquote(case.path_parameters["rule"])

    def schedule(self) -> str:
        place, settings = "/schedules/described", {"every_seconds": 3600, "paused": True}
        return str(self.server.put(place, settings, headers=self.headers).json["name"])

    def claim(self) -> dict[str, str]:
        """Of a job, under its id and token."""
        self.ask("/jobs", queue="claimed", priority=9)
        [taken] = self.ask("/queues/claimed/claim")["items"]
        return {"id": taken["id"], "token": taken["token"]}


def hurry(body: dict[str, Any]) -> None:
    """Nobody waits here for work; what is no length of time stays what it is."""
    wait = body["wait_seconds"]
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0.01 < wait <= 300:
        body["wait_seconds"] = 0.01
    if isinstance(wait, str) and re.fullmatch(DURATION_PATTERN, wait):
        body["wait_seconds"] = "PT0.01S"


def make_possible(case: Case[Any], claims: Claims) -> None:
    """What no schema can say: a report needs a claim, an idempotency key stands for one request, a
    cursor belongs to the verb and filter it came from, and whole numbers are written without a
    fraction, which is the same number to JSON Schema."""
    if isinstance(case.body, dict | list):
        case.body = whole(case.body)
    body: Any = case.body if isinstance(case.body, dict) else {}
    events: list[Any] = case.body if isinstance(case.body, list) else []
    for event in events if case.path == "/events" else []:
        # In lists the pattern alone is obeyed, and it allows the year 0.
        event["eventTimestamp"] = "2021-01-01 11:59:59.5"
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key-{next(_unique)}"
        body.pop("id", None)
    body.pop("cursor", None)
    for item in body.get("items", [])[:1]:
        item |= claims.claim()
    if "{requestId}" in case.path:
        case.path_parameters["requestId"] = claims.task(unquote(case.path_parameters["userId"]))
    if "token" in body and "{id}" in case.path:
        claim = claims.claim()
        case.path_parameters["id"], body["token"] = claim["id"], claim["token"]
    elif "{id}" in case.path:
        case.path_parameters["id"] = claims.job(cancelled=case.path.endswith("/retry"))
    if "{rule}" in case.path:
        claims.make_rule(case, body)
    for place, one in enumerate(body.get("dependencies", [])):  # no resource twice
        one["resourceId"] = f"/{place}"
    if case.path == "/events" and "rule" in case.query:
        case.query["rule"] = claims.rule()
    if "{schedule}" in case.path and case.method != "PUT":
        case.path_parameters["schedule"] = claims.schedule()
    if case.path.endswith("/due-counts"):  # the second after the first, at most 100,000 steps
        case.query |= {"from": "2026-12-01T12:00:00Z", "until": "2026-12-01T12:01:00Z"}


def whole(value: Any) -> Any:
    match value:
        case dict():
            return {name: whole(one) for name, one in value.items()}
        case list():
            return [whole(one) for one in value]
        case float() if value.is_integer():
            return int(value)
    return value
