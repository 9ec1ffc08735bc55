"""The policies of the template are enough for the functions. All tests of `dispatch` and
`start_scheduled_tasks` run with them (`stack.py`); here are those of the API."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from oncue.core.errors import StoreUnusable
from oncue.core.moment import to_datetime
from oncue.ports.inbox import InboxSettings
from oncue.usecases.tokens import Access
from tests.aws.deployed import allowed
from tests.aws.gateway import Gateway
from tests.aws.stack import Stack
from tests.stores.dynamodb.policy import Permission

LARGE = "x" * 2000  # so large that the queue is asked how much it takes
GATEWAY = Gateway()


def ask(stack: Stack, method: str, target: str, fields: Any = None, status: int = 200) -> Any:
    body = b"" if fields is None else json.dumps(fields).encode()
    headers = [("Content-Type", "application/json"), *stack_headers(stack)]
    answer = stack.invoke("api", GATEWAY.event(method, target, body, headers))
    assert answer["statusCode"] == status, answer
    return json.loads(answer["body"]) if answer["body"] else None


def stack_headers(stack: Stack) -> list[tuple[str, str]]:
    _, text = Access(stack.store, stack.clock).create()
    return [("Authorization", f"Bearer {text}")]


def test_the_api_function_may_do_what_its_routes_need(stack: Stack) -> None:
    job = ask(stack, "POST", "/jobs", {"payload": LARGE, "delay": 600}, 201)
    keyed = ask(stack, "POST", "/jobs", {"key": "k", "delay": 600}, 201)
    ask(stack, "GET", f"/jobs/{job['id']}")
    ask(stack, "DELETE", f"/jobs/{keyed['id']}")
    ask(stack, "GET", "/jobs?queue=default")
    ask(stack, "GET", "/queues/default")
    ask(stack, "PUT", "/queues/mail", {"max_attempts": 3})
    ask(stack, "POST", "/tasks", {"userId": "ada", "dueDate": "2122-02-01"}, 201)
    ask(stack, "GET", "/tasks/ada")
    ask(stack, "GET", "/readyz")
    pulled = ask(stack, "POST", "/jobs", {"queue": "mail"}, 201)
    [claim] = ask(stack, "POST", "/claim", {"queues": ["mail"], "worker": "w"})["items"]
    assert claim["id"] == pulled["id"]
    ask(stack, "POST", f"/jobs/{pulled['id']}/complete", {"token": claim["token"]})
    assert Permission("sqs:GetQueueAttributes", "queue") in stack.role.used


def test_dispatch_and_tasks_use_all_that_they_are_given(stack: Stack) -> None:
    """Jobs of all kinds, items of an inbox, a schedule, a task, a lost claim."""
    cue = stack.cue
    stack.store.inbox.set(InboxSettings(shards=0), stack.now)
    for name in ("one", "two", "three"):
        stack.put_due(name, stack.now + 1000)
    cue.schedule("x", delay=90, expires_at=to_datetime(stack.now + 100_000))
    cue.set_queue("mail", lease_seconds=5)
    cue.set_queue("kept", sink=stack.sink, completion="worker")
    cue.schedule("x")
    cue.schedule("x", id="chosen", key="k")
    cue.schedule("x", queue="kept")
    cue.schedule("x", queue="tasks", owner="ada", delay=3600)
    cue.put_schedule("often", every_seconds=60)
    cue.schedule("x", queue="mail")
    cue.claim(["mail"], worker="w")
    for _ in range(3):
        stack.clock.advance(150)
        stack.dispatch()
    stack.invoke("start_scheduled_tasks", {"date": "2122-01-24"})
    unused = allowed("dispatch") - stack.role.used
    assert unused == set()


@pytest.mark.parametrize("handler", ["dispatch", "start_scheduled_tasks"])
def test_what_is_not_allowed_is_noticed(stack: Stack, handler: str) -> None:
    noticed = pytest.raises(AssertionError, match="dynamodb:DescribeTable")
    with noticed, stack.role.acting(handler), suppress(StoreUnusable):
        stack.store.describe()
