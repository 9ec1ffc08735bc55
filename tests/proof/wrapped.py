"""A store seen through a wrapper: every call of the port passes `during`, which may interfere.

The methods are attributes, so that each keeps the exact type it has in the port; a method that the
port gains and that is missing here fails the type check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, Store, StoreFacts

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """One call of a port's method, about to be made."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class WrappedStore:
    def __init__(self, store: Store) -> None:
        self.store = store
        # jobs
        self.insert = self._around(store.insert)
        self.get = self._around(store.get)
        self.history = self._around(store.history)
        self.page = self._around(store.page)
        self.note = self._around(store.note)
        self.change = self._around(store.change)
        # bulk
        self.find_all = self._around(store.find_all)
        # claims
        self.claim = self._around(store.claim)
        self.touch = self._around(store.touch)
        self.interruptions = self._around(store.interruptions)
        self.put_operation = self._around(store.put_operation)
        self.settle = self._around(store.settle)
        self.live_claims = self._around(store.live_claims)
        self.live_count = self._around(store.live_count)
        self.reclaim = self._around(store.reclaim)
        self.expire = self._around(store.expire)
        self.leases = self._around(store.leases)
        self.has_leases_astray = self._around(store.has_leases_astray)
        self.judge_leases = self._around(store.judge_leases)
        self.next_due = self._around(store.next_due)
        self.claim_range = self._around(store.claim_range)
        self.extend_range = self._around(store.extend_range)
        self.settle_range = self._around(store.settle_range)
        # queues
        self.queues = self._around(store.queues)
        self.put_queue = self._around(store.put_queue)
        self.stats = self._around(store.stats)
        self.due_counts = self._around(store.due_counts)
        self.prune = self._around(store.prune)
        self.delete_queue = self._around(store.delete_queue)
        # rules and events
        self.put_rule = self._around(store.put_rule)
        self.rule = self._around(store.rule)
        self.rules = self._around(store.rules)
        self.delete_rule = self._around(store.delete_rule)
        self.sightings = self._around(store.sightings)
        self.publish = self._around(store.publish)
        self.events = self._around(store.events)
        # schedules
        self.schedule = self._around(store.schedule)
        self.schedules = self._around(store.schedules)
        self.outcomes = self._around(store.outcomes)
        self.waking = self._around(store.waking)
        self.advance = self._around(store.advance)
        self.timed_otherwise = self._around(store.timed_otherwise)
        # nodes
        self.report_node = self._around(store.report_node)
        self.nodes = self._around(store.nodes)
        # transfer
        self.export = self._around(store.export)
        self.admit = self._around(store.admit)
        self.export_events = self._around(store.export_events)
        self.admit_rules = self._around(store.admit_rules)
        # access
        self.tokens = self._around(store.tokens)
        self.put_token = self._around(store.put_token)
        self.remove_token = self._around(store.remove_token)

    def during(self, call: Call, go: Callable[[], T]) -> T:
        """Make the call by `go()`, or not."""
        return go()

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self.store.watch(listener, queues)

    @property
    def clock(self) -> Clock:
        return self.store.clock

    @property
    def secret(self) -> bytes:
        return self.store.secret

    def describe(self) -> StoreFacts:
        return self.store.describe()

    def close(self) -> None:
        self.store.close()

    def _around(self, method: Callable[P, T]) -> Callable[P, T]:
        name = method.__name__

        @wraps(method)
        def around(*args: P.args, **kwargs: P.kwargs) -> T:
            return self.during(Call(name, args, kwargs), partial(method, *args, **kwargs))

        return around
