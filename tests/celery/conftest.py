"""Applications that are gone after the test, with their queues."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import signals

from tests.celery.shop import Shop
from tests.servers import ministack_endpoint, rabbitmq_url, redis_url

OpenShop = Callable[..., Shop]


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def leave_logging(**_: Any) -> None:
    """Else a worker in a thread would change the logging of all tests in this process."""


@pytest.fixture
def open_shop() -> Iterator[OpenShop]:
    with ExitStack() as stack:

        def opened(*args: Any, **settings: Any) -> Shop:
            return stack.enter_context(closing(Shop(*args, **settings)))

        yield opened
    with warnings.catch_warnings():  # kombu leaves connections open that broke
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def shop(open_shop: OpenShop) -> Shop:
    """An application on a broker in memory, with a clock that is moved by hand."""
    return open_shop()


@pytest.fixture(params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a real broker."""
    return {"redis": redis_url, "rabbitmq": rabbitmq_url}[request.param]()


@pytest.fixture(params=["redis", "rabbitmq", "sqs"])
def any_broker(request: pytest.FixtureRequest) -> str:
    """The same, or an emulator of SQS."""
    known = {"redis": redis_url, "rabbitmq": rabbitmq_url, "sqs": sqs_url}
    return known[request.param]()


def sqs_url() -> str:
    return f"sqs://test:test@{urlsplit(ministack_endpoint()).netloc}"
