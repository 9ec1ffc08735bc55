"""Claims as JSON: taking due jobs, and the reports on them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from oncue.core import job as core
from oncue.core import moment
from oncue.wire import formats
from oncue.wire.converting import NULL, writer
from oncue.wire.formats import Answer, Body, Time
from oncue.wire.jobs import Job, JobOperation
from oncue.wire.problems import Problem

# -- requests --------------------------------------------------------------------------------------


class Claim(Body):
    """How many jobs to take, for which worker, and for how long."""

    limit: Annotated[int, Meta(ge=1, le=5000)] = 1
    """Jobs to take, at most."""
    lease_seconds: formats.Lease | None = None
    """How long the worker may send no heartbeat; null: the setting of the queue."""
    wait_seconds: formats.Wait = 0.0
    """How long to wait for the first due job, at most 300 seconds."""
    worker: Annotated[formats.Label, Meta(min_length=1, max_length=200)] = "worker"
    """The name of the worker, shown to people."""


class ClaimAny(Claim, kw_only=True):
    """As `Claim`, for several queues, which take turns."""

    queues: Annotated[list[formats.QueueName], Meta(min_length=1, max_length=100)]


class Start(Body):
    """The token of the claim."""

    token: formats.Token


class Heartbeat(Body):
    """A heartbeat. Without `lease_seconds` the lease is renewed by the setting of the queue."""

    token: formats.Token
    message: formats.Line | None = None
    percent: formats.Percent | None = None
    lease_seconds: formats.Lease | None = None
    """Counted from now; null: the setting of the queue."""


class HeartbeatItem(Heartbeat, kw_only=True):
    """A heartbeat for one of many jobs."""

    id: formats.AnyJobId


class Heartbeats(Body):
    """Heartbeats for many jobs."""

    items: Annotated[list[HeartbeatItem], Meta(max_length=1000)]


class OperationReport(Body):
    """The progress of one step. Until it succeeds, its result is replaced by later ones, and a
    report without one keeps it. The result of a success is final."""

    token: formats.Token
    state: Literal["executing", "succeeded", "failed"]
    result: formats.Json = None
    percent: formats.Percent | None = None
    message: formats.Line | None = None


class ReadOperations(Body):
    """The token of the claim, and where the operations go on."""

    token: formats.Token
    cursor: str | None = None
    """The `operations_cursor` of the claim, or the `next_cursor` of the previous page; null: from
    the first operation on."""


class Complete(Body):
    """With the token of the claim; or, with the scope `admin`, by `force`."""

    token: formats.Token | None = None
    result: formats.Json = None
    force: bool = False
    """Complete it without a token."""
    together: ClassVar = {
        "anyOf": [
            {"required": ["token"], "properties": {"token": {"type": "string"}}},
            {"required": ["force"], "properties": {"force": {"const": True}}},
        ]
    }


class Fail(Body):
    """What went wrong, and whether trying again makes sense."""

    token: formats.Token
    error: str
    retryable: bool = True
    retry_after: formats.Delay | None = None
    """The pause before the next attempt; null: by the `retry` setting of the queue."""


class Release(Body):
    """The token of the claim."""

    token: formats.Token


class SettleItem(Body, kw_only=True):
    """How one of many claims ended."""

    id: formats.AnyJobId
    token: formats.Token
    outcome: Literal["complete", "fail", "release"]
    result: formats.Json = None
    error: str | None = None
    """What went wrong; required with the outcome `fail`."""
    retryable: bool = True
    retry_after: formats.Delay | None = None
    """The pause before the next attempt; null: by the `retry` setting of the queue."""


class Settle(Body):
    """How each of many claims ended."""

    items: Annotated[list[SettleItem], Meta(max_length=1000)]


# -- answers ---------------------------------------------------------------------------------------


class ClaimedJob(Job, kw_only=True):
    """A job that a worker has claimed."""

    optional: ClassVar[tuple[str, ...]] = ()
    token: str
    """What every report on this claim must carry."""
    lease_until: Time
    attempt_timeout_seconds: float | None = None
    """How long the attempt may take, by the job or its queue. Null: no limit."""
    operations: list[JobOperation] = field(default_factory=list)
    operations_cursor: formats.OperationsCursor | UnsetType = UNSET

    @classmethod
    def of(cls, claim: core.Claimed, token: str, timeout_seconds: float | None) -> ClaimedJob:
        """A job that was claimed just now; `timeout_seconds` is that of its queue."""
        if claim.timeout_seconds is not None:
            timeout_seconds = claim.timeout_seconds
        updated_at = moment.render(claim.claimed_at)
        job: ClaimedJob = _write(claim, "dispatched", updated_at, NULL, token, timeout_seconds)
        return job


_write = writer(
    ClaimedJob, core.Claimed, *("state", "updated_at", "result", "token", "attempt_timeout_seconds")
)


class Claims(Answer):
    """The claimed jobs; none if none was due."""

    items: list[ClaimedJob]


class JobState(Answer):
    """A job and its state after the report."""

    id: str
    state: formats.States


class Touched(Answer):
    """When the lease ends now, and whether a cancel was requested."""

    lease_until: Time | None = None
    cancel_requested: bool = False


class Started(JobState, kw_only=True):
    """A job that was started: when the lease ends, and whether a cancel was requested."""

    lease_until: Time | None = None
    cancel_requested: bool = False


class Settled(Answer):
    """The answer for one item: its state, or its problem."""

    id: str
    state: formats.States | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class SettledItems(Answer):
    """In the order in which they were sent."""

    items: list[Settled]


class Beaten(Answer):
    """The answer for one item: its lease, or its problem."""

    id: str
    lease_until: Time | UnsetType | None = UNSET
    cancel_requested: bool | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class BeatenItems(Answer):
    """In the order in which they were sent."""

    items: list[Beaten]
