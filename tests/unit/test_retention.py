"""How long things are kept."""

from __future__ import annotations

from oncue.core.event import Bounds
from oncue.core.queue import Queue
from oncue.core.retention import forgotten_before, loose_before, retention

NOW = 10**12


def test_a_queue_without_a_retention_keeps_everything() -> None:
    queues = [Queue("a", retention_seconds=1.5), Queue("b", retention_seconds=None)]
    assert retention(queues, Bounds(), NOW).finished_before == {"a": NOW - 1500}
    assert retention([Queue("c", retention_seconds=0)], Bounds(), NOW).finished_before == {"c": NOW}


def test_ids_are_remembered_for_a_day_and_loose_events_as_long_as_the_bounds_say() -> None:
    assert forgotten_before(NOW) == NOW - 86_400_000
    assert loose_before(NOW, Bounds(loose_seconds=2)) == NOW - 2000
