"""The API function in its sandbox: which time it has, and what it leaves when it has answered."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oncue import Scheduler
from oncue.aws import api, gateway, sandbox
from oncue.aws.http_event import HttpEvent
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.stores.dynamodb import news
from oncue.stores.memory import MemoryStore
from oncue.usecases.tokens import Access
from tests.aws.gateway import Context, Gateway, deployed
from tests.cli.on_dynamodb import CREDENTIALS, new_url
from tests.stores.dynamo import client

GATEWAY = Gateway()
SOON = 20.0  # only ends a broken test


@pytest.fixture
def function() -> Iterator[None]:
    with deployed():
        yield


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a store on DynamoDB, without any tokens."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, str(value))
    url = new_url()
    yield url
    client().delete_table(TableName=url.partition("://")[2].partition("?")[0])


def service() -> Any:
    [host] = gateway._hosts.values()
    return host._service


def tasks() -> set[Any]:
    """What the loop of the function still has to do."""
    [host] = gateway._hosts.values()

    async def others() -> set[Any]:
        return asyncio.all_tasks() - {asyncio.current_task()}

    return asyncio.run_coroutine_threadsafe(others(), host._loop).result()


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arrived", "remaining", "seconds"),
    [
        ("http-api", None, 60.0, 28.0),  # the gateway gives up after 30 s
        ("http-api", 0, 60.0, 28.0),
        ("http-api", -4_000, 60.0, 24.0),  # the sandbox took 4 s to start
        ("http-api", -4_000, 10.0, 8.0),  # the function has no more time
        ("http-api", -4_000, 1.0, 0.0),
        ("http-api", -60_000, 60.0, 28.0),  # a repeated event, or a wrong clock
        ("http-api", +60_000, 60.0, 28.0),
        ("function-url", 0, 60.0, 58.0),  # no gateway
        ("function-url", -4_000, 900.0, 898.0),
    ],
)
def test_a_request_may_wait_as_long_as_gateway_and_function_do(
    kind: Any, arrived: int | None, remaining: float, seconds: float
) -> None:
    clock = FakeClock()
    event = Gateway(kind).event("GET", "/")
    event["requestContext"]["timeEpoch"] = None if arrived is None else clock.now() + arrived
    assert gateway.seconds_to_answer(HttpEvent(event), Context(remaining), clock) == seconds


@pytest.mark.usefixtures("function")
@pytest.mark.parametrize("seconds", [0.5, 2.05])
def test_a_claim_that_asks_for_a_longer_wait_gets_the_shorter(seconds: float) -> None:
    asked: dict[str, Any] = {"wait_seconds": 300}
    answer = GATEWAY.ask("POST", "/queues/q/claim", asked, seconds=seconds)
    assert (answer.status, answer.json) == (200, {"items": []})
    asked = {"queues": ["p", "q"], "wait_seconds": 300}
    assert GATEWAY.ask("POST", "/claim", asked, seconds=seconds).json == {"items": []}


@pytest.mark.usefixtures("function")
def test_a_wait_that_is_never_allowed_is_refused_all_the_same() -> None:
    answer = GATEWAY.ask("POST", "/queues/q/claim", {"wait_seconds": 301})
    assert answer.status == 422


@pytest.mark.usefixtures("function")
def test_a_reclaim_run_ends_before_the_function_does() -> None:
    clock = FakeClock()
    sandbox.adopt("memory:", Scheduler(MemoryStore(clock), clock=clock), {})
    for _ in range(3):
        GATEWAY.ask("POST", "/jobs", {"queue": "q"})
    assert len(GATEWAY.ask("POST", "/queues/q/claim", {"limit": 3}).json["items"]) == 3
    clock.advance(1.0)
    run = {"scanDelayMillis": 60_000, "objectScanLimit": 1, "targetBatchSize": 1}
    assert GATEWAY.ask("POST", "/reclaim", run, seconds=5.0).json["endedBy"] == "time"


# -- one event loop --------------------------------------------------------------------------------


@pytest.mark.usefixtures("function")
def test_warm_invocations_use_the_loop_of_the_first() -> None:
    for _ in range(3):
        assert GATEWAY.ask("POST", "/jobs", {}).status == 201
    assert [one.name for one in threading.enumerate()].count("oncue-gateway") == 1
    sandbox.close()
    assert "oncue-gateway" not in [one.name for one in threading.enumerate()]
    assert GATEWAY.ask("POST", "/jobs", {}).status == 201


@pytest.mark.usefixtures("function")
def test_many_at_once_are_all_answered() -> None:
    with ThreadPoolExecutor(8) as callers:
        posted = [callers.submit(GATEWAY.ask, "POST", "/jobs", {"queue": "q"}) for _ in range(40)]
        ids = {one.result().json["id"] for one in posted}
    assert len(ids) == 40
    assert len(gateway._hosts) == 1
    assert {job["id"] for job in GATEWAY.ask("GET", "/jobs?queue=q").json["items"]} == ids


def wait_and_post(queue: str) -> tuple[list[Any], str]:
    """A request waits for a job, and another one posts it. What the first was answered with, and
    the job's id."""
    with ThreadPoolExecutor(1) as caller:
        path = f"/queues/{queue}/claim"
        waits = caller.submit(GATEWAY.ask, "POST", path, {"wait_seconds": 20})
        job = GATEWAY.ask("POST", "/jobs", {"queue": queue}).json
        return waits.result(SOON).json["items"], job["id"]


