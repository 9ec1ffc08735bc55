"""Parameters of routes: in the path, in the query and in headers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from oncue.api.paging import LIMIT
from oncue.api.routes.jobs import KEY_LENGTH
from oncue.core.cursor import MOST_ITEMS
from oncue.core.firing import Decision
from oncue.usecases.schedules import RUNS_LIMIT
from oncue.usecases.tasks import STATUSES
from oncue.wire import formats
from oncue.wire.rules import Stamp

ID = "019a8a1b6f3c4d2e8a01f5b7c9d2e7d0"
NOON = "2026-12-01T12:00:00.000Z"
_AFTER = "The `next_cursor` of the previous page."


class Parameter(NamedTuple):
    """The meaning of a parameter, its type, and an example."""

    text: str
    shape: Any
    example: Any


def _text(pattern: str, **schema: Any) -> Any:
    return Annotated[str, Meta(extra_json_schema={"pattern": pattern, **schema})]


PATH = {
    "id": Parameter("The id of the job.", formats.AnyJobId, ID),
    "queue": Parameter("The name of the queue.", formats.QueueName, "mail"),
    "name": Parameter("The name of the step.", formats.QueueName, "charge"),
    "rule": Parameter("The name of the rule.", formats.Label, "hourly load"),
    "schedule": Parameter("The name of the schedule.", formats.QueueName, "nightly"),
    "userId": Parameter("The user of the tasks.", formats.Label, "ada"),
    "requestId": Parameter("The id of the task.", formats.AnyJobId, ID),
    "kind": Parameter("The last part of a problem's `type`.", formats.AnyJobId, "fenced"),
}


def _opaque(noun: str, example: str) -> Parameter:
    return Parameter(_AFTER, _text("^[A-Za-z0-9_=-]+$", format=f"{noun}-cursor"), example)


_BY_NAME = Parameter(_AFTER, formats.QueueName, "nightly")
QUERY = {
    "queue": Parameter("Only of this queue.", formats.QueueName, "mail"),
    "state": Parameter("Only in this state.", formats.States, "scheduled"),
    "status": Parameter(
        "Only with this status, in capitals or not.",
        _text(formats.any_case(*STATUSES)),
        "STARTED",
    ),
    "owner": Parameter("Only of this owner.", formats.Label, "ada"),
    "key": Parameter("Only with this key.", formats.Label, "order-1001"),
    "due_after": Parameter("Due at this moment or later.", formats.Moment, NOON),
    "due_before": Parameter("Due before this moment.", formats.Moment, "2026-12-02T00:00:00Z"),
    "limit": Parameter(
        f"The size of a page; {LIMIT} if left out.", Annotated[int, Meta(ge=1, le=MOST_ITEMS)], 20
    ),
    "cursor": _opaque("job", "WzE3OTYxMjY0MDAwMDAsImFiYyJd"),
    "/jobs/{id}/operations cursor": _opaque("operation", "500"),
    "/rules cursor": _opaque("rule", "WyJob3VybHkgbG9hZCJd"),
    "/events cursor": _opaque("event", "4711"),
    "/queues cursor": _BY_NAME,
    "/schedules cursor": _BY_NAME,
    "running": Parameter(
        "Ask the worker of a taken job to stop; false if left out.",
        Literal["true", "false"],
        "true",
    ),
    "from": Parameter("Where to begin; now if left out.", formats.Moment, NOON),
    "until": Parameter(
        "Where to end; an hour later if left out.", formats.Moment, "2026-12-01T13:00:00Z"
    ),
    "step_seconds": Parameter(
        "How long a step is; a minute if left out.",
        Annotated[float, Meta(ge=0.001, le=formats.LONGEST)],
        60,
    ),
    "count": Parameter("How many; 20 if left out.", Annotated[int, Meta(ge=1, le=RUNS_LIMIT)], 20),
    "at": Parameter("The time; now if left out.", Stamp, "2021-01-01 13:30:00"),
    "rule": Parameter("Only decisions of this rule.", formats.Label, "hourly load"),
    "decision": Parameter("Only events with this decision.", Decision, "ACCEPTED"),
}
"""By name; where the same name means something else in one path, by path and name."""
HEADERS = {
    "Idempotency-Key": Parameter(
        "Makes repeating the request harmless: the same key with the same body gives the first "
        "answer again. Remembered for at least a day.",
        _text("^[!-~]([ -~]*[!-~])?$", minLength=1, maxLength=KEY_LENGTH),
        "order-1001-mail",
    ),
    "If-Match": Parameter(
        "The `ETag` of the answer that was seen; or send its `updatedTime` in the body.",
        str,
        '"2f8a41d09c7be653a1f04d27"',
    ),
}
