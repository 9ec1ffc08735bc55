"""Why tasks should not wait in a worker: Redis takes one that is not acknowledged for lost."""

from __future__ import annotations

from typing import Any

import pytest
from celery import signals
from celery.contrib.testing.worker import start_worker

from oncue.clock import SystemClock
from tests.celery.conftest import OpenShop
from tests.celery.shop import PATIENCE, Shop, eventually
from tests.servers import redis_url

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")
VISIBILITY_SECONDS = 1.0
WAITS_SECONDS = 2.5


def run_late(shop: Shop) -> tuple[int, bool]:
    """Run a task that waits longer than the visibility timeout. How often a worker got it, and
    whether it was kept there until it was due."""
    shop.app.conf.broker_transport_options |= {
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_interval": 0.1,
        "unacked_restore_throttle": 1,
    }
    received: list[str] = []
    ended: list[str] = []

    def note(request: Any, **_: Any) -> None:
        received.append(request.id)

    def end(task_id: str, **_: Any) -> None:
        ended.append(task_id)

    signals.task_received.connect(note)
    signals.task_postrun.connect(end)
    try:
        with start_worker(shop.app, shutdown_timeout=PATIENCE, perform_ping_check=False) as worker:
            due_at = shop.clock.now() + WAITS_SECONDS * 1000
            result = shop.add.apply_async([1], countdown=WAITS_SECONDS)
            kept = []

            def is_over() -> bool:
                waiting = waiting_in(worker)
                if shop.clock.now() < due_at:
                    kept.extend([one for one in waiting if one == result.id])
                return result.id in ended

            assert eventually(is_over)
    finally:
        signals.task_received.disconnect(note)
        signals.task_postrun.disconnect(end)
    return received.count(result.id), bool(kept)


def waiting_in(worker: Any) -> list[str]:
    """The ids of the tasks that a worker keeps until they are due."""
    entries = [one.entry.args for one in list(worker.timer.schedule.queue)]
    return [str(getattr(args[0], "id", "")) for args in entries if args]


def test_without_oncue_a_worker_gets_a_task_that_waits_several_times(open_shop: OpenShop) -> None:
    shop = open_shop(redis_url(), clock=SystemClock())
    times, kept = run_late(shop)
    assert times > 1
    assert kept


def test_with_oncue_it_gets_the_task_once_and_does_not_keep_it(open_shop: OpenShop) -> None:
    shop = open_shop(redis_url(), clock=SystemClock())
    shop.install(threshold=0, poll_seconds=0.1)
    assert run_late(shop) == (1, False)