@pytest.mark.usefixtures("function")
def test_a_request_that_waits_is_given_the_job_that_another_posts() -> None:
    [job], posted = wait_and_post("q")
    assert job["id"] == posted


@pytest.fixture
def log() -> Iterator[None]:
    """Its level is put back in the end."""
    ours = logging.getLogger("oncue")
    level = ours.level
    yield
    ours.setLevel(level)


@pytest.mark.usefixtures("function", "log")
def test_requests_are_logged_if_the_level_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONCUE_LOG_LEVEL", "info")
    GATEWAY.ask("GET", "/livez", headers=[("X-Request-Id", "mine")])
    assert [one.__dict__["request_id"] for one in caplog.records] == ["mine"]


# -- nothing is under way --------------------------------------------------------------------------


@pytest.mark.usefixtures("function")
def test_after_an_answer_nothing_is_under_way_and_nothing_is_watched() -> None:
    GATEWAY.ask("POST", "/queues/q/claim", {"wait_seconds": 20}, seconds=2.1)
    wait_and_post("q")
    store = sandbox.scheduler().store
    assert isinstance(store, MemoryStore)
    assert store._listeners == []
    waiting = service().waiting
    assert (waiting._waiters, waiting._under_way, waiting._sweeping) == ({}, set(), False)
    assert waiting._timer is None or waiting._timer.cancelled()
    assert tasks() == set()


def test_access_tokens_are_not_read_in_the_background() -> None:
    with deployed(scopes=None):
        cue = sandbox.scheduler()
        Access(cue.store, cue.clock).create()
        assert GATEWAY.ask("GET", "/jobs").status == 401
        assert (service()._callers._timer, tasks()) == (None, set())


class Forgetful(MemoryStore):
    """Cannot be reached to release jobs, the first time."""

    failed = False

    def settle(self, *args: Any, **kwargs: Any) -> Any:
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("it was away.")
        return super().settle(*args, **kwargs)


def test_an_invocation_ends_when_its_jobs_were_given_back() -> None:
    """Or when they could not be, as here: then their lease ends by itself."""
    with deployed():
        store = Forgetful(FakeClock())
        sandbox.adopt("memory:", Scheduler(store), {})
        for _ in range(30):
            GATEWAY.ask("POST", "/jobs", {"queue": "q", "payload": "x" * 260_000})
        assert GATEWAY.ask("POST", "/queues/q/claim", {"limit": 30}).status == 413
        assert (store.failed, tasks()) == (True, set())


def test_a_listener_of_dynamodb_leaves_when_the_look_for_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(news, "LOOK_SECONDS", SOON)
    looking, look_on = threading.Event(), threading.Event()

    def look(queues: Any) -> tuple[str, dict[str, int]]:
        looking.set()
        assert look_on.wait(SOON)
        return "mark", {}

    told = news.News()
    stop = told.watch(lambda queue, due_at: None, None, look)
    assert looking.wait(SOON)
    leaving = threading.Thread(target=stop)
    leaving.start()
    leaving.join(0.05)
    assert leaving.is_alive()
    look_on.set()
    leaving.join(SOON)
    assert not leaving.is_alive()
    told.close()


FORKED = """
import os, signal
from oncue.aws import sandbox
from tests.aws.gateway import Gateway

assert Gateway().ask("GET", "/livez").status == 200
child = os.fork()
if child == 0:
    code = 1
    try:
        signal.alarm(20)  # only ends a broken test
        code = int(Gateway().ask("GET", "/livez").status != 200)
        sandbox.close()
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert Gateway().ask("GET", "/livez").status == 200
sandbox.close()
"""


def test_a_process_that_was_forked_answers_too() -> None:
    variables = {"ONCUE_STORE": "memory:", "ONCUE_GATEWAY_SCOPES": "read"}
    subprocess.run(
        [sys.executable, "-c", FORKED], check=True, env={**os.environ, **variables}, timeout=120
    )


# -- on DynamoDB -----------------------------------------------------------------------------------


def test_a_job_lives_and_ends_on_dynamodb(table: str) -> None:
    with deployed(table, scopes="admin"):
        assert GATEWAY.ask("GET", "/readyz").json["store"] == "dynamodb"
        [job], posted = wait_and_post("mail")
        assert job["id"] == posted
        done = GATEWAY.ask("POST", f"/jobs/{posted}/complete", {"token": job["token"]})
        assert done.json["state"] == "succeeded"
        assert tasks() == set()
        sandbox.close()  # another sandbox
        assert GATEWAY.ask("GET", f"/jobs/{posted}").json["state"] == "succeeded"


def test_without_a_token_the_function_does_not_start_on_dynamodb(table: str) -> None:
    with deployed(table, scopes=None), pytest.raises(Exception, match="oncue token create"):
        api(GATEWAY.event("GET", "/livez"), Context())
