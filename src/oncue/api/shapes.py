"""What bodies must look like: read strictly, and described in `/openapi.json`.

`NewJob` and `NewTask` are only described here; `intake` reads them, many thousands a second.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET as UNSET  # re-exported: members that were not sent
from msgspec import Meta, Struct, UnsetType

from oncue.core.queue import CONCURRENCY_CAP, MAX_ATTEMPTS_CAP, POISON_CAP, RATE_CAP
from oncue.wire.formats import (
    LONGEST,
    NO_NUL,
    AnyJobId,
    Attempts,
    Delay,
    JobId,
    Json,
    Label,
    Lease,
    Line,
    Moment,
    Percent,
    Priority,
    QueueName,
    Timeout,
    Token,
    Wait,
    said,
)

Rate = Annotated[
    float,
    said("Jobs handed over a second, at most.", exclusiveMinimum=0, maximum=RATE_CAP),
]
# Whole numbers are read as any JSON: core then says within which bounds they must be, also of what
# is no number at all.
MaxAttempts = Annotated[
    Any, said("How often a job is tried.", type="integer", minimum=1, maximum=MAX_ATTEMPTS_CAP)
]
Concurrency = Annotated[
    Any,
    said(
        "Jobs taken at the same time, at most.",
        type=["integer", "null"],
        minimum=1,
        maximum=CONCURRENCY_CAP,
    ),
]
PoisonAfter = Annotated[
    Any,
    said(
        "Lost claims that had started, with no operation finished in between, after which a job "
        "fails as poison; 0: never.",
        type="integer",
        minimum=0,
        maximum=POISON_CAP,
    ),
]
Sink = Annotated[
    str,
    said(
        "Where jobs are delivered: `log:`. Null: workers claim them.",
        pattern="^(log:|memory:[^\\u0000]+)$",
    ),
]
Pause = Annotated[float, said("Seconds.", minimum=0, maximum=LONGEST)]
RetryAfter = Annotated[
    Delay | None, Meta(description="When it is tried again, from now; null: by the queue's retry.")
]


class Body(Struct, forbid_unknown_fields=True):
    """A request's body: members it does not know are refused."""


class NewJob(Body):
    """A job to be. Every member may be left out; null says the same."""

    payload: Annotated[Json, Meta(description="What the job is about.")] = None
    queue: Annotated[QueueName | None, Meta(description="Where it waits.")] = "default"
    due_at: Annotated[
        Moment | None,
        Meta(
            description="From when on it may be handed over: RFC 3339 with an offset, at most 100 "
            "years ahead. The past means now."
        ),
    ] = None
    delay: Annotated[
        Delay | None, Meta(description="The same, counted from now: seconds, or such as PT15M.")
    ] = None
    expires_at: Annotated[
        Moment | None, Meta(description="When it is cancelled if nobody has taken it.")
    ] = None
    owner: Annotated[Label | None, Meta(description="Whose it is.")] = None
    priority: Annotated[Priority | None, Meta(description="Higher goes first.")] = 0
    key: Annotated[
        Label | None, Meta(description="At most one unfinished job of a queue has it.")
    ] = None
    if_exists: Annotated[
        Literal["keep", "replace"] | None,
        Meta(description="What happens to the unfinished job that has the key."),
    ] = "keep"
    max_attempts: Annotated[
        Attempts | None, Meta(description="How often it may be tried; null: as its queue says.")
    ] = None
    timeout_seconds: Annotated[
        Timeout | None,
        Meta(description="How long an attempt may take; null: as its queue says."),
    ] = None
    id: Annotated[
        JobId | None,
        Meta(
            description="1 to 80 letters, digits, `_` or `-`, beginning with a letter or digit; "
            "null: the server makes one."
        ),
    ] = None


class NewTask(Struct):
    """A task to be: whose, and when. All other members are its content."""

    userId: Annotated[Label | int, said("Whose task it is. A number becomes text.")]
    dueDate: (
        Annotated[
            str,
            said(
                "The day on which it is due, from 00:00 UTC. The past means at once.",
                format="date",
                pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            ),
        ]
        | None
    ) = None
    afterDays: Annotated[int, said("Days from today in UTC.", minimum=0, maximum=36_500)] | None = (
        None
    )


class Patch(Body):
    """What is to change; what is left out stays."""

    due_at: Moment | None = None
    delay: Delay | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    payload: Json | UnsetType = UNSET


