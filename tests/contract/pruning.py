"""One queue pruned: what the tests say often, said briefly."""

from __future__ import annotations

from oncue.core.moment import Moment
from oncue.core.retention import Retention
from oncue.ports.store import Store


def prune(store: Store, queue: str, finished_before: Moment, now: Moment, limit: int = 1000) -> int:
    """How many jobs of the queue were removed. Remembered ids whose day is over go, too."""
    removed = store.prune(Retention({queue: finished_before}), now, limit).jobs
    assert removed is not None
    return removed


def forget(store: Store, now: Moment) -> None:
    """Remembered ids whose day is over go; no queue is pruned."""
    store.prune(Retention({}), now, 1000)
