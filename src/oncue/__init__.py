"""oncue: a durable scheduler for deferred work.

from oncue import Scheduler

cue = Scheduler("sqlite:///jobs.db")
cue.schedule({"to": "ada"}, queue="mail", delay=60)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.core.bulk import BulkOutcome
    from oncue.core.errors import (
        AccessDenied,
        ClaimLost,
        Conflict,
        EventIdTaken,
        Fenced,
        IdTaken,
        IllegalState,
        InvalidInput,
        KeyTaken,
        NonRetryable,
        NotFound,
        OncueError,
        ServerError,
        ServerUnavailable,
        ServerUnusable,
        SinkDown,
        SinkError,
        StoreError,
        StoreUnavailable,
        StoreUnusable,
        TooLarge,
    )
    from oncue.core.event import Bounds, Event
    from oncue.core.firing import Decision
    from oncue.core.job import Attempt, Claimed, Diagnostic, History, Job, Operation
    from oncue.core.lifecycle import State
    from oncue.core.publication import LoggedEvent, Published
    from oncue.core.queue import Queue, RetryPolicy
    from oncue.core.reclaim import ReclaimReport
    from oncue.core.recurrence import Outcome
    from oncue.core.rule import Dependency, Rule
    from oncue.core.runs import Run
    from oncue.core.schedule import Schedule
    from oncue.core.standing import Standing
    from oncue.handled import HandledJob
    from oncue.scheduler import Scheduler, Tally

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "Attempt",
    "Bounds",
    "BulkOutcome",
    "ClaimLost",
    "Claimed",
    "Client",
    "Conflict",
    "Decision",
    "Dependency",
    "Diagnostic",
    "Event",
    "EventIdTaken",
    "Fenced",
    "HandledJob",
    "History",
    "IdTaken",
    "IllegalState",
    "InvalidInput",
    "Job",
    "KeyTaken",
    "LoggedEvent",
    "NonRetryable",
    "NotFound",
    "OncueError",
    "Operation",
    "Outcome",
    "Published",
    "Queue",
    "ReclaimReport",
    "RetryPolicy",
    "Rule",
    "Run",
    "Schedule",
    "Scheduler",
    "ServerError",
    "ServerUnavailable",
    "ServerUnusable",
    "SinkDown",
    "SinkError",
    "Standing",
    "State",
    "StoreError",
    "StoreUnavailable",
    "StoreUnusable",
    "Tally",
    "TooLarge",
]

# Names are imported when they are first used, so that the program on the terminal starts at once.
_ELSEWHERE = {
    "BulkOutcome": "core.bulk",
    "Client": "client",
    "Scheduler": "scheduler",
    "Tally": "scheduler",
    "HandledJob": "handled",
    "Queue": "core.queue",
    "ReclaimReport": "core.reclaim",
    "RetryPolicy": "core.queue",
    "Outcome": "core.recurrence",
    "Run": "core.runs",
    "Schedule": "core.schedule",
    "State": "core.lifecycle",
    "Bounds": "core.event",
    "Event": "core.event",
    "Decision": "core.firing",
    "Dependency": "core.rule",
    "Rule": "core.rule",
    "LoggedEvent": "core.publication",
    "Published": "core.publication",
    "Standing": "core.standing",
    **dict.fromkeys(
        ("Attempt", "Claimed", "Diagnostic", "History", "Job", "Operation"), "core.job"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    place = _ELSEWHERE.get(name, "core.errors")
    value = globals()[name] = getattr(import_module(f"{__name__}.{place}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
