"""Who may ask what: every route with every scope, and a server that nobody was let into yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncue import Scheduler
from oncue.api.guard import SAFE
from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from oncue.core.access import Scope
from oncue.usecases.tokens import Access
from tests.http.errand import created
from tests.http.patience import until
from tests.http.routes import filled, title
from tests.http.scopes import CALLERS, NOBODY, OPEN, refusal, wanted
from tests.http.server import Reply, Server, running_server

CANARY = "c4n4ry-in-the-payload"
WHO = [*CALLERS, "unknown", "basic", "empty"]
FORGED = {"token": "1.1.0000"}  # no token of a claim


@contextmanager
def access(folder: Path) -> Iterator[Access]:
    """The tokens of the store in this folder, changed from outside the server."""
    with Scheduler(f"sqlite:///{folder / 'jobs.db'}") as cue:
        yield Access(cue.store, cue.clock)


class Guarded:
    """A server with a token for each scope."""

    def __init__(self, server: Server) -> None:
        self.server = server
        with access(server.folder) as tokens:
            self.tokens = {str(scope): tokens.create(scopes=[scope])[1] for scope in Scope}

    def headers(self, who: str) -> dict[str, str]:
        admin = self.tokens["admin"]
        return {
            "nobody": {},
            "unknown": {"Authorization": f"Bearer {admin[:-1]}{'A' if admin[-1] != 'A' else 'B'}"},
            "basic": {"Authorization": f"Basic {admin}"},
            "empty": {"Authorization": "Bearer "},
        }.get(who) or (
            {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}
        )

    def ask(self, who: str, method: str, path: str, fields: Any = None) -> Reply:
        return self.server.ask(method, path, fields, headers=self.headers(who))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    with running_server(folder, ONCUE_LOG_LEVEL="DEBUG", ONCUE_LOG_FORMAT="json") as server:
        guarded = Guarded(server)
        until(lambda: server.get("/jobs").status == 401)
        yield guarded


# -- every route, every scope ----------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES, ids=title)
def test_a_route_is_open_to_its_scope_and_to_administrators(guarded: Guarded, route: Route) -> None:
    """As the table in docs/security.md says."""
    for who in WHO:
        judge(guarded, route, who)


def judge(guarded: Guarded, route: Route, who: str) -> None:
    fields = FORGED if route.claim else None
    reply = guarded.ask(who, route.method, filled(route.path), fields)
    status = refusal(route, who if who in CALLERS else NOBODY)
    if status is None:
        assert reply.status not in (401, 403), reply.body
        return
    kind = {401: "unauthenticated", 403: "forbidden"}[status]
    assert (reply.status, reply.json["type"]) == (status, f"/problems/{kind}")
    if status == 401:
        assert reply.headers["www-authenticate"].startswith("Bearer")
    else:
        assert f"lacks the scope '{wanted(route)}'" in reply.json["detail"]


def test_a_new_route_has_a_scope_or_is_known_to_be_open() -> None:
    """Making the table raises otherwise."""
    route = ROUTES[0]._replace(path="/new", scope=None)
    with pytest.raises(AssertionError, match="POST /new has no scope"):
        refusal(route, "read")
    for route in ROUTES:
        assert (title(route) in OPEN) == (refusal(route, NOBODY) is None)
        assert title(route) not in OPEN or (route.scope is None and not route.claim)


def test_who_reads_cannot_write_and_who_writes_cannot_read(guarded: Guarded) -> None:
    reply = guarded.ask("write", "POST", "/jobs", {"queue": "scoped", "delay": 60})
    assert reply.status == 201
    assert guarded.ask("read", "GET", f"/jobs/{reply.json['id']}").status == 200
    assert guarded.ask("write", "GET", f"/jobs/{reply.json['id']}").status == 403
    assert guarded.ask("read", "DELETE", f"/jobs/{reply.json['id']}").status == 403
    assert guarded.ask("read", "GET", f"/jobs/{reply.json['id']}").json["state"] == "scheduled"


# -- the token of a claim --------------------------------------------------------------------------


def claimed(guarded: Guarded, queue: str) -> Any:
    guarded.ask("write", "POST", "/jobs", {"queue": queue})
    [job] = guarded.ask("work", "POST", f"/queues/{queue}/claim", {}).json["items"]
    return job


@pytest.mark.parametrize("who", ["nobody", "read", "unknown"])
def test_the_token_of_a_claim_is_all_that_its_reports_need(guarded: Guarded, who: str) -> None:
    job = claimed(guarded, f"claim-{who}")
    token, path = {"token": job["token"]}, f"/jobs/{job['id']}"
    step = {**token, "state": "succeeded", "result": 1}
    assert guarded.ask(who, "POST", f"{path}/start", token).status == 200
    assert guarded.ask(who, "POST", f"{path}/heartbeat", token).status == 200
    assert guarded.ask(who, "PUT", f"{path}/operations/a", step).status == 200
    assert guarded.ask(who, "POST", f"{path}/release", token).status == 200
    [job] = guarded.ask("work", "POST", f"/queues/claim-{who}/claim", {}).json["items"]
    failure = {"token": job["token"], "error": "x", "retry_after": 0}
    assert guarded.ask(who, "POST", f"{path}/fail", failure).status == 200
    wish = {"wait_seconds": 30}
    [job] = guarded.ask("work", "POST", f"/queues/claim-{who}/claim", wish).json["items"]
    assert guarded.ask(who, "POST", f"{path}/complete", {"token": job["token"]}).status == 200


def test_only_an_administrator_completes_by_force(guarded: Guarded) -> None:
    job = claimed(guarded, "forced")
    place = f"/jobs/{job['id']}/complete"
    for who, status in (("nobody", 401), ("read", 403), ("write", 403), ("work", 403)):
        assert guarded.ask(who, "POST", place, {"force": True}).status == status
    for who, status in (("nobody", 401), ("read", 403), ("work", 422), ("admin", 422)):
        assert guarded.ask(who, "POST", place, {}).status == status
    assert guarded.ask("admin", "POST", place, {"force": True}).status == 200


def test_the_token_of_a_claim_opens_nothing_else(guarded: Guarded) -> None:
    job, other = claimed(guarded, "narrow"), claimed(guarded, "narrow2")
    token = {"token": job["token"]}
    assert guarded.ask("nobody", "POST", f"/jobs/{other['id']}/start", token).status == 401
    assert guarded.ask("nobody", "POST", f"/jobs/{other['id']}/complete", token).status == 401
    assert guarded.ask("nobody", "GET", f"/jobs/{job['id']}").status == 401
    assert guarded.ask("nobody", "DELETE", f"/jobs/{job['id']}").status == 401
    bearer = {"Authorization": f"Bearer {job['token']}"}
    assert guarded.server.get(f"/jobs/{job['id']}", headers=bearer).status == 401


def test_strangers_do_not_learn_which_jobs_exist(guarded: Guarded) -> None:
    job = claimed(guarded, "secretive")
    forged = {"token": "1.1.0000"}
    replies = [
        guarded.ask("nobody", "POST", f"/jobs/{job_id}/start", forged)
        for job_id in (job["id"], "nobody")
    ]
    assert [reply.status for reply in replies] == [401, 401]
    assert replies[0].json == replies[1].json


@pytest.mark.parametrize("report", ["start", "heartbeat", "complete", "fail", "release"])
def test_strangers_do_not_learn_what_a_report_looks_like(guarded: Guarded, report: str) -> None:
    wrong = {"colour": "red"}
    assert guarded.ask("nobody", "POST", f"/jobs/any/{report}", wrong).status == 401


# -- revoking, logging -----------------------------------------------------------------------------


def test_a_revoked_token_stops_working(guarded: Guarded) -> None:
    with access(guarded.server.folder) as tokens:
        token, text = tokens.create("leaver", ["read"])
        header = {"Authorization": f"Bearer {text}"}
        until(lambda: guarded.server.get("/jobs", headers=header).status == 200)
        tokens.revoke(token.id)
    until(lambda: guarded.server.get("/jobs", headers=header).status == 401)
    refused = guarded.server.get("/jobs", headers=header).json
    assert "is not known, or was revoked" in refused["detail"]


def test_neither_payloads_nor_tokens_are_logged(guarded: Guarded) -> None:
    """Whatever is done with them, at the most talkative level."""
    sent = {"queue": "canary", "payload": {"card": CANARY}, "owner": "ada"}
    assert guarded.ask("write", "POST", "/jobs", sent).status == 201
    bad = {**sent, "payload": CANARY + "\0", "id": "-"}
    assert guarded.ask("write", "POST", "/jobs", bad).status == 422
    body = f'{{"payload": "{CANARY}'.encode()
    headers = guarded.headers("write") | {"Content-Type": "application/json"}
    assert guarded.server.ask("POST", "/jobs", body=body, headers=headers).status == 400
    job = claimed(guarded, "canary")
    report = {"token": job["token"], "error": CANARY, "retryable": False}
    assert guarded.ask("nobody", "POST", f"/jobs/{job['id']}/fail", report).status == 200
    assert guarded.ask("work", "POST", f"/jobs/{job['id']}/start", report).status == 422
    log = until(lambda: guarded.server.log if job["id"] in guarded.server.log else "")
    for secret in (CANARY, job["token"], *guarded.tokens.values()):
        assert secret not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert any(line.get("job_id") == job["id"] and line.get("request_id") for line in lines)


# -- without any token -----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]", "[::1]:9"])
def test_without_tokens_this_machine_is_answered(server: Server, host: str) -> None:
    assert server.get("/jobs", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "", "[::2]"],
)
def test_without_tokens_other_names_are_refused(server: Server, host: str) -> None:
    for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/metrics")):
        reply = server.ask(method, path, headers={"Host": host})
        assert (reply.status, reply.json["type"]) == (403, "/problems/refused-origin")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_without_tokens_pages_of_other_sites_change_nothing(server: Server, method: str) -> None:
    job_id = created(server, "cross", delay=60)
    path = {"POST": "/jobs", "PUT": "/queues/cross"}.get(method, f"/jobs/{job_id}")
    before = server.get("/jobs").json
    reply = server.ask(method, path, headers={"Sec-Fetch-Site": "cross-site"})
    assert (reply.status, reply.json["type"]) == (403, "/problems/refused-origin")
    assert server.get("/jobs").json == before
    for site in ("same-origin", "none"):
        reply = server.get("/jobs", headers={"Sec-Fetch-Site": site})
        assert reply.status == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "http://localhost:1", "http://127.0.0.1", "https://{host}"],
)
def test_without_tokens_a_foreign_origin_changes_nothing(server: Server, origin: str) -> None:
    headers = {"Origin": origin.format(host=urlsplit(server.url).netloc)}
    before = server.get("/jobs").json
    for route in (one for one in ROUTES if one.method not in SAFE):
        reply = server.ask(route.method, filled(route.path), headers=headers)
        assert (reply.status, reply.json["type"]) == (403, "/problems/refused-origin"), route.path
    assert server.get("/jobs").json == before
    assert server.get("/jobs", headers=headers).status == 200


def test_without_tokens_a_foreign_origin_is_refused_with_the_token_of_a_claim_too(
    server: Server,
) -> None:
    created(server, "foreign-claim")
    [job] = server.post("/queues/foreign-claim/claim", {}).json["items"]
    path, proof = f"/jobs/{job['id']}/complete", {"token": job["token"]}
    assert server.post(path, proof, headers={"Origin": "http://evil.example"}).status == 403
    assert server.post(path, proof).status == 200


def test_without_tokens_the_own_origin_is_answered(server: Server) -> None:
    for origin in (server.url, server.url.upper()):
        reply = server.post("/jobs", {"queue": "own", "delay": 60}, headers={"Origin": origin})
        assert reply.status == 201


def test_with_tokens_the_origin_does_not_matter(guarded: Guarded) -> None:
    """No browser sends an access token by itself."""
    headers = {**guarded.headers("write"), "Origin": "https://pages.example"}
    reply = guarded.server.post("/jobs", {"queue": "pages", "delay": 60}, headers=headers)
    assert reply.status == 201
    job = claimed(guarded, "pages-work")
    proof = {"token": job["token"]}
    headers = {"Origin": "https://pages.example"}
    path = f"/jobs/{job['id']}/complete"
    assert guarded.server.post(path, proof, headers=headers).status == 200


def test_revoking_the_last_token_does_not_open_the_service(tmp_path: Path) -> None:
    with running_server(tmp_path) as own:
        assert own.get("/jobs").status == 200
        with access(tmp_path) as tokens:
            _, text = tokens.create("ci")
            header = {"Authorization": f"Bearer {text}"}
            assert until(lambda: own.get("/jobs").status == 401)
            assert own.get("/jobs", headers=header).status == 200
            tokens.revoke("ci")
            assert until(lambda: own.get("/jobs", headers=header).status == 401)
            assert (own.get("/jobs").status, own.post("/jobs", {}).status) == (401, 401)
            tokens.allow_loopback()
        assert until(lambda: own.post("/jobs", {}).status == 201)


def test_reading_from_another_site_is_the_browsers_to_refuse(server: Server) -> None:
    reply = server.get("/jobs", headers={"Sec-Fetch-Site": "cross-site"})
    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_tokens_nothing_but_loopback_is_bound(tmp_path: Path, host: str) -> None:
    server = Server(tmp_path, "--host", host, "--port", "0")
    assert server.process.wait(30) == 2
    server.stop()
    [line] = [line for line in server.said if "oncue token create" in line]
    assert host in line
    assert "Traceback" not in server.log
    assert not server.url


def test_a_server_that_refuses_everybody_says_so(tmp_path: Path) -> None:
    with access(tmp_path) as tokens:
        tokens.create("ci")
        tokens.revoke("ci")
    with running_server(tmp_path) as server:
        assert until(lambda: "oncue token allow-loopback" in server.log)


def test_with_a_token_any_address_may_be_bound(tmp_path: Path) -> None:
    with access(tmp_path) as tokens:
        _, text = tokens.create(scopes=["read"])
    with running_server(tmp_path, "--host", "0.0.0.0") as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert server.get("/livez").status == 200
        assert server.get("/jobs").status == 401
        header = {"Authorization": f"Bearer {text}", "Host": "jobs.example"}
        assert server.get("/jobs", headers=header).status == 200
