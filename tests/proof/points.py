"""Named points at which a process kills or stops itself, for tests with real processes.

ONCUE_TEST_KILL="after-claim:3" sends SIGKILL to the process when that point is reached for the
third time; "stop:after-claim:3" sends SIGSTOP instead. Several are separated by commas. The points
are in wrappers around the ports, never in the product. An empty claim reaches nothing: a death
there would prove nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from oncue.core.job import Delivery
from oncue.ports.sink import Refusal, Sink
from oncue.ports.store import Store
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")

VARIABLE = "ONCUE_TEST_KILL"
MID_BATCH = "mid-batch"
AFTER_DELIVER = "after-deliver-before-settle"
BEFORE = {"insert": "before-insert-commit", "publish": "before-publish-commit"}
AFTER = {
    "insert": "after-insert-commit",
    "claim": "after-claim",
    "claim_range": "after-claim-range",
    "settle": "after-settle",
    "settle_range": "after-settle",
    "touch": "after-touch",
    "reclaim": "after-reclaim",
    "publish": "after-publish-commit",
}
POINTS = frozenset({*BEFORE.values(), *AFTER.values(), MID_BATCH, AFTER_DELIVER})
OF_EVENTS = frozenset({BEFORE["publish"], AFTER["publish"]})
"""Only whoever publishes events comes by these."""

Strike = Callable[[signal.Signals], None]


def _strike_myself(with_signal: signal.Signals) -> None:
    os.kill(os.getpid(), with_signal)


class Points:
    """Counts how often each point was reached and strikes when it is time."""

    def __init__(self, orders: str, strike: Strike = _strike_myself) -> None:
        self.reached: Counter[str] = Counter()
        self._orders = dict(_order(order) for order in orders.split(",") if order)
        self._strike = strike
        self._lock = threading.Lock()

    def reach(self, point: str) -> None:
        with self._lock:
            self.reached[point] += 1
            with_signal = self._orders.get((point, self.reached[point]))
        if with_signal is not None:
            self._strike(with_signal)

    def heal(self) -> None:
        """Nothing happens at any point from here on."""
        self._orders = {}

    def awaits(self, point: str) -> bool:
        """Whether anything is to happen at that point."""
        return any(name == point for name, _ in self._orders)


def _order(text: str) -> tuple[tuple[str, int], signal.Signals]:
    """`name:count` or `stop:name:count`."""
    stop = text.startswith("stop:")
    name, _, count = text.removeprefix("stop:").partition(":")
    if name not in POINTS or not count.isdecimal() or int(count) < 1:
        known = ", ".join(sorted(POINTS))
        raise ValueError(f"{VARIABLE}: {text!r} is not [stop:]<point>:<count>, points: {known}")
    return (name, int(count)), signal.SIGSTOP if stop else signal.SIGKILL


FROM_ENVIRONMENT = Points(os.environ.get(VARIABLE, ""))


def reach(point: str) -> None:
    """Reach a point of this process's own orders."""
    FROM_ENVIRONMENT.reach(point)


class KillingStore(WrappedStore):
    """A store at whose calls the process may die."""

    def __init__(self, store: Store, points: Points = FROM_ENVIRONMENT) -> None:
        super().__init__(store)
        self._points = points

    def during(self, call: Call, go: Callable[[], T]) -> T:
        if call.method in BEFORE:
            self._points.reach(BEFORE[call.method])
        answer = go()
        if call.method in AFTER and _did_something(call, answer):
            self._points.reach(AFTER[call.method])
        return answer


class KillingSink:
    """A sink at which the process may die, in the middle of a batch or after it."""

    def __init__(self, sink: Sink, points: Points = FROM_ENVIRONMENT) -> None:
        self.sink = sink
        self._points = points

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        if len(batch) > 1 and self._points.awaits(MID_BATCH):
            refused = self._in_halves(queue, batch)
        else:
            refused = self.sink.deliver(queue, batch)
        self._points.reach(AFTER_DELIVER)
        return refused

    def close(self) -> None:
        self.sink.close()

    def _in_halves(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        half = len(batch) // 2
        first = self.sink.deliver(queue, batch[:half])
        self._points.reach(MID_BATCH)
        second = self.sink.deliver(queue, batch[half:])
        return {**first, **{half + place: why for place, why in second.items()}}


def _did_something(call: Call, answer: object) -> bool:
    match call.method:
        case "claim":
            return any(cast("list[Any]", answer))
        case "claim_range":
            return bool(getattr(answer, "jobs", ()))
        case "settle_range":
            return answer is True
    return not call.args or bool(call.args[0])


if TYPE_CHECKING:
    _a_store: type[Store] = KillingStore
    _a_sink: type[Sink] = KillingSink
