"""The Flask form: the application by itself, as `flask run` starts it, and the blueprint."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import Client

from oncue import InvalidInput, Scheduler
from oncue.integrations.flask import EXAMPLES, blueprint, create_app
from oncue.usecases.tokens import Access
from tests.cli.terminal import environment, wait_until
from tests.stores.postgres import own_url

ROOT = Path(__file__).parents[2]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "seed_001"
SCENARIO = json.loads((FIXTURES / "scenario.json").read_text("utf-8"))
FILE = SCENARIO[0]["event"]
RULE = {"dependencies": [{"type": "TABLE", "resourceId": "ORDERS", "lifeDuration": 0}]}
ORDER = {
    "eventType": "TABLE",
    "eventTimestamp": "2021-01-01 12:00:00",
    "eventResourceId": "ORDERS",
}


class FlaskRun:
    """`flask --app oncue.integrations.flask run` on a free port. What it says is in `said`."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.said: list[str] = []
        self._listening = threading.Event()
        self.url = ""
        command = [sys.executable, "-m", "flask", "--app", "oncue.integrations.flask", "run"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment(variables),
            cwd=folder,
            start_new_session=True,  # a reloader's child is to end with it
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._pool = urllib3.PoolManager(retries=False)
        assert self._listening.wait(30.0), self.log
        assert self.url, self.log

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if "Running on " in line:
                self.url = line.split("Running on ")[1].strip()
                self._listening.set()
        self._listening.set()

    @property
    def log(self) -> str:
        return "".join(self.said)

    def post(self, fields: Any) -> Any:
        return self._pool.request("POST", f"{self.url}/events", json=fields)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(30.0)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self._reader.join(30.0)
            assert self.process.stderr is not None
            self.process.stderr.close()
            self._pool.clear()


@contextmanager
def flask_run(folder: Path, *arguments: str, **variables: str) -> Iterator[FlaskRun]:
    running = FlaskRun(folder, *arguments, **variables)
    try:
        yield running
    finally:
        running.end()


def delivered(running: FlaskRun) -> list[str]:
    return [line for line in running.said if "delivered queue=rules" in line]


def test_flask_run_triggers_the_scenarios_two_jobs_by_logging_them(tmp_path: Path) -> None:
    with flask_run(tmp_path) as running:
        for row in SCENARIO:
            reply = running.post(row["event"])
            assert reply.status == 201
            [told] = reply.json()["events"]
            assert bool(told["jobs"]) is row["triggered"], row["received"]
        wait_until(lambda: len(delivered(running)) >= 2)
        assert running.post([row["event"] for row in SCENARIO]).status == 200
    assert len(delivered(running)) == 2
    fired = [line.split("fired ")[1].split() for line in running.said if "fired " in line]
    assert [(rule, at) for rule, _, at in fired] == [
        ("rule='SCHEDULING_CONFIGURATION_1'", "instant=2021-01-01T12:30:00.000000Z"),
        ("rule='SCHEDULING_CONFIGURATION_1'", "instant=2021-01-01T13:10:00.000000Z"),
    ]
    for _, job, _ in fired:
        assert any(job in line for line in delivered(running))
    assert "Traceback" not in running.log
    assert (tmp_path / "oncue.db").is_file()


def test_under_the_reloader_each_job_is_delivered_once(tmp_path: Path) -> None:
    store = own_url()
    with flask_run(tmp_path, "--reload", ONCUE_STORE=store) as running:
        answers = [running.post(row["event"]) for row in SCENARIO]
        assert {reply.status for reply in answers} == {201}
        wait_until(lambda: len(delivered(running)) >= 2)
    with Scheduler(store) as cue:
        assert [job.attempt for job in cue.jobs(queue="rules")] == [1, 1]


@pytest.fixture
def quiet() -> Iterator[None]:
    """The application sets up the log of its process, which here is ours."""
    root, names = logging.getLogger(), ("oncue.rules", "oncue.sink.log")
    before = (root.level, list(root.handlers), [logging.getLogger(name).level for name in names])
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    for name, level in zip(names, before[2], strict=True):
        logging.getLogger(name).setLevel(level)


def scheduler_of(app: Flask) -> Scheduler:
    found = app.extensions["oncue"]
    assert isinstance(found, Scheduler)
    return found


@pytest.fixture
def app(tmp_path: Path, quiet: None) -> Iterator[Flask]:
    app = create_app(f"sqlite:///{tmp_path / 'jobs.db'}")
    yield app
    scheduler_of(app).close()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def test_the_examples_are_the_three_configurations() -> None:
    packaged = files("oncue.integrations").joinpath(EXAMPLES).read_text("utf-8")
    assert json.loads(packaged) == json.loads((FIXTURES / "configurations.json").read_text("utf-8"))


def test_the_application_loads_three_rules_and_leaves_them_alone_the_next_time(
    app: Flask, tmp_path: Path
) -> None:
    cue = scheduler_of(app)
    before = [(rule.name, rule.updated_at) for rule in cue.rules()]
    assert [name for name, _ in before] == [f"SCHEDULING_CONFIGURATION_{n}" for n in (1, 2, 3)]
    second = create_app(f"sqlite:///{tmp_path / 'jobs.db'}")
    scheduler_of(second).close()
    assert [(rule.name, rule.updated_at) for rule in cue.rules()] == before


def test_a_file_of_rules_replaces_the_examples(tmp_path: Path, quiet: None) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({"name": "orders", **RULE}), "utf-8")
    app = create_app(f"sqlite:///{tmp_path / 'jobs.db'}", str(tmp_path / "rules.json"))
    assert [rule.name for rule in scheduler_of(app).rules()] == ["orders"]
    scheduler_of(app).close()


