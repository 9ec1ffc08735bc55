"""Whether some process does the work of a store, as far as its nodes tell. For people: each trouble
comes with the next step.

Workers over HTTP are not nodes. So it is only a guess that a pulled queue has no worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncue.core.duration import spoken
from oncue.core.moment import Moment
from oncue.core.nodes import NodeReport
from oncue.core.queue import Queue
from oncue.core.schedule import Overlap, Schedule

LATE_SECONDS = 60.0
START_LOOPS = "Start 'oncue serve', or a program that calls work()."


class Trouble(NamedTuple):
    text: str
    todo: str


def overdue_seconds(schedule: Schedule, now: Moment) -> float:
    """For how long no process has decided on the schedule's next occurrence. 0 while it waits for
    the end of the job before; over HTTP it is not known whether it does."""
    next_at, wake_at = schedule.progress.next_at, schedule.progress.wake_at
    if schedule.paused or next_at is None:
        return 0.0
    if schedule.overlap is Overlap.QUEUE and wake_at is None:
        return 0.0
    return max(0, now - max(next_at, wake_at or 0)) / 1000


def schedule_troubles(
    schedules: Iterable[Schedule], nodes: Sequence[NodeReport], now: Moment
) -> list[Trouble]:
    """One at most: if one schedule waits, usually all do, for the same reason."""
    overdue = [(overdue_seconds(one, now), one.name) for one in schedules]
    overdue = sorted((one for one in overdue if one[0] >= LATE_SECONDS), reverse=True)
    if not overdue:
        return []
    longest, name = overdue[0]
    which = f"schedule {name} is" if len(overdue) == 1 else f"{len(overdue):,} schedules are up to"
    text = f"{which} {spoken(longest)} overdue"
    if nodes and not any(node.engine for node in nodes):
        text = f"{text}, and no process runs the loops: {_named(nodes)} was started without them."
        return [Trouble(text, START_LOOPS)]
    if not nodes:
        return [Trouble(f"{text}, and nobody is running 'oncue serve' or work().", START_LOOPS)]
    text = f"{text}, although {_named(node for node in nodes if node.engine)} runs the loops."
    return [Trouble(text, "Look at its log, which says what it waits for.")]


def late_trouble(queue: Queue, late_seconds: float, nodes: Sequence[NodeReport]) -> Trouble:
    """A queue has had due work for so long: why, as far as the nodes tell."""
    text = f"queue {queue.name} has work that is {spoken(late_seconds)} late"
    if queue.sink is None:
        at_work = [node for node in nodes if queue.name in node.works]
        if at_work:
            return Trouble(
                f"{text}, although {_named(at_work)} works on it.", "Start more workers."
            )
        return Trouble(
            f"{text}, and no worker is seen that works on it.",
            "Start 'oncue worker MODULE:SCHEDULER'. Workers over HTTP are not seen here: if you "
            "have some, start more of them.",
        )
    delivering = [node for node in nodes if queue.name in node.dispatches]
    if delivering:
        text = f"{text}, although {_named(delivering)} delivers it."
        return Trouble(text, "See whether its sink takes what it is given.")
    engines = [node for node in nodes if node.engine]
    if engines:
        text = f"{text}, and {_named(engines)} runs the loops but does not deliver it."
        return Trouble(text, "Look at its log, which says why the sink cannot be opened.")
    return Trouble(f"{text}, and no process delivers it.", START_LOOPS)


def version_troubles(nodes: Sequence[NodeReport], version: str) -> list[Trouble]:
    return [
        Trouble(
            f"{node.id} has version {node.version}, here is {version}.",
            "Install the same version everywhere, then start it again.",
        )
        for node in nodes
        if node.version != version
    ]


def _named(nodes: Iterable[NodeReport]) -> str:
    first, *others = [node.id for node in nodes]
    return f"{first} (and {len(others):,} more)" if others else first