class Claim(Body):
    """How much work to take, for whom and for how long."""

    limit: Annotated[int, Meta(ge=1, le=5000, description="Jobs to take, at most.")] = 1
    lease_seconds: Annotated[
        Lease | None,
        Meta(description="How long the worker may be silent; null: as the queue says."),
    ] = None
    wait_seconds: Annotated[
        Wait, Meta(description="How long to wait for the first due job, at most 300 seconds.")
    ] = 0.0
    worker: Annotated[
        Label, Meta(min_length=1, max_length=200, description="Who takes them, for people.")
    ] = "worker"


class ClaimAny(Claim, kw_only=True):
    """The same for several queues, which take turns."""

    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=100)]


class Start(Body):
    """The proof of the claim."""

    token: Token


class Heartbeat(Body):
    """A sign of life. Without `lease_seconds` the lease is renewed as the queue says."""

    token: Token
    message: Line | None = None
    percent: Percent | None = None
    lease_seconds: Annotated[
        Lease | None, Meta(description="From now on; null: as the queue says.")
    ] = None


class HeartbeatItem(Heartbeat, kw_only=True):
    """A sign of life for one of many jobs."""

    id: AnyJobId


class Heartbeats(Body):
    """Signs of life for many jobs."""

    items: Annotated[list[HeartbeatItem], Meta(max_length=1000)]


class OperationReport(Body):
    """How far one step is. Until it succeeds, its result is replaced by later ones, and a report
    without one keeps it. The result of a success is final."""

    token: Token
    state: Literal["executing", "succeeded", "failed"]
    result: Json = None
    percent: Percent | None = None
    message: Line | None = None


class Complete(Body):
    """Without a token, only an administrator is believed."""

    token: Token | None = None
    result: Json = None


class Fail(Body):
    """What went wrong, and whether trying again makes sense."""

    token: Token
    error: str
    retryable: bool = True
    retry_after: RetryAfter = None


class Release(Body):
    """The proof of the claim."""

    token: Token


class SettleItem(Body, kw_only=True):
    """How one of many claims ended."""

    id: AnyJobId
    token: Token
    outcome: Literal["complete", "fail", "release"]
    result: Json = None
    error: str | None = None
    retryable: bool = True
    retry_after: RetryAfter = None


class Settle(Body):
    """How many claims ended."""

    items: Annotated[list[SettleItem], Meta(max_length=1000)]


class Retry(Body):
    """Back-off: initial × factor^(failures − 1), at most max, with jitter."""

    initial_seconds: Pause = 1.0
    factor: Annotated[float, said("What each pause is multiplied by.", minimum=1, maximum=1000)] = (
        2.0
    )
    max_seconds: Pause = 100.0


class QueueSettings(Body):
    """All settings of a queue; what is left out has its default."""

    sink: Sink | None = None
    completion: Annotated[
        Literal["delivery", "worker"] | None,
        Meta(description="What makes a job succeed; null: delivery if there is a sink."),
    ] = None
    max_attempts: MaxAttempts = 3
    retry: Annotated[Retry | None, Meta(description="The pauses between attempts.")] = None
    lease_seconds: Annotated[Lease, Meta(description="How long a worker may be silent.")] = 60.0
    timeout_seconds: Annotated[
        Lease | None,
        Meta(description="How long an attempt may take, heartbeats or not; null: no bound."),
    ] = None
    rate_per_second: Rate | None = None
    concurrency: Concurrency = None
    retention_seconds: Annotated[
        Delay | None, Meta(description="How long finished jobs are kept; null: for ever.")
    ] = 604_800.0
    poison_after: PoisonAfter = 3


class Nothing(Body):
    """An empty object, or no body at all."""


def _not_both(one: str, other: str) -> dict[str, Any]:
    given = {"not": {"type": "null"}}
    return {"not": {"required": [one, other], "properties": {one: given, other: given}}}


def one_of(one: str, other: str) -> dict[str, Any]:
    """One of the two members, and only one."""

    def given(name: str) -> dict[str, Any]:
        return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}

    return {"oneOf": [given(one), given(other)]}


RULES: dict[type[Struct], dict[str, Any]] = {
    NewJob: _not_both("due_at", "delay"),
    Patch: _not_both("due_at", "delay"),
    NewTask: {
        **one_of("dueDate", "afterDays"),
        "properties": dict.fromkeys(("requestId", "status", "error"), False),
        "propertyNames": NO_NUL,
        "additionalProperties": {"$ref": "#/components/schemas/Json"},
    },
    QueueSettings: {
        "not": {
            "required": ["completion"],
            "properties": {"completion": {"const": "delivery"}, "sink": {"type": "null"}},
        }
    },
}
"""What members must be together, in words of JSON Schema."""
