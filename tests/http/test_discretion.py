"""Callers who may change jobs but not read them: what is in a job is left out of every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncue import Client
from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from oncue.core.access import Scope
from oncue.wire.jobs import CONTENT
from tests.http.routes import title
from tests.http.server import Reply, Server, running_server
from tests.http.test_access import access

SECRET = "s3cr3t"
FIELDS = {"payload": SECRET, "delay": 60}
OTHERS = ("/jobs/batch", "/events", "/tasks", "/tasks/{userId}/{requestId}")  # tell of no job
TELLING = [one for one in ROUTES if one.scope is Scope.WRITE and one.path not in OTHERS]


class Callers:
    """A server, and tokens for those who may only write, and those who may read as well."""

    def __init__(self, server: Server) -> None:
        self.server = server
        with access(server.folder) as tokens:
            self.tokens = {
                "write": tokens.create(scopes=[Scope.WRITE])[1],
                "both": tokens.create(scopes=[Scope.WRITE, Scope.READ])[1],
                "admin": tokens.create(scopes=[Scope.ADMIN])[1],
            }

    def ask(self, who: str, method: str, path: str, fields: Any = None, **headers: str) -> Reply:
        sent = {"Authorization": f"Bearer {self.tokens[who]}", **headers}
        reply = self.server.ask(method, path, fields, headers=sent)
        assert reply.status < 300, reply.body
        return reply

    def failed_job(self) -> str:
        """A job that has content of every kind."""
        queue = {"max_attempts": 1}
        self.ask("admin", "PUT", "/queues/failing", queue)
        self.ask("admin", "POST", "/jobs", {"queue": "failing", "payload": SECRET})
        [job] = self.ask("admin", "POST", "/queues/failing/claim", {}).json["items"]
        report = {"token": job["token"], "message": SECRET}
        self.ask("admin", "POST", f"/jobs/{job['id']}/heartbeat", report)
        failure = {"token": job["token"], "error": SECRET}
        self.ask("admin", "POST", f"/jobs/{job['id']}/fail", failure)
        return str(job["id"])


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with running_server(tmp_path_factory.mktemp("discretion")) as server:
        yield Callers(server)


def job_of(callers: Callers, **fields: Any) -> str:
    return str(callers.ask("both", "POST", "/jobs", {**FIELDS, **fields}).json["id"])


def requests(callers: Callers, route: Route, who: str) -> Iterator[tuple[str, str, Any]]:
    """Requests by which this route would tell what is in a job that others have created."""
    method, path = route.method, route.path
    queue = f"{who}-{path[1:].replace('/', '.')}".replace("{", "").replace("}", "")
    match path:
        case "/jobs":
            job_of(callers, queue=queue, key="k")
            yield method, path, {"queue": queue, "key": "k"}
            yield method, path, {"queue": queue, "key": "k", "if_exists": "replace"}
            job_of(callers, id=queue)
            yield method, path, {**FIELDS, "id": queue}
        case "/jobs/{id}":
            fields = {"priority": 3} if method == "PATCH" else None
            yield method, f"/jobs/{job_of(callers)}", fields
        case "/jobs/{id}/run":
            yield method, f"/jobs/{job_of(callers)}/run", None
        case "/jobs/{id}/retry":
            yield method, f"/jobs/{callers.failed_job()}/retry", None
        case "/jobs/retry":
            callers.failed_job()
            yield method, path, {"filter": {"queue": "failing"}, "dry_run": True}
            yield method, path, {"filter": {"queue": "failing"}}
        case "/jobs/cancel" | "/jobs/run" | "/jobs/move" | "/jobs/reprioritise":
            job_of(callers, queue=queue)
            more: Any = {"/jobs/move": {"queue": "q"}, "/jobs/reprioritise": {"priority": 2}}
            wanted: Any = {"filter": {"queue": queue}, **more.get(path, {})}
            yield method, path, {**wanted, "dry_run": True}
            yield method, path, wanted


@pytest.mark.parametrize("route", TELLING, ids=title)
def test_a_caller_who_may_not_read_sees_no_content_of_jobs(callers: Callers, route: Route) -> None:
    for who in ("write", "both", "admin"):
        asked = list(requests(callers, route, who))
        assert asked
        for request in asked:
            answer = callers.ask(who, *request).json
            [job] = answer.get("sample", [answer])
            assert job["id"]
            seen = {one for one in CONTENT if one in job}
            assert seen == (set() if who == "write" else set(CONTENT)), request


def test_a_job_that_was_just_created_is_shown_as_it_was_sent(callers: Callers) -> None:
    fields = {**FIELDS, "queue": "mine"}
    for _ in range(2):  # the second time the job is there, and is answered as the first time
        reply = callers.ask("write", "POST", "/jobs", fields, **{"Idempotency-Key": "mine"})
        assert (reply.status, reply.json["payload"]) == (201, SECRET)


def test_a_client_that_may_not_read_can_change_jobs(callers: Callers) -> None:
    job_id = job_of(callers, queue="for-clients")
    with Client(callers.server.url, token=callers.tokens["write"]) as client:
        assert client.run(job_id).payload is None
        assert client.cancel_all(queue="for-clients").sample[0].payload is None
