"""A store that cannot do what some stores cannot: count, list everything, or say what it pruned."""

from __future__ import annotations

from typing import Any, cast, get_args

from oncue.core.bulk import BulkChange
from oncue.core.cursor import Cursor
from oncue.core.job import JobFilter, JobPage
from oncue.core.lacks import Lack, refuse_all_events, refuse_all_jobs, uncounted
from oncue.core.moment import Moment
from oncue.core.publication import EventFilter, EventPage
from oncue.core.queue import QueueStats
from oncue.core.retention import Pruned, Retention
from oncue.ports.bulk import BulkFound
from oncue.ports.store import Store, Traits
from tests.stores.nodes import another_node

EVERY_LACK: frozenset[Lack] = frozenset(get_args(Lack))


def lacking(store: Store, lacks: frozenset[Lack] = EVERY_LACK) -> Store:
    """The store, without what it is to lack. All else is as before."""
    return cast(Store, _Lacking(store, lacks))


class _Lacking:
    def __init__(self, store: Store, lacks: frozenset[Lack]) -> None:
        self.store = store
        self.lacks = lacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def another_node(self) -> Store:
        return lacking(another_node(self.store), self.lacks)

    @property
    def traits(self) -> Traits:
        traits = self.store.traits
        return traits._replace(lacks=traits.lacks | self.lacks)

    def stats(self, name: str) -> QueueStats:
        known = self.store.stats(name)
        return QueueStats({}, None) if "counts" in self.lacks else known

    def due_counts(self, name: str, start: Moment, until: Moment, step_ms: int) -> Any:
        if "counts" in self.lacks:
            raise uncounted()
        return self.store.due_counts(name, start, until, step_ms)

    def live_count(self) -> int | None:
        return None if "counts" in self.lacks else self.store.live_count()

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        if "all-jobs" in self.lacks:
            refuse_all_jobs(wanted)
        return self.store.page(wanted, after, limit)

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        if "all-jobs" in self.lacks:
            refuse_all_jobs(wanted)
        return self.store.find_all(change, wanted, after, limit)

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        if "all-events" in self.lacks:
            refuse_all_events(wanted)
        return self.store.events(wanted, after, limit)

    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        pruned = self.store.prune(kept, now, limit)
        return pruned._replace(jobs=None) if "prune-counts" in self.lacks else pruned
