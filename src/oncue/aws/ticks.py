"""`oncue.aws.dispatch`: the function that EventBridge invokes every minute.

It delivers what is due, and what is due before the next minute to queues that can delay messages.
It is one tick of the engine (`engine/tick.py`), so it also reclaims, and makes the jobs of
schedules. A tick that is doubled, late, missing or cut off loses nothing: the next one goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from oncue.aws import metrics, sandbox
from oncue.aws.sandbox import Context, Event
from oncue.core import moment
from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.ports.inbox import Inbox
from oncue.telemetry.counters import Totals

TICK_SECONDS = 60.0
MARGIN_MS = 10_000
"""Of the function's time: what is under way is finished in it, and nothing is begun."""


def dispatch(event: Event, context: Context) -> Mapping[str, Any]:
    """Handle the event of a rule of EventBridge: `time` is the moment for which it was made."""
    return run(context, around=_time_of(event))


def run(
    context: Context,
    *,
    around: Moment | None = None,
    only: Collection[str] | None = None,
    tick_seconds: float = TICK_SECONDS,
    ahead_seconds: float | None = None,
) -> Event:
    """One tick, within the time of the function. What it came to. `only`: of these queues. The
    others are as of an `Engine`."""
    cue = sandbox.scheduler()
    node = Node.of(cue.store, cue.clock)  # so that what it counts is of this tick alone
    engine = Engine(node, sandbox.open_sink, None, tick_seconds, ahead_seconds)
    inbox: Inbox | None = getattr(cue.store, "inbox", None)
    before = 0 if inbox is None else inbox.set_aside
    margin_ms = min(MARGIN_MS, context.get_remaining_time_in_millis() // 3)
    was_cut = False

    def is_over() -> bool:
        nonlocal was_cut
        was_cut = context.get_remaining_time_in_millis() <= margin_ms
        return was_cut

    try:
        engine.tick(is_over, around=around, only=only)
    finally:
        totals = node.telemetry.totals()
        malformed = 0 if inbox is None else inbox.set_aside - before
        _tell(context.function_name, totals, malformed, cue.clock.now())
    return {**_summary(totals), "time_over": was_cut}


def _time_of(event: Event) -> Moment | None:
    time = event.get("time") if isinstance(event, Mapping) else None
    if time is None:
        return None
    if not isinstance(time, str):
        raise InvalidInput("must be a time such as 2022-01-24T11:51:18Z.", "/time")
    return moment.parse(time, "/time")


def _summary(totals: Totals) -> dict[str, Any]:
    queues = {name: dict(queue.deliveries) for name, queue in totals.queues.items()}
    return {"queues": queues, "reclaimed": dict(totals.reclaimed)}


def _tell(function: str, totals: Totals, malformed: int, now: Moment) -> None:
    """What was done, as metrics: of each queue, and of the function. `malformed`: items of the
    inbox that were set aside."""
    for name, queue in totals.queues.items():
        deliveries, late = queue.deliveries, queue.lateness_ms
        values: dict[str, metrics.Value] = {
            "delivered": deliveries["delivered"],
            "set_aside": deliveries["failed"],
            "put_off": deliveries["refused"],
            "not_delivered": deliveries["down"],
        }
        if sum(late.counts):
            shares = (0.5, 0.9, 0.99, 1.0)
            values["lateness"] = [round(late.quantile(share), 1) for share in shares]
        metrics.emit({"function": function, "queue": name}, values, now)
    done: dict[str, metrics.Value] = {
        "reclaimed": sum(totals.reclaimed.values()),
        "set_aside": malformed,
        "lost_races": totals.counts.get("fenced_writes", 0),
        "expired": totals.counts.get("expired", 0),
    }
    metrics.emit({"function": function}, done, now)
