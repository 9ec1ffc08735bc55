"""What is published later is, byte for byte, the message that Celery would have sent at once."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from kombu import Queue
from kombu.serialization import register, unregister

from oncue.core.errors import InvalidInput, OncueError
from tests.celery.conftest import OpenShop
from tests.celery.shop import DAY, Shop

CALLS: dict[str, dict[str, Any]] = {
    "json": {},
    "pickle": {"serializer": "pickle"},
    "yaml": {"serializer": "yaml"},
    "a serializer of its own": {"serializer": "reversed"},
    "compression": {"compression": "zlib", "serializer": "pickle"},
    "priority": {"priority": 7},
    "headers": {"headers": {"tenant": "ada", "tags": ["a", {"b": None}], "share": 0.1}},
    "not persistent": {"delivery_mode": "transient"},
    "limits": {"time_limit": 30, "soft_time_limit": 20, "shadow": "sum"},
    "reply": {"reply_to": "answers", "ignore_result": True},
}


@pytest.fixture
def _reversed() -> Any:
    register(
        "reversed",
        lambda value: pickle.dumps(value)[::-1],
        lambda data: pickle.loads(data[::-1]),
        content_type="application/x-reversed",
        content_encoding="binary",
    )
    yield
    unregister("reversed")


def both_ways(shop: Shop, queue: str | None = None, /, **options: Any) -> list[dict[str, Any]]:
    """The same call without oncue and with it: what arrives."""
    now = shop.app.now()
    shop.app.now = lambda: now
    options = {"eta": shop.in_seconds(DAY), "task_id": "task-1", **options}
    shop.add.apply_async([1, 2], **options)
    native = shop.arrived(queue)
    shop.install()
    shop.add.apply_async([1, 2], **options)
    assert shop.arrived(queue) == []
    shop.pass_seconds(DAY)
    captured = shop.arrived(queue)
    assert len(native) == len(captured) == 1
    return native + captured


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.usefixtures("_reversed")
def test_the_message_is_the_same(case: str, shop: Shop) -> None:
    native, captured = both_ways(shop, **CALLS[case])
    assert captured == native


def test_the_message_is_the_same_on_real_brokers(any_broker: str, open_shop: OpenShop) -> None:
    headers = {"tenant": "ada", "tags": ["a", {"b": None}], "share": 0.1}
    options: dict[str, Any] = {"serializer": "pickle", "compression": "zlib", "priority": 3}
    native, captured = both_ways(open_shop(any_broker), headers=headers, **options)
    assert captured == native


def test_a_message_expires_as_without_oncue(shop: Shop) -> None:
    native, captured = both_ways(shop, expires=shop.in_seconds(2 * DAY))
    assert captured == native
    assert captured["headers"]["expires"]


def test_links_go_with_the_message(shop: Shop) -> None:
    link = shop.add.s(3).set(task_id="next")
    native, captured = both_ways(shop, link=link, link_error=shop.add.si(0))
    assert captured == native


def test_a_message_of_protocol_1_is_the_same(open_shop: OpenShop) -> None:
    native, captured = both_ways(open_shop(task_protocol=1))
    assert captured == native
    assert b'"eta": "2027-' in captured["body"]


def test_a_message_finds_its_way_to_another_queue(shop: Shop) -> None:
    native, captured = both_ways(shop, shop.slow, queue=shop.slow)
    assert captured == native


def test_a_message_finds_its_way_through_a_topic_exchange(shop: Shop) -> None:
    exchange = shop.app.amqp.queues[shop.news].exchange
    way = {"exchange": exchange, "routing_key": "news.local", "queue": shop.news}
    native, captured = both_ways(shop, shop.news, **way)
    assert captured == native


def test_a_queue_that_only_the_call_knows_is_there_later(shop: Shop) -> None:
    own = Queue(f"{shop.name}-own", routing_key=f"{shop.name}-own")
    native, captured = both_ways(shop, own.name, queue=own)
    assert captured == native


def test_delayed_delivery_by_rabbitmq_does_not_change_the_way(open_shop: OpenShop) -> None:
    shop = open_shop("pyamqp://127.0.0.1:1//", task_default_queue_type="quorum")
    shop.app.conf.broker_native_delayed_delivery_queue_type = "quorum"
    shop.app.conf.task_queues[2].queue_arguments = {"x-queue-type": "quorum"}
    shop.install()
    shop.add.apply_async([1], countdown=DAY, queue=shop.news)
    [job] = shop.jobs()
    assert job.payload["exchange"] == f"{shop.name}-news"
    assert job.payload["routing_key"] == "news.#"
    shop.app.conf.broker_url = "memory://"  # where there is something to be cleaned up


@pytest.mark.parametrize("value", [b"bytes", {1: "one"}, float("nan"), {"a": [{"b": {2}}]}])
def test_what_json_would_change_is_refused_and_nothing_is_stored(value: Any, shop: Shop) -> None:
    shop.install()
    with pytest.raises(InvalidInput, match="/headers/odd"):
        shop.add.apply_async([1], countdown=DAY, headers={"odd": value})
    assert shop.jobs() == []
    assert shop.arrived() == []


def test_a_capture_that_fails_is_raised_and_nothing_is_published(shop: Shop) -> None:
    shop.install()
    with pytest.raises(InvalidInput, match="at most 262,144"):
        shop.add.apply_async(["x" * 300_000], countdown=DAY)
    shop.cue.set_queue("celery", sink="log:")
    with pytest.raises(OncueError, match="queue celery is handed over to log:"):
        shop.add.apply_async([1], countdown=DAY)
    assert shop.jobs() == []
    assert shop.arrived() == []
