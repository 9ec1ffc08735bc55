"""The API function: what a gateway does to a request and its answer must not be noticed."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import quote

import pytest

from oncue.api.request import HttpAnswer
from oncue.api.server import HttpServer
from oncue.aws import api, sandbox
from oncue.aws.http_event import ANSWER_LIMIT, HttpEvent, as_event, fits
from oncue.core.errors import InvalidInput
from tests.aws.gateway import LONG_AGO, Context, Gateway, Kind, Reply, deployed, reply

JSON = ("Content-Type", "application/json")
STRANGE = [
    "ada lovelace",
    "100%",
    "a%2Fb",
    "a+b",
    "é",
    "a;b=c,d",
    "a:b@c",
    "#1",
    "100%25",
    "..",
    "~",
]


@pytest.fixture(scope="module", autouse=True)
def function() -> Iterator[None]:
    with deployed():
        yield


@pytest.fixture(scope="module", params=get_args(Kind))
def gateway(request: pytest.FixtureRequest) -> Gateway:
    return Gateway(request.param)


# -- the same answers as from the server -----------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """On the store of the function, so that both can be compared."""
    cue = sandbox.scheduler()
    cue.schedule({"n": 1}, id="known", queue="compared", delay=3600)
    server = HttpServer(cue, "127.0.0.1", 0)
    server.start()
    yield server
    server.stop(5.0)


def ask_server(
    server: HttpServer, method: str, target: str, body: bytes, headers: list[tuple[str, str]]
) -> Reply:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, names, answer.read())
    finally:
        connection.close()


def lines(*jobs: Any) -> bytes:
    return b"\n".join(json.dumps(job).encode() for job in jobs)


NDJSON = ("Content-Type", "application/x-ndjson")
SAMPLE: list[tuple[str, str, bytes, list[tuple[str, str]]]] = [
    ("GET", "/jobs/known", b"", []),
    ("HEAD", "/jobs/known", b"", []),
    ("GET", "/jobs?queue=compared&limit=1", b"", []),
    ("GET", "/jobs?queue=compared&queue=other", b"", []),
    ("GET", "/jobs?queue=a%26b&state=scheduled", b"", []),
    ("GET", "/jobs?owner=ada+lovelace", b"", []),
    ("GET", "/jobs?owner=%ff", b"", []),
    ("GET", "/jobs?colour=red", b"", []),
    ("GET", "/jobs/unknown", b"", []),
    ("GET", "/nowhere", b"", []),
    ("PUT", "/jobs", b"{}", [JSON]),
    ("POST", "/jobs", b'{"id": "known"}', [JSON]),
    ("POST", "/jobs", b"{", [JSON]),
    ("POST", "/jobs", b"\xff", [("Content-Type", "application/octet-stream")]),
    ("POST", "/jobs", b'{"payload": "' + b"x" * 300_000 + b'"}', [JSON]),
    ("POST", "/jobs", b" " * 2_100_000, [JSON]),
    ("POST", "/jobs/known/explain", b"", []),
    ("POST", "/jobs/batch", lines({"id": "known"}, {"priority": 99}), [NDJSON]),
    (
        "POST",
        "/jobs",
        gzip.compress(b'{"id": "known"}', mtime=0),
        [JSON, ("Content-Encoding", "gzip")],
    ),
    ("POST", "/jobs/batch", b"{}", [NDJSON, ("Content-Encoding", "br")]),
    (
        "POST",
        "/jobs/batch",
        gzip.compress(b'{"id": "?"}', mtime=0),
        [NDJSON, ("Content-Encoding", "gzip")],
    ),
    ("PUT", "/queues/compared", b'{"max_attempts": 7}', [JSON]),
    ("GET", "/tasks/ada%20lovelace", b"", []),
    ("GET", "/rules/no%20such%20rule", b"", []),
    ("GET", "/problems/fenced", b"", []),
    ("GET", "/openapi.json", b"", []),
    ("GET", "/docs", b"", []),
    ("GET", "/docs/script.js", b"", []),
    ("GET", "/livez", b"", []),
    ("GET", "/readyz", b"", []),
    ("DELETE", "/queues/nowhere", b"", []),
    ("OPTIONS", "/jobs", b"", []),
]


@pytest.mark.parametrize("sent", SAMPLE, ids=lambda sent: f"{sent[0]} {sent[1]} {len(sent[2])}")
def test_the_answer_is_that_of_the_server(
    server: HttpServer, gateway: Gateway, sent: tuple[str, str, bytes, list[tuple[str, str]]]
) -> None:
    method, target, body, headers = sent
    theirs = ask_server(server, *sent)
    ours = gateway.ask(method, target, body=body, headers=headers)
    assert (ours.status, ours.body) == (theirs.status, theirs.body)
    own = {"date", "x-request-id", "connection", "transfer-encoding"}
    assert {n: v for n, v in theirs.headers.items() if n not in own} == {
        n: v for n, v in ours.headers.items() if n not in own
    }


def test_what_has_not_changed_is_not_sent_again(gateway: Gateway) -> None:
    etag = gateway.ask("GET", "/openapi.json").headers["etag"]
    again = gateway.ask("GET", "/openapi.json", headers=[("If-None-Match", etag)])
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    assert "content-length" not in again.headers


# -- paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", STRANGE)
def test_a_name_in_the_path_arrives_as_it_was_meant(gateway: Gateway, user: str) -> None:
    fields = {"userId": user, "dueDate": "2099-12-01", "kind": gateway.kind}
    created = gateway.ask("POST", "/tasks", fields)
    assert created.status == 201
    found = gateway.ask("GET", f"/tasks/{quote(user, safe='')}/{created.json['requestId']}")
    assert (found.status, found.json["userId"]) == (200, user)


def test_a_slash_in_a_name_arrives_by_a_function_url() -> None:
    gateway = Gateway("function-url")
    created = gateway.ask("POST", "/tasks", {"userId": "a/b?c", "dueDate": "2099-12-01"})
    assert gateway.ask("GET", f"/tasks/a%2Fb%3Fc/{created.json['requestId']}").status == 200


def test_an_http_api_decodes_a_slash_so_that_the_path_is_another() -> None:
    gateway = Gateway("http-api")
    assert gateway.ask("GET", "/tasks/a%2Fb%2Fc").json["type"] == "/problems/no-such-route"


def test_a_path_that_is_no_utf_8_is_refused_by_a_function_url() -> None:
    assert Gateway("function-url").ask("GET", "/tasks/%ff").json["type"] == "/problems/malformed"


def test_the_path_of_a_gateway_that_does_not_decode_is_used_as_it_is() -> None:
    event = Gateway("http-api").event("GET", "/tasks/a%2Fb")
    event["rawPath"] = "/tasks/a%2Fb"
    assert HttpEvent(event).path == "/tasks/a%2Fb"


@pytest.mark.parametrize("stage", ["prod", "jobs"])
def test_a_named_stage_is_no_part_of_the_path(stage: str) -> None:
    gateway = Gateway("http-api", stage)
    assert gateway.ask("GET", "/livez").status == 200
    assert gateway.ask("GET", "/jobs/unknown").json["type"] == "/problems/not-found"
    assert gateway.ask("GET", "/jobs?limit=1").status == 200


def test_a_path_that_only_begins_like_the_stage_is_kept() -> None:
    event = Gateway("http-api", "job").event("GET", "")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/jobs/x"
    assert HttpEvent(event).path == "/jobs/x"
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/job"
    assert HttpEvent(event).path == "/"


# -- headers, bodies -------------------------------------------------------------------------------


def test_the_id_of_the_gateway_is_that_of_the_request(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/livez").headers["x-request-id"] == "ATfSmjLgPHcESJw="
    own = gateway.ask("GET", "/livez", headers=[("X-Request-Id", "mine")])
    assert own.headers["x-request-id"] == "mine"


def test_repeated_headers_and_cookies_arrive_joined(gateway: Gateway) -> None:
    sent = [("X-Probe", "first"), ("X-Probe", "second"), ("Cookie", "session=1; theme=dark")]
    request = HttpEvent(gateway.event("GET", "/", headers=sent)).request()
    assert request.header(b"x-probe") == "first,second"
    assert request.header(b"cookie") == "session=1; theme=dark"


def test_an_idempotency_key_makes_a_repeated_request_harmless(gateway: Gateway) -> None:
    key = [("Idempotency-Key", f"key-{gateway.kind}")]
    first = gateway.ask("POST", "/jobs", {"delay": 60}, headers=key)
    again = gateway.ask("POST", "/jobs", {"delay": 60}, headers=key)
    assert first.status == again.status == 201
    assert first.json["id"] == again.json["id"]


def test_a_request_without_a_body_is_an_empty_object(gateway: Gateway) -> None:
    event = gateway.event("POST", "/jobs")
    assert "body" not in event
    assert reply(api(event, Context())).status == 201
    assert reply(api(event | {"body": None}, Context())).status == 201
    assert reply(api(event | {"body": "", "isBase64Encoded": True}, Context())).status == 201


def answered(body: bytes) -> dict[str, Any]:
    """Bytes that are no text: the application has none of its own."""
    return as_event(HttpEvent(Gateway().event("GET", "/")).request(), HttpAnswer(200, body))


@pytest.mark.parametrize("body", [b"", b"\xff\x00", gzip.compress(b"x", mtime=0), "é\0".encode()])
def test_a_body_arrives_whatever_its_bytes_are(body: bytes) -> None:
    assert reply(answered(body)).body == body


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "does_fit"),
    [
        (b"x" * (ANSWER_LIMIT - 20_000), True),
        (b"x" * ANSWER_LIMIT, False),
        (b'"' * 4_500_000, True),  # twice as long with escapes: base64 is shorter
        (b'"' * 4_800_000, False),
        (b"\xff" * 4_500_000, True),
        (b"\xff" * 4_800_000, False),
        (("é" * 1_000_000).encode(), True),  # three times as long with escapes
    ],
    ids=range(7),
)
def test_an_answer_that_fits_is_taken_by_lambda(body: bytes, does_fit: bool) -> None:
    assert fits(body) == does_fit
    assert (len(json.dumps(answered(body))) <= ANSWER_LIMIT) == does_fit


def test_an_answer_that_lambda_would_not_take_is_a_problem(gateway: Gateway) -> None:
    queue = f"large-{gateway.kind}"
    for _ in range(30):
        gateway.ask("POST", "/jobs", {"queue": queue, "payload": "x" * 260_000, "delay": 60})
    answer = gateway.ask("GET", f"/jobs?queue={queue}")
    assert (answer.status, answer.json["type"]) == (413, "/problems/too-large")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "limit" in answer.json["detail"]
    assert len(gateway.ask("GET", f"/jobs?queue={queue}&limit=10").json["items"]) == 10


def test_jobs_whose_claim_is_too_large_to_be_sent_are_given_back(gateway: Gateway) -> None:
    queue = f"heavy-{gateway.kind}"
    for _ in range(30):
        gateway.ask("POST", "/jobs", {"queue": queue, "payload": "x" * 260_000})
    assert gateway.ask("POST", f"/queues/{queue}/claim", {"limit": 30}).status == 413
    found = gateway.ask("GET", f"/jobs?queue={queue}&limit=1").json["items"]
    assert [(job["state"], job["attempt"]) for job in found] == [("scheduled", 0)]
    assert len(gateway.ask("POST", f"/queues/{queue}/claim", {"limit": 10}).json["items"]) == 10


# -- other events ----------------------------------------------------------------------------------

REST: dict[str, Any] = {
    "resource": "/jobs",
    "path": "/jobs",
    "httpMethod": "GET",
    "headers": {},
    "body": None,
}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (REST, "payload format 1.0"),
        (REST | {"version": "1.0"}, "payload format 1.0"),
        ({"version": "3.0"}, "the payload format is 3.0"),
        ({"source": "aws.events", "detail-type": "Scheduled Event"}, "not an event of HTTP"),
        ({"Records": []}, "not an event of HTTP"),
        ({"version": "2.0", "rawPath": "/"}, "requestContext"),
        ({"version": "2.0", "rawPath": "/", "requestContext": {"http": {}}}, "http.method"),
        ({"version": "2.0", "requestContext": {"http": {"method": "GET"}}}, "no rawPath"),
        ("GET /jobs", "not an event of HTTP"),
        (None, "not an event of HTTP"),
    ],
    ids=str,
)
def test_other_events_are_refused_with_what_is_expected(event: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        api(event, Context())
    assert 'an HTTP API of API Gateway (PayloadFormatVersion: "2.0") or a function URL' in str(
        refused.value
    )


def test_a_body_that_is_not_the_base64_it_is_said_to_be_is_refused() -> None:
    event = Gateway().event("POST", "/jobs") | {"body": "{}", "isBase64Encoded": True}
    with pytest.raises(InvalidInput, match="base64"):
        api(event, Context())


# -- metrics ---------------------------------------------------------------------------------------


def test_an_invocation_prints_one_line_of_metrics(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    for method, path, route, name in [
        ("GET", "/jobs/unknown", "GET /jobs/{id}", "requests_4xx"),
        ("POST", "/jobs", "POST /jobs", "requests_2xx"),
        ("GET", "/nowhere", "-", "requests_4xx"),
    ]:
        gateway.ask(method, path)
        [line] = capsys.readouterr().out.splitlines()
        metrics = json.loads(line)
        assert (metrics["route"], metrics[name]) == (route, 1)
        assert metrics["duration"] >= 0
        [told] = metrics["_aws"]["CloudWatchMetrics"]
        assert told["Dimensions"] == [["route"]]
        assert {one["Name"] for one in told["Metrics"]} == {name, "duration"}
        assert metrics["_aws"]["Timestamp"] > LONG_AGO
