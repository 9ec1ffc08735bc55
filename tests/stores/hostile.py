"""A store as the network will make it: slow, sharded, and exact only where the port promises it.

`HostileStore` around another store is calm: nothing fails. It takes its time; its pages are short,
or empty with a next; what has no promised order comes in any order; it tells an earlier moment to
look again; listeners are told twice, and late of what another node stored. Every choice is drawn
from a seed.

`stormy` adds the faults of `tests/proof/faults.py`: calls that fail before or after they were
applied, batches of which a part was applied, stale reads, notices that never come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from random import Random
from typing import TypeVar, cast

from oncue.clock import FakeClock
from oncue.core.cursor import Page
from oncue.core.moment import Moment
from oncue.ports.claims import ClaimFilter, Leases
from oncue.ports.store import Awaited, Listener, Store, StoreFacts
from oncue.stores.memory import MemoryStore
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan
from tests.stores.nodes import another_node
from tests.stores.port import METHODS
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")

NOTICE_SECONDS = 0.05
EARLY_MS = 50  # by so much at most is a moment to look again earlier than the true one
PAGED = frozenset({"page", "find_all", "live_claims", "events", "export", "export_events"})
UNORDERED = frozenset({"find_all", "export"})
EMPTY = "="  # before the `next` of a page that was empty; nothing else begins with it
LIMIT_AT = {
    name: list(signature(getattr(MemoryStore, name)).parameters).index("limit") - 1
    for name in PAGED
}
STORM = {
    Fault.FAIL: 0.02,
    Fault.TIMEOUT: 0.04,
    Fault.THROTTLE: 0.02,
    Fault.HALF_DOWN: 0.04,
    Fault.STALE: 0.04,
}


class HostileStore(WrappedStore):
    """`latency` is called at every call: it sleeps, or moves a fake clock; None: calls take no
    time."""

    def __init__(
        self, store: Store, *, seed: int = 0, latency: Callable[[], object] | None = None
    ) -> None:
        super().__init__(store)
        self._seed = seed
        self._random = Random(seed)
        self._latency = latency
        self.traits = store.traits._replace(
            notice_seconds=store.traits.notice_seconds + NOTICE_SECONDS,
            is_remote=latency is not None,
            groups=4,
        )
        self._thread = threading.local()
        self._late: list[tuple[float, Callable[[], None]]] = []
        self._timers: list[threading.Timer] = []

    def another_node(self) -> HostileStore:
        return HostileStore(another_node(self.store), seed=self._seed + 1, latency=self._latency)

    def during(self, call: Call, go: Callable[[], T]) -> T:
        self._tell_late()
        if self._latency is not None:
            self._latency()
        outer, self._thread.acting = getattr(self._thread, "acting", False), True
        try:
            if call.method in PAGED:
                return cast(T, self._page(call))
            return cast(T, self._blurred(call, go()))
        finally:
            self._thread.acting = outer

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        def tell(queue: str | None, due_at: Moment) -> None:
            if getattr(self._thread, "acting", False):
                listener(queue, due_at)
                listener(queue, due_at)
            else:
                self._later(partial(listener, queue, due_at))

        return self.store.watch(tell, queues)

    def describe(self) -> StoreFacts:
        facts = self.store.describe()
        return facts._replace(kind="hostile", details={**facts.details, "kind": "hostile"})

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self.store.close()

    def _page(self, call: Call) -> Page[object]:
        """A part of what was asked for, or nothing yet."""
        place = LIMIT_AT[call.method]
        *asked, after, limit = call.args[: place + 1]
        begun = after is not None and after.startswith(EMPTY)
        start = (after.removeprefix(EMPTY) or None) if begun else after
        few = self._random.randint(1, limit)
        page: Page[object] = getattr(self.store, call.method)(*asked, start, few)
        if not begun and self._random.random() < 0.2:
            return Page([], EMPTY + (start or ""))
        if call.method in UNORDERED or _in_any_order(call):
            self._random.shuffle(page.items)
        return page

    def _blurred(self, call: Call, answer: object) -> object:
        if call.method == "next_due" and not self._rated(call.args[0]):
            return self._earlier(cast("Moment | None", answer))
        if call.method == "leases":
            leases = cast(Leases, answer)
            return leases._replace(next_lapse=self._earlier(leases.next_lapse))
        return answer

    def _rated(self, queues: Sequence[str]) -> bool:
        """Whether one of them has a rate: nobody is told a moment before it allows one more."""
        return any(one.rate_per_second for one in self.store.queues() if one.name in queues)

    def _earlier(self, moment: Moment | None) -> Moment | None:
        """Some moment before that, but not one that has passed: that would never end."""
        if moment is None:
            return None
        return min(moment, max(moment - self._random.randrange(EARLY_MS), self.clock.now() + 1))

    def _later(self, tell: Callable[[], None]) -> None:
        """Whoever waits for a fake clock is told by the next call after it has moved."""
        seconds = self._random.uniform(0, NOTICE_SECONDS)
        if isinstance(self.clock, FakeClock):
            self._late.append((self.clock.monotonic() + seconds, tell))
            return
        timer = threading.Timer(seconds, tell)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _tell_late(self) -> None:
        now = self.clock.monotonic()
        due = [tell for at, tell in self._late if at <= now]
        self._late = [(at, tell) for at, tell in self._late if at > now]
        for tell in due:
            tell()


def stormy(
    store: Store, seed: int, *, latency: Callable[[], object] | None = None, after_n: int = 0
) -> FaultyStore:
    """The store in trouble, after its first calls."""
    plan = Plan(seed, STORM, after_n=after_n)
    return FaultyStore(HostileStore(store, seed=seed, latency=latency), plan)


def _in_any_order(call: Call) -> bool:
    wanted = call.args[0] if call.method == "live_claims" else None
    return isinstance(wanted, ClaimFilter) and wanted.lapsed_by is None


assert METHODS >= PAGED