def test_a_file_of_rules_that_is_missing_or_wrong_is_named(
    tmp_path: Path, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_RULES", str(tmp_path / "none.json"))
    with pytest.raises(InvalidInput, match=r"ONCUE_RULES: .*none\.json cannot be read: No such"):
        create_app("memory:")
    (tmp_path / "none.json").write_text('[{"name": "orders"}]', "utf-8")
    with pytest.raises(InvalidInput, match="rule 1 'orders': /dependencies: must be a list"):
        create_app("memory:")


def test_a_server_in_place_of_a_store_is_refused(
    monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    monkeypatch.setenv("ONCUE_URL", "http://127.0.0.1:8420")
    with pytest.raises(InvalidInput, match="ONCUE_URL: names a server"):
        create_app()


def test_the_request_in_the_documents_fires_the_rule_that_they_name(client: FlaskClient) -> None:
    page = (ROOT / "docs/rules.md").read_text("utf-8")
    [body] = re.findall(r"curl localhost:5000/events [^']*'Content-Type[^']*' -d '([^']*)'", page)
    [logged] = re.findall(r"INFO fired rule='(\w+)' .* instant=(\S+)", page)
    told = client.post("/events", json=json.loads(body)).get_json()["events"]
    fired = [(job["rule"], job["instant"]) for one in told for job in one["jobs"]]
    assert fired == [logged]


def test_how_far_ahead_events_may_lie_can_be_set(
    tmp_path: Path, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_EVENTS_AHEAD_SECONDS", str(50 * 365 * 86_400))
    app = create_app(f"sqlite:///{tmp_path / 'jobs.db'}")
    far = {"eventType": "TABLE", "eventTimestamp": "2060-01-01 00:00:00", "eventResourceId": "T"}
    assert app.test_client().post("/events", json=far).status_code == 201
    scheduler_of(app).close()


def test_events_are_answered_as_by_the_http_interface(client: FlaskClient) -> None:
    first = client.post("/events", json=FILE)
    assert (first.status_code, first.content_type) == (201, "application/json")
    assert first.json is not None
    [told] = first.json["events"]
    assert set(told) == {"eventId", "duplicate", "decisions", "jobs"}
    assert first.headers["x-request-id"]
    again = client.post("/events", json=[FILE, FILE])
    assert again.status_code == 200
    assert again.json is not None
    assert [one["duplicate"] for one in again.json["events"]] == [True, True]


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_only_json_is_accepted(client: FlaskClient, media_type: str | None) -> None:
    reply = client.post("/events", data=json.dumps(FILE), content_type=media_type)
    assert (reply.status_code, reply.headers["accept"]) == (415, "application/json")
    assert json.loads(reply.data)["type"] == "/problems/unsupported-media-type"


def test_json_may_name_its_character_set(client: FlaskClient) -> None:
    told = "application/json; charset=utf-8"
    assert client.post("/events", data=json.dumps(FILE), content_type=told).status_code == 201


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "malformed"),
        (b"{}", 422, "invalid"),
        (b"[]", 422, "invalid"),
        (b" " * (2 * 1024 * 1024 + 1), 413, "too-large"),
    ],
)
def test_what_is_wrong_is_told_as_a_problem(
    client: FlaskClient, body: bytes, status: int, kind: str
) -> None:
    reply = client.post("/events", data=body, content_type="application/json")
    assert (reply.status_code, reply.content_type) == (status, "application/problem+json")
    assert json.loads(reply.data)["type"] == f"/problems/{kind}"


def test_another_event_with_the_same_id_is_refused(client: FlaskClient) -> None:
    assert client.post("/events", json={**FILE, "eventId": "42"}).status_code == 201
    taken = client.post("/events", json={**ORDER, "eventId": "42"})
    assert taken.status_code == 409
    assert json.loads(taken.data)["type"] == "/problems/event-id-taken"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_the_endpoint_takes_only_posts(client: FlaskClient, method: str) -> None:
    reply = client.open("/events", method=method)
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/", "/rules", "/events/1", "/jobs", "/docs"])
def test_there_is_nothing_else(client: FlaskClient, path: str) -> None:
    reply = client.get(path)
    assert (reply.status_code, reply.content_type) == (404, "application/problem+json")
    assert "POST /events" in json.loads(reply.data)["detail"]


