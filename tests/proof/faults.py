"""Ports wrapped with faults. What befalls which call is up to a `Plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from oncue.core.errors import SinkDown, StoreUnavailable
from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.ports.sink import Refusal, Sink
from oncue.ports.store import Awaited, Listener, Store
from tests.proof.plan import Fault, Plan
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")

Pause = Callable[[float], object]
"""Lets that many seconds pass: advances a fake clock, or sleeps."""

Rival = Callable[[Call], Callable[[], object] | None]
"""Another actor. Given a call about to be made, it answers with something to do first by which that
call loses a race, or None if it has no part in such a call."""

STALE_READS = frozenset({"get", "history", "page", "live_claims", "leases", "next_due", "stats"})
READS = STALE_READS | {"queues", "interruptions"}
BATCHES = frozenset(
    {"insert", "change", "touch", "settle", "reclaim", "advance", "publish", "admit"}
)
ANY_CALL = frozenset({Fault.FAIL, Fault.TIMEOUT, Fault.THROTTLE, Fault.DELAY})


class FaultyStore(WrappedStore):
    """A store in trouble.

    DELAY needs a `pause`, CONFLICT a `rival`, STALE an earlier answer to the same question and a
    write since; where it is missing, the call goes well and nothing counts as fired. A notice to a
    watcher that meets FAIL is lost.
    """

    def __init__(
        self,
        store: Store,
        plan: Plan,
        *,
        pause: Pause | None = None,
        pause_seconds: float = 5.0,
        rival: Rival | None = None,
    ) -> None:
        super().__init__(store)
        self._plan = plan
        self._pause = pause
        self._pause_seconds = pause_seconds
        self._rival = rival
        self._writes = 0
        self._answers: dict[tuple[str, str], tuple[int, object]] = {}

    def during(self, call: Call, go: Callable[[], T]) -> T:
        return self._read(call, go) if call.method in READS else self._write(call, go)

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        def tell(queue: str | None, due_at: Moment) -> None:
            if self._plan.draw("watch", {Fault.FAIL}) is None:
                listener(queue, due_at)

        return self.store.watch(tell, queues)

    def _read(self, call: Call, go: Callable[[], T]) -> T:
        question = _question(call)
        then, earlier = self._answers.get(question, (self._writes, None))
        possible = self._possible()
        if call.method in STALE_READS and then < self._writes:
            possible.add(Fault.STALE)
        fault = self._plan.draw(call.method, possible)
        if fault is Fault.STALE:
            return cast(T, earlier)
        answer = self._meet(fault, call, go)
        if Fault.STALE in self._plan.rates:
            self._answers[question] = (self._writes, answer)
        return answer

    def _write(self, call: Call, go: Callable[[], T]) -> T:
        move = self._rival(call) if self._rival else None
        possible = self._possible() | ({Fault.CONFLICT} if move else set())
        if call.method in BATCHES and len(call.args[0]) > 1:
            possible.add(Fault.HALF_DOWN)
        fault = self._plan.draw(call.method, possible)
        if Fault.STALE in self._plan.rates:
            self._remember(call)
        if fault is Fault.CONFLICT and move:
            move()
        try:
            return self._meet(fault, call, go)
        finally:
            self._writes += 1

    def _possible(self) -> set[Fault]:
        return set(ANY_CALL) - (set() if self._pause else {Fault.DELAY})

    def _meet(self, fault: Fault | None, call: Call, go: Callable[[], T]) -> T:
        if fault is Fault.FAIL or fault is Fault.THROTTLE:
            raise _trouble(call.method, fault)
        if fault is Fault.HALF_DOWN:
            batch, *rest = call.args
            part = self._plan.part(batch)
            getattr(self.store, call.method)(part, *rest, **call.kwargs)
            raise _trouble(call.method, fault)
        if fault is Fault.DELAY and self._pause:
            return slowly(go, self._plan, self._pause, self._pause_seconds)
        answer = go()
        if fault is Fault.TIMEOUT:
            raise _trouble(call.method, fault)
        return answer

    def _remember(self, call: Call) -> None:
        for job_id in _jobs_named(call):
            now = self.store.get(job_id)
            self._answers[_question(Call("get", (job_id,), {}))] = (self._writes, now)


class FaultySink:
    """A sink in trouble. A time-out means here: all was taken, and `SinkDown` is raised."""

    def __init__(
        self,
        sink: Sink,
        plan: Plan,
        *,
        pause: Pause | None = None,
        pause_seconds: float = 5.0,
        retry_after_seconds: float = 2.0,
    ) -> None:
        self.sink = sink
        self._plan = plan
        self._pause = pause
        self._pause_seconds = pause_seconds
        self._retry_after_seconds = retry_after_seconds

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        fault = self._plan.draw("deliver", self._possible(batch))
        half = len(batch) // 2
        match fault:
            case Fault.FAIL:
                raise SinkDown(f"deliver {fault}")
            case Fault.THROTTLE:
                raise SinkDown(f"deliver {fault}", self._retry_after_seconds)
            case Fault.TIMEOUT:
                self.sink.deliver(queue, batch)
                raise SinkDown(f"deliver {fault}")
            case Fault.HALF_DOWN:
                self.sink.deliver(queue, batch[:half])
                raise SinkDown(f"deliver {fault}")
            case Fault.HALF_REFUSED:
                taken = self.sink.deliver(queue, batch[:half])
                rest = range(half, len(batch))
                return {**taken, **dict.fromkeys(rest, Refusal(f"deliver {fault}", False))}
            case Fault.DELAY if self._pause:
                go = partial(self.sink.deliver, queue, batch)
                return slowly(go, self._plan, self._pause, self._pause_seconds)
        return self.sink.deliver(queue, batch)

    def close(self) -> None:
        self.sink.close()

    def _possible(self, batch: Sequence[Delivery]) -> set[Fault]:
        possible = set(ANY_CALL) - (set() if self._pause else {Fault.DELAY})
        if len(batch) > 1:
            possible |= {Fault.HALF_REFUSED, Fault.HALF_DOWN}
        return possible


def slowly(go: Callable[[], T], plan: Plan, pause: Pause, seconds: float) -> T:
    """Slow to be reached, or slow to answer: for a lease these are two different things."""
    if plan.heads():
        pause(seconds)
        return go()
    answer = go()
    pause(seconds)
    return answer


def _trouble(method: str, fault: Fault) -> StoreUnavailable:
    return StoreUnavailable(f"{method} {fault}")


def _question(call: Call) -> tuple[str, str]:
    """What was asked, whenever it was asked: filters of claims name moments."""
    args = call.args
    if call.method == "live_claims":
        args = (args[0].job_id, *args[1:])
    return call.method, repr((args, sorted(call.kwargs.items())))


def _jobs_named(call: Call) -> list[str]:
    first = call.args[0] if call.args else None
    match call.method:
        case "insert" | "touch" | "settle":
            return [one.id for one in cast("Sequence[Any]", first)]
        case "reclaim":
            return [lapse.id for lapse, _ in cast("Sequence[Any]", first)]
        case "change":
            return list(cast("Sequence[str]", first))
        case "put_operation":
            return [str(first)]
    return []


if TYPE_CHECKING:
    _a_store: type[Store] = FaultyStore
    _a_sink: type[Sink] = FaultySink
