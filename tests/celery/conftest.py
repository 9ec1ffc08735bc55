"""Applications that are gone after the test, with their queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.celery.shop import Shop
from tests.servers import rabbitmq_url, redis_url

OpenShop = Callable[..., Shop]


@pytest.fixture
def open_shop() -> Iterator[OpenShop]:
    with ExitStack() as stack:

        def opened(*args: Any, **settings: Any) -> Shop:
            return stack.enter_context(closing(Shop(*args, **settings)))

        yield opened


@pytest.fixture
def shop(open_shop: OpenShop) -> Shop:
    """An application on a broker in memory, with a clock that is moved by hand."""
    return open_shop()


@pytest.fixture(params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a real broker."""
    return {"redis": redis_url, "rabbitmq": rabbitmq_url}[request.param]()