def test_once_there_is_a_token_it_is_asked_for(app: Flask, client: FlaskClient) -> None:
    cue = scheduler_of(app)
    assert client.post("/events", json=FILE, headers={"host": "elsewhere"}).status_code == 403
    _, reader = Access(cue.store, cue.clock).create(scopes=["read"])
    _, writer = Access(cue.store, cue.clock).create(scopes=["write"])
    wait_until(lambda: client.post("/events", json=FILE).status_code == 401)
    for token, status in ((reader, 403), (writer, 201)):
        told = {"authorization": f"Bearer {token}", "host": "elsewhere"}
        assert client.post("/events", json=ORDER, headers=told).status_code == status


FORKING = """
import os
from oncue.integrations.flask import create_app

app = create_app()
assert [rule.name for rule in app.extensions["oncue"].rules()]
for number in range(10):
    child = os.fork()
    if child == 0:
        event = {"eventType": "TABLE", "eventTimestamp": f"2021-01-01 12:00:0{number}"}
        reply = app.test_client().post("/events", json=event | {"eventResourceId": "T"})
        os._exit(0 if reply.status_code == 201 else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_workers_may_be_forked_after_the_application_was_loaded(kind: str, tmp_path: Path) -> None:
    store = own_url() if kind == "postgresql" else f"sqlite:///{tmp_path / 'jobs.db'}"
    subprocess.run(
        [sys.executable, "-c", FORKING],
        env=environment({"ONCUE_STORE": store}),
        timeout=60.0,
        check=True,
    )
    with Scheduler(store) as cue:
        assert len(list(cue.events())) == 10


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Flask]:
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        app = Flask("own")
        app.register_blueprint(blueprint(cue, rules=True), url_prefix="/cue")
        yield app


def test_the_blueprint_works_under_any_prefix_and_may_have_the_rules_too(own: Flask) -> None:
    client = own.test_client()
    created = client.put("/cue/rules/my%20orders", json=RULE)
    assert created.status_code == 201
    assert client.put("/cue/rules/my%20orders", json=RULE).status_code == 200
    fired = client.post("/cue/events", json=ORDER)
    assert fired.json is not None
    [job] = fired.json["events"][0]["jobs"]
    shown = client.get("/cue/rules/my%20orders").json
    assert shown is not None
    assert (shown["name"], shown["lastJobId"]) == ("my orders", job["jobId"])
    explained = client.get("/cue/rules/my%20orders/explain?at=2021-01-01T12:00:00Z").json
    assert explained is not None
    assert explained["met"] is True
    listed = client.get("/cue/rules?limit=1").json
    assert listed is not None
    assert [one["name"] for one in listed["items"]] == ["my orders"]
    gone = client.delete("/cue/rules/my%20orders")
    assert (gone.status_code, gone.data, "content-type" in gone.headers) == (204, b"", False)
    assert client.get("/cue/rules/my%20orders").status_code == 404


@pytest.mark.parametrize("name", ["a/b", "/in/", "a//b", "a/explain", "%2F", "ü/?#"])
def test_a_rule_may_have_a_name_with_slashes(own: Flask, name: str) -> None:
    client, path = own.test_client(), f"/cue/rules/{quote(name, safe='')}"
    assert client.put(path, json=RULE).status_code == 201
    shown, explained = client.get(path).json, client.get(f"{path}/explain?at=2021-01-01T12:00:00Z")
    assert shown is not None
    assert (shown["name"], explained.status_code) == (name, 200)
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_a_server_that_hands_over_only_decoded_paths_still_finds_plain_names(own: Flask) -> None:
    def decoded(environ: dict[str, Any], start: Any) -> Any:
        kept = {k: v for k, v in environ.items() if k not in ("RAW_URI", "REQUEST_URI")}
        return own.wsgi_app(kept, start)

    client = Client(decoded)
    assert client.put("/cue/rules/my%20orders", json=RULE).status_code == 201
    assert client.put("/cue/rules/a%2Fb", json=RULE).status_code == 404


def test_the_blueprint_leaves_everything_else_to_the_application(tmp_path: Path) -> None:
    with Scheduler("memory:") as cue:
        app = Flask("own")
        app.register_blueprint(blueprint(cue))
        client = app.test_client()
        assert client.post("/events", json=ORDER, headers={"host": "elsewhere"}).status_code == 201
        assert client.get("/rules").status_code == 404
        assert client.get("/rules").content_type != "application/problem+json"


def test_a_defect_is_told_without_what_was_sent(
    own: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Scheduler, events: object) -> None:
        raise ValueError(f"cannot bear {events}")

    monkeypatch.setattr(Scheduler, "publish", broken)
    reply = own.test_client().post("/cue/events", json=ORDER)
    assert reply.status_code == 500
    assert json.loads(reply.data)["type"] == "/problems/internal"
    assert "ValueError" in caplog.text
    assert "ORDERS" not in caplog.text
