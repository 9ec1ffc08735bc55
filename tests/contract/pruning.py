"""One queue pruned: what the tests say often, said briefly."""

from __future__ import annotations

from oncue.core.job import JobFilter
from oncue.core.moment import Moment
from oncue.core.retention import Retention
from oncue.ports.store import Store

from .promises import listed


def prune(store: Store, queue: str, finished_before: Moment, now: Moment, limit: int = 1000) -> int:
    """How many jobs of the queue were removed. Remembered ids whose day is over go, too."""
    before = listed(store, JobFilter(queue))
    pruned = store.prune(Retention({queue: finished_before}), now, limit)
    gone = len(before) - len(listed(store, JobFilter(queue)))
    assert pruned.jobs in (gone, None)
    return gone


def forget(store: Store, now: Moment) -> None:
    """Remembered ids whose day is over go; no queue is pruned."""
    store.prune(Retention({}), now, 1000)
