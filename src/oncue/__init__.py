"""oncue: a durable scheduler for deferred work.

from oncue import Scheduler

cue = Scheduler("sqlite:///jobs.db")
cue.schedule({"to": "ada"}, queue="mail", delay=60)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncue.client import Client as Client
    from oncue.core.bulk import BulkOutcome as BulkOutcome
    from oncue.core.errors import AccessDenied as AccessDenied
    from oncue.core.errors import ClaimLost as ClaimLost
    from oncue.core.errors import Conflict as Conflict
    from oncue.core.errors import EventIdTaken as EventIdTaken
    from oncue.core.errors import Fenced as Fenced
    from oncue.core.errors import HeldByOthers as HeldByOthers
    from oncue.core.errors import IdTaken as IdTaken
    from oncue.core.errors import IllegalState as IllegalState
    from oncue.core.errors import InvalidInput as InvalidInput
    from oncue.core.errors import KeyTaken as KeyTaken
    from oncue.core.errors import NonRetryable as NonRetryable
    from oncue.core.errors import NotFound as NotFound
    from oncue.core.errors import NotSupported as NotSupported
    from oncue.core.errors import OncueError as OncueError
    from oncue.core.errors import ServerError as ServerError
    from oncue.core.errors import ServerUnavailable as ServerUnavailable
    from oncue.core.errors import ServerUnusable as ServerUnusable
    from oncue.core.errors import SinkDown as SinkDown
    from oncue.core.errors import SinkError as SinkError
    from oncue.core.errors import StoreError as StoreError
    from oncue.core.errors import StoreUnavailable as StoreUnavailable
    from oncue.core.errors import StoreUnusable as StoreUnusable
    from oncue.core.errors import TooLarge as TooLarge
    from oncue.core.event import Bounds as Bounds
    from oncue.core.event import Event as Event
    from oncue.core.firing import Decision as Decision
    from oncue.core.job import Attempt as Attempt
    from oncue.core.job import Claimed as Claimed
    from oncue.core.job import Diagnostic as Diagnostic
    from oncue.core.job import History as History
    from oncue.core.job import Job as Job
    from oncue.core.job import JobFilter as JobFilter
    from oncue.core.job import Operation as Operation
    from oncue.core.lifecycle import State as State
    from oncue.core.nodes import NodeReport as NodeReport
    from oncue.core.operations import OperationLimits as OperationLimits
    from oncue.core.publication import EventFilter as EventFilter
    from oncue.core.publication import LoggedEvent as LoggedEvent
    from oncue.core.publication import Published as Published
    from oncue.core.queue import Queue as Queue
    from oncue.core.queue import RetryPolicy as RetryPolicy
    from oncue.core.reclaim import ReclaimReport as ReclaimReport
    from oncue.core.recurrence import Outcome as Outcome
    from oncue.core.rule import Dependency as Dependency
    from oncue.core.rule import Rule as Rule
    from oncue.core.runs import Run as Run
    from oncue.core.schedule import Schedule as Schedule
    from oncue.core.standing import Standing as Standing
    from oncue.scheduler import Scheduler as Scheduler
    from oncue.usecases.storing import Tally as Tally
    from oncue.worker.job import HandledJob as HandledJob

__version__ = "0.1.0"

# Names are imported when they are first used, so that the program on the terminal starts at once.
_NAMES = {
    "client": "Client",
    "core.bulk": "BulkOutcome",
    "core.errors": (
        "AccessDenied ClaimLost Conflict EventIdTaken Fenced HeldByOthers IdTaken IllegalState "
        "InvalidInput KeyTaken NonRetryable NotFound NotSupported OncueError ServerError "
        "ServerUnavailable ServerUnusable SinkDown SinkError StoreError StoreUnavailable "
        "StoreUnusable TooLarge"
    ),
    "core.event": "Bounds Event",
    "core.firing": "Decision",
    "core.job": "Attempt Claimed Diagnostic History Job JobFilter Operation",
    "core.lifecycle": "State",
    "core.nodes": "NodeReport",
    "core.operations": "OperationLimits",
    "core.publication": "EventFilter LoggedEvent Published",
    "core.queue": "Queue RetryPolicy",
    "core.reclaim": "ReclaimReport",
    "core.recurrence": "Outcome",
    "core.rule": "Dependency Rule",
    "core.runs": "Run",
    "core.schedule": "Schedule",
    "core.standing": "Standing",
    "scheduler": "Scheduler",
    "usecases.storing": "Tally",
    "worker.job": "HandledJob",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
