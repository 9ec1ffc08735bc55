"""Why tasks should not wait in a worker: Redis takes one that is not acknowledged for lost."""

from __future__ import annotations

from typing import Any

import pytest
from celery import signals
from celery.contrib.testing.worker import start_worker
from celery.worker.state import reserved_requests

from oncue.clock import SystemClock
from tests.celery.conftest import OpenShop
from tests.celery.shop import Shop
from tests.celery.test_workers import PATIENCE, eventually
from tests.servers import redis_url

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")
VISIBILITY_SECONDS = 0.5
WAITS_SECONDS = 2.5


def received(shop: Shop) -> list[str]:
    """Run a task that waits longer than the visibility timeout: each time that a worker gets it."""
    shop.app.conf.broker_transport_options |= {"visibility_timeout": VISIBILITY_SECONDS}
    found: list[str] = []
    done: list[str] = []

    def note(request: Any, **_: Any) -> None:
        found.append(request.id)

    def end(task_id: str, **_: Any) -> None:
        done.append(task_id)

    signals.task_received.connect(note)
    signals.task_postrun.connect(end)
    options: dict[str, Any] = {"perform_ping_check": False, "use_eventloop": False}
    try:
        with start_worker(shop.app, shutdown_timeout=PATIENCE, **options):
            result = shop.add.apply_async([1], countdown=WAITS_SECONDS)
            if shop.patient is None:
                assert eventually(lambda: len(list(reserved_requests)) > 0)
            assert eventually(lambda: result.id in done)
    finally:
        signals.task_received.disconnect(note)
        signals.task_postrun.disconnect(end)
    return found


def test_without_oncue_a_task_that_waits_is_delivered_several_times(open_shop: OpenShop) -> None:
    shop = open_shop(redis_url(), clock=SystemClock())
    assert len(received(shop)) > 1


def test_with_oncue_it_is_delivered_once_and_waits_in_no_worker(open_shop: OpenShop) -> None:
    shop = open_shop(redis_url(), clock=SystemClock())
    shop.install(threshold=0, poll_seconds=0.1)
    assert len(received(shop)) == 1
