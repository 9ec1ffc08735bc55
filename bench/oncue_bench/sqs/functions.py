"""The Lambda functions, invoked in a process of their own: from DynamoDB to SQS."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import oncue.aws
from oncue.aws import sandbox
from oncue.aws.invocation import LocalContext
from oncue.core.job import NewJob
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import default_queue
from oncue.sinks.sqs_address import SqsAddress
from oncue.stores import open_store
from oncue.stores.dynamodb.live import LIVE_LOOKS
from oncue.stores.dynamodb.store import DynamoStore
from oncue.usecases import intake
from oncue.usecases.queues import put_queue
from oncue.usecases.tasks import as_job
from oncue_bench.dynamodb.rates import store_jobs
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from oncue_bench.machine import rss_kib
from oncue_bench.seeds import QUEUE

TASKS = "tasks"
USERS = 1_000
LONGEST_SECONDS = 3_600
"""Far more than a function of Lambda has: emulators are slow."""
COUNTED_AT_ONCE = 1_000

Figures = dict[str, Any]


class Counting(WrappedClient):
    """Counts requests."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.requests: Counter[str] = Counter()

    def during(self, call: Call) -> Any:
        self.requests[call.method] += 1
        return self.send(call)


def seed_tasks(url: str, count: int, shards: int) -> Figures:
    """Tasks of today, as `POST /tasks` makes them."""
    store = open_store(url)
    put_queue(store, replace(default_queue(TASKS), shards=shards))
    store_jobs(store, _tasks(count, store.clock.now()))
    store.close()
    return {"count": count}


def _tasks(count: int, now: Moment) -> Iterator[NewJob]:
    today = to_datetime(now).date().isoformat()
    for number in range(count):
        fields = {"userId": f"user-{number % USERS}", "dueDate": today, "content": "x" * 150}
        yield intake.new_job(as_job(fields, now), now)


def start_tasks(url: str, sink: str) -> Figures:
    """`start_scheduled_tasks` with the date of today, twice."""
    store = _sandbox(url, sink, TASKS)
    today = to_datetime(store.clock.now()).date().isoformat()
    figures = _invoked(store, "start_scheduled_tasks", {"date": today}, TASKS)
    again = oncue.aws.start_scheduled_tasks({"date": today}, LocalContext("bench", LONGEST_SECONDS))
    figures |= {"again": _delivered(again, TASKS), "in_queue": _in_queue(sink)}
    figures["started"] = sum(_live(store, look) for look in LIVE_LOOKS)
    sandbox.close()
    return figures


def dispatch(url: str, sink: str) -> Figures:
    """One tick of `dispatch`, for jobs of which nothing is kept."""
    store = _sandbox(url, sink, QUEUE)
    figures = _invoked(store, "dispatch", {}, QUEUE)
    figures["in_queue"] = _in_queue(sink)
    sandbox.close()
    return figures


def _sandbox(url: str, sink: str, queue: str) -> DynamoStore:
    """The store of a sandbox with these settings, which has connected."""
    os.environ["ONCUE_STORE"] = url
    os.environ[f"{sandbox.SINK}{queue.upper()}"] = sink
    store = sandbox.scheduler().store
    assert isinstance(store, DynamoStore)
    return store


def _invoked(store: DynamoStore, name: str, event: dict[str, Any], queue: str) -> Figures:
    counting = store.table.client = Counting(store.table.client)
    before, used, began = rss_kib(), process_time(), perf_counter()
    answer = getattr(oncue.aws, name)(event, LocalContext("bench", LONGEST_SECONDS))
    seconds, cpu = perf_counter() - began, process_time() - used
    return {
        "count": _delivered(answer, queue),
        "seconds": seconds,
        "cpu": cpu,
        "before_kib": before,
        "requests": counting.requests.total(),
    }


def _delivered(answer: Any, queue: str) -> int:
    return int(answer["queues"].get(queue, {}).get("delivered", 0))


def _in_queue(sink: str) -> int:
    address = SqsAddress.read(sink)
    client, names = address.connect(), ["ApproximateNumberOfMessages"]
    told = client.get_queue_attributes(QueueUrl=address.find_url(client), AttributeNames=names)
    return int(told["Attributes"][names[0]])


def _live(store: DynamoStore, look: str) -> int:
    """How many jobs are dispatched. The emulator is slow with large pages."""
    last, count = "", 0
    while page := list(store.table.look(look, last, limit=COUNTED_AT_ONCE)):
        count, last = count + len(page), page[-1]
    return count
