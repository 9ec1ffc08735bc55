"""Brokers that are down, messages that they refuse, pollers that are killed: nothing is lost."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kombu import Exchange, Producer, Queue
from redis.exceptions import OutOfMemoryError

from oncue import Scheduler
from oncue.clock import SystemClock
from oncue.core.errors import SinkDown
from oncue.core.job import Delivery
from oncue.core.lifecycle import State
from oncue.integrations.celery import install
from oncue.integrations.celery_sink import CelerySink
from tests.celery.conftest import OpenShop
from tests.celery.relay import Relay
from tests.celery.shop import DAY, PATIENCE, Shop, eventually, ids
from tests.servers import rabbitmq_url, redis_url

KILLED_IN_THE_MIDDLE = """
import os, sys
from celery import Celery
from kombu import Producer
from oncue import Scheduler
from oncue.integrations.celery import install

broker, prefix, store = sys.argv[1:]
app = Celery("other", broker=broker, set_as_current=False)
app.conf.broker_transport_options = {"global_keyprefix": prefix}
patient = install(app, Scheduler(store))
publish, published = Producer.publish, []

def publish_some(*args, **options):
    if len(published) == 6:
        os._exit(9)
    published.append(publish(*args, **options))

Producer.publish = publish_some
patient.poller.step()
"""


def closed_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def deliveries(shop: Shop) -> list[Delivery]:
    now = shop.clock.now()
    return [Delivery(job.id, now, job.payload_json, 1) for job in shop.jobs()]


def test_a_broker_that_is_down_gets_the_tasks_later(
    broker: str, open_shop: OpenShop, caplog: pytest.LogCaptureFixture
) -> None:
    shop = open_shop(broker, clock=SystemClock())
    patient = shop.install(threshold=0, poll_seconds=0.1)
    shop.app.conf.broker_write_url = f"{broker.partition(':')[0]}://127.0.0.1:{closed_port()}//"
    sent = [shop.add.apply_async([n], countdown=0.001).id for n in range(3)]
    patient.start()
    assert eventually(lambda: "the broker is in trouble" in caplog.text)
    assert {(job.state is State.SUCCEEDED, job.error) for job in shop.jobs()} == {(False, None)}
    shop.app.conf.broker_write_url = broker
    assert eventually(lambda: all(job.state is State.SUCCEEDED for job in shop.jobs()))
    assert ids(shop.arrived()) == sent
    assert {job.attempt for job in shop.jobs()} == {1}


def after_two_messages(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Do this before the third message is published."""
    published: list[Any] = []
    publish = Producer.publish

    def publish_some(*args: Any, **options: Any) -> None:
        if len(published) == 2:
            do()
        published.append(publish(*args, **options))

    monkeypatch.setattr(Producer, "publish", publish_some)


def test_a_broker_that_goes_down_in_the_middle_is_given_the_rest_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.install()
    for n in range(5):
        shop.add.apply_async([n], countdown=DAY + n, task_id=str(n))

    def fail() -> None:
        raise ConnectionResetError("gone")

    after_two_messages(monkeypatch, fail)
    wrong = Delivery("odd", 0, b'{"a": 1}', 1)
    batch = [wrong, *deliveries(shop)]
    with pytest.raises(SinkDown, match="ConnectionResetError: gone") as down:
        CelerySink(shop.app).deliver("celery", batch)
    untaken = down.value.untaken
    assert untaken is not None
    assert sorted(untaken) == [0, 3, 4, 5]
    assert untaken[0].permanent
    assert ids(shop.arrived()) == ["0", "1"]


