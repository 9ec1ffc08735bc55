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
    from oncue.core.job import Attempt, Claimed, Diagnostic, History, Job, Operation
    from oncue.core.lifecycle import State
    from oncue.core.queue import Queue, RetryPolicy
    from oncue.handled import HandledJob
    from oncue.scheduler import Scheduler, Tally

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "Attempt",
    "BulkOutcome",
    "ClaimLost",
    "Claimed",
    "Client",
    "Conflict",
    "Diagnostic",
    "Fenced",
    "HandledJob",
    "History",
    "IdTaken",
    "IllegalState",
    "InvalidInput",
    "Job",
    "KeyTaken",
    "NonRetryable",
    "NotFound",
    "OncueError",
    "Operation",
    "Queue",
    "RetryPolicy",
    "Scheduler",
    "ServerError",
    "ServerUnavailable",
    "ServerUnusable",
    "SinkDown",
    "SinkError",
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
    "RetryPolicy": "core.queue",
    "State": "core.lifecycle",
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
