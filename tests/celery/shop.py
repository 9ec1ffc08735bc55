"""An application of Celery with oncue in it, and what arrives at its broker."""

from __future__ import annotations

import gc
import secrets
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from kombu import Exchange, Queue, pools

from oncue import Job, Scheduler
from oncue.clock import FakeClock
from oncue.core.moment import to_datetime
from oncue.integrations.celery import PatientCelery, install
from oncue.ports.store import Store

DAY = 86_400
PATIENCE = 60  # seconds that anything may take
TRANSPORT = {
    "polling_interval": 0.01,
    "region": "eu-central-1",
    "is_secure": False,
    "wait_time_seconds": 0,
}
OF_DELIVERY = ("delivery_tag", "message_count", "redelivered", "sqs_message", "sqs_queue")
"""What brokers add when they deliver a message."""


class Shop:
    def __init__(
        self,
        broker: str = "memory://",
        *,
        backend: str = "cache+memory://",
        clock: Any = None,
        store: str | Store = "memory:",
        **settings: Any,
    ) -> None:
        self.name = f"shop-{secrets.token_hex(4)}"
        self.clock: Any = clock or FakeClock()
        self.cue = Scheduler(store, clock=self.clock)
        self.app: Any = Celery(self.name, broker=broker, backend=backend, set_as_current=False)
        topic = Exchange(f"{self.name}-news", type="topic")
        names = {one: f"{self.name}-{one}" for one in ("tasks", "slow", "news")}
        self.tasks, self.slow, self.news = names.values()
        options: dict[str, Any] = {"queue_arguments": {"x-max-priority": 9}}
        self.app.conf.update(
            task_default_queue=self.tasks,
            task_queues=[
                Queue(self.tasks, Exchange(self.tasks), routing_key=self.tasks, **options),
                Queue(self.slow, Exchange(self.slow), routing_key=self.slow, **options),
                Queue(self.news, topic, routing_key="news.#"),
            ],
            broker_transport_options={"global_keyprefix": self.name, **TRANSPORT},
            result_backend_transport_options={"global_keyprefix": self.name},
            accept_content=["json", "pickle", "yaml", "application/x-reversed"],
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=False,
            control_queue_ttl=10.0,
            broker_heartbeat=1,  # a worker looks so often whether it is to end
            **settings,
        )
        self.add = self.app.task(name="shop.add", shared=False)(_add)
        self.app.task(name="shop.total", shared=False)(_total)
        self.results_on_redis = backend.startswith("redis:")
        self.patient: PatientCelery | None = None

    def install(self, **options: Any) -> PatientCelery:
        self.patient = install(self.app, self.cue, **options)
        return self.patient

    def in_seconds(self, seconds: float) -> datetime:
        return to_datetime(self.clock.now()) + timedelta(seconds=seconds)

    def jobs(self) -> list[Job]:
        return list(self.cue.jobs(queue="celery"))

    def pass_seconds(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.poll()

    def poll(self) -> None:
        assert self.patient is not None
        self.patient.poller.step()

    def arrived(self, queue: str | None = None) -> list[dict[str, Any]]:
        """Take all messages of a queue: everything but their delivery tags."""
        found = []
        with self.app.connection_for_read() as connection:
            channel = connection.channel()
            for declared in self.app.amqp.queues.values():
                declared(channel).declare()
            while (message := channel.basic_get(queue or self.tasks, no_ack=True)) is not None:
                found.append(_as_sent(message))
        return found

    def close(self) -> None:
        if self.patient is not None:
            self.patient.stop()
        with self.app.connection_for_write() as connection:
            channel = connection.channel()
            for queue in self.app.amqp.queues.values():
                bound = queue(channel)
                bound.declare()
                bound.delete()
                bound.exchange.delete()
        gc.collect()  # results that wait for Redis, before it is gone
        if self.results_on_redis:  # Celery does not close these connections
            self.app.backend.result_consumer.stop()
            self.app.backend.client.connection_pool.disconnect()
        self.app.close()
        pools.reset()
        self.cue.close()


def ids(messages: list[dict[str, Any]]) -> list[str]:
    """Of the tasks of these messages."""
    return [message["properties"]["correlation_id"] for message in messages]


def eventually(condition: Callable[[], bool]) -> bool:
    ends = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < ends:
        time.sleep(0.02)
    return condition()


def pollers() -> set[threading.Thread]:
    """The threads of this process that poll."""
    return {one for one in threading.enumerate() if one.name == "oncue-poller"}


def _add(*numbers: int) -> int:
    return sum(numbers)


def _total(numbers: list[int]) -> int:
    return sum(numbers)


def _as_sent(message: Any) -> dict[str, Any]:
    body = message.body
    properties = _without_delivery(message.properties)
    if "delivery_info" in properties:
        properties["delivery_info"] = _without_delivery(properties["delivery_info"])
    return {
        "body": body.encode() if isinstance(body, str) else bytes(body),
        "headers": message.headers,
        "properties": properties,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "delivery_info": _without_delivery(message.delivery_info),
    }


def _without_delivery(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in OF_DELIVERY}