def test_a_connection_that_goes_silent_is_given_up(
    broker: str, open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poller that waits for ever would keep its batch from all others."""
    monkeypatch.setattr("oncue.integrations.celery_sink.CONFIRM_SECONDS", 0.5)
    shop = open_shop(broker)
    shop.install()
    for n in range(5):
        shop.add.apply_async([n], countdown=DAY + n, task_id=str(n))
    with closing(Relay(broker)) as relay:
        after_two_messages(monkeypatch, relay.go_silent)
        shop.app.conf.broker_write_url = relay.url
        with pytest.raises(SinkDown, match="TimeoutError") as down:
            CelerySink(shop.app).deliver("celery", deliveries(shop))
        shop.app.conf.broker_write_url = broker
    assert sorted(down.value.untaken or ()) == [2, 3, 4]
    assert ids(shop.arrived()) == ["0", "1"]


def test_a_broker_that_is_full_is_in_trouble(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kombu import Producer

    shop = open_shop(redis_url())
    shop.install()
    shop.add.apply_async([0], countdown=DAY)

    def full(*args: Any, **options: Any) -> None:
        raise OutOfMemoryError("command not allowed: LPUSH tasks secret")

    monkeypatch.setattr(Producer, "publish", full)
    with pytest.raises(SinkDown, match="trouble: OutOfMemoryError$") as down:
        CelerySink(shop.app).deliver("celery", deliveries(shop))
    assert down.value.untaken == {0: None}


def test_a_message_that_is_refused_does_not_hold_up_the_others(open_shop: OpenShop) -> None:
    shop = open_shop(rabbitmq_url())
    shop.install()
    nowhere = Exchange(f"{shop.name}-nowhere")
    shop.add.apply_async([0], countdown=DAY, task_id="0", exchange=nowhere, routing_key="x")
    shop.add.apply_async([1], countdown=DAY + 1, task_id="1")
    shop.pass_seconds(DAY + 1)
    assert ids(shop.arrived()) == ["1"]
    refused, taken = shop.jobs()
    assert (refused.state, refused.attempt, taken.state) == (State.SCHEDULED, 0, State.SUCCEEDED)
    assert "NOT_FOUND" in str(refused.error)
    with shop.app.connection_for_write() as connection:
        late = Queue(f"{shop.name}-late", nowhere, routing_key="x")(connection.channel())
        late.declare()
        shop.pass_seconds(3600)
        assert late.get(no_ack=True) is not None
        late.delete()
        late.exchange.delete()


@pytest.mark.parametrize(
    ("url", "odd"),
    [
        (redis_url, {"delivery_mode": "nonsense"}),
        (rabbitmq_url, {"delivery_mode": "nonsense"}),
        (rabbitmq_url, {"headers": {"number": 2**70}}),
    ],
)
def test_a_message_that_no_client_can_publish_does_not_hold_up_the_others(
    url: Callable[[], str], odd: dict[str, Any], open_shop: OpenShop
) -> None:
    """Without a delay, Celery would tell its sender."""
    shop = open_shop(url())
    shop.install()
    shop.add.apply_async([0], countdown=DAY, task_id="0", **odd)
    shop.add.apply_async([1], countdown=DAY + 1, task_id="1")
    shop.pass_seconds(DAY + 1)
    assert ids(shop.arrived()) == ["1"]
    refused, taken = shop.jobs()
    assert (refused.state, refused.attempt, taken.state) == (State.SCHEDULED, 0, State.SUCCEEDED)
    assert "it cannot be published" in str(refused.error)


def test_a_poller_that_is_killed_in_the_middle_loses_nothing(
    open_shop: OpenShop, tmp_path: Path
) -> None:
    store, broker = f"sqlite:///{tmp_path / 'jobs.db'}", redis_url()
    shop = open_shop(broker, store=store, clock=SystemClock())
    patient = shop.install(threshold=0)
    shop.cue.set_queue("celery", sink="celery:", lease_seconds=1)
    early = shop.add.apply_async([0], countdown=0.001).id
    shop.poll()
    sent = [shop.add.apply_async([n], countdown=0.001).id for n in range(10)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_MIDDLE, broker, shop.name, store],
        timeout=PATIENCE,
        check=False,
    )
    assert killed.returncode == 9
    other = Scheduler(store)
    app: Any = type(shop.app)("third", broker=broker, set_as_current=False)
    app.conf.broker_transport_options = shop.app.conf.broker_transport_options
    another = install(app, other)
    while any(job.state is not State.SUCCEEDED for job in shop.jobs()):
        patient.poller.step()
        another.poller.step()
    arrived = Counter(ids(shop.arrived()))
    assert arrived.keys() == {early, *sent}
    assert arrived[early] == 1  # it was settled
    assert max(arrived.values()) <= 2
    another.poller.step()
    assert shop.arrived() == []
    another.stop()
    other.close()
