"""Jobs as JSON: what is sent to store and change them, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from oncue.core import job as core
from oncue.core import moment
from oncue.core.bulk import FILTERS, BulkChange, BulkVerb
from oncue.core.explain import REASONS
from oncue.core.lifecycle import State
from oncue.wire.converting import NULL, null, read, written
from oncue.wire.formats import (
    Answer,
    Attempts,
    Body,
    Cursor,
    Delay,
    Instant,
    JobId,
    Json,
    Label,
    Moment,
    Priority,
    QueueName,
    States,
    Time,
    Timeout,
    given,
    not_both,
)

BULK_LIMIT = 1_000_000

# -- requests --------------------------------------------------------------------------------------


class NewJob(Body):
    """A job to be. Every field may be left out; null says the same."""

    # Described here, and read by `intake`, whose sentences say more than a schema's.
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


class Patch(Body):
    """What is to change; what is left out stays."""

    due_at: Moment | None = None
    delay: Delay | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    payload: Json | UnsetType = UNSET


class Filter(Body):
    """Which jobs: those that fit all of it. Null means any."""

    queue: Annotated[QueueName | None, Meta(description="Only of this queue.")] = None
    state: Annotated[States | None, Meta(description="Only in this state.")] = None
    owner: Annotated[Label | None, Meta(description="Only of this owner.")] = None
    key: Annotated[Label | None, Meta(description="Only with this key.")] = None
    due_after: Annotated[Moment | None, Meta(description="Due at this moment or later.")] = None
    due_before: Annotated[Moment | None, Meta(description="Due before this moment.")] = None


class Bulk(Body, kw_only=True):
    """Which jobs, and how far to go."""

    filter: Filter = field(default_factory=Filter)
    everything: Annotated[
        bool, Meta(description="No filter is meant: all jobs there are. Needed without one.")
    ] = False
    dry_run: Annotated[bool, Meta(description="Count and show a sample; change nothing.")] = False
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=BULK_LIMIT)] | None,
        Meta(description="Go no further than so many jobs that fit."),
    ] = None
    cursor: (
        Annotated[
            str,
            Meta(
                description="The `next_cursor` of the answer before.",
                extra_json_schema={"format": "bulk-cursor", "pattern": "^[A-Za-z0-9_=-]+$"},
            ),
        ]
        | None
    ) = None


class BulkCancel(Bulk, kw_only=True):
    """Which jobs are cancelled."""

    running: Annotated[bool, Meta(description="Ask jobs that were taken already to stop.")] = False


class BulkRun(Bulk, kw_only=True):
    """Which jobs are made due now."""


class BulkRetry(Bulk, kw_only=True):
    """Which jobs are made due again."""


class BulkMove(Bulk, kw_only=True):
    """Which jobs go to another queue."""

    queue: Annotated[QueueName, Meta(description="Where they go.")]


class BulkReprioritise(Bulk, kw_only=True):
    """Which jobs get another priority."""

    priority: Annotated[Priority, Meta(description="What they get. Higher goes first.")]


# -- answers ---------------------------------------------------------------------------------------


class Job(Answer, kw_only=True):
    """A job as it is now."""

    id: str
    queue: str
    state: States
    due_at: Time
    expires_at: Time | None = None
    payload: Raw
    owner: str | None = None
    priority: int = 0
    key: str | None = None
    attempt: Annotated[int, Meta(description="How often it was taken or handed over.")] = 0
    max_attempts: Annotated[int | None, Meta(description="Null: as its queue says.")] = None
    timeout_seconds: Annotated[float | None, Meta(description="Null: as its queue says.")] = None
    created_at: Time
    updated_at: Time
    finished_at: Time | None = None
    result: Raw = field(default_factory=null)
    error: str | None = None
    message: str | None = None
    percent: float | None = None
    cancel_requested: bool = False
    rule: str | None = None
    instant: Instant | None = None
    schedule: str | None = None

    def read(self) -> core.Job:
        return read(core.Job, self)

    @classmethod
    def of_new(cls, new: core.NewJob) -> Job:
        """A job right after it was stored. Written by hand: every `POST /jobs` is answered so."""
        created_at = moment.render(new.created_at)
        return cls(
            id=new.id,
            queue=new.queue,
            state="scheduled",
            due_at=moment.render(new.due_at),
            expires_at=None if new.expires_at is None else moment.render(new.expires_at),
            payload=Raw(new.payload),
            owner=new.owner,
            priority=new.priority,
            key=new.key,
            max_attempts=new.max_attempts,
            timeout_seconds=new.timeout_seconds,
            created_at=created_at,
            updated_at=created_at,
            result=NULL,
        )


class JobOperation(Answer, kw_only=True):
    """One named step inside a job."""

    name: str
    state: Literal["executing", "succeeded", "failed"]
    percent: float | None = None
    message: str | None = None
    result: Raw = field(default_factory=null)
    updated_at: Time

    def read(self) -> core.Operation:
        """A step that succeeded has a result, even if that is null."""
        result = {"result": bytes(self.result)} if self.state == "succeeded" else {}
        return read(core.Operation, self, **result)


class Diagnostic(Answer):
    """A recorded fact about what went wrong or was decided."""

    at: Time
    code: str
    detail: str
    attempt: int = 0
    epoch: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


class Attempt(Answer, kw_only=True):
    """One claim by a worker, or one hand-over to a sink."""

    attempt: int = 0
    epoch: Annotated[
        int, Meta(description="Of its claim. Reports with the token of another are refused.")
    ] = 0
    claimed_at: Time
    worker: str | None
    outcome: Annotated[str | None, Meta(description="Null: it goes on.")]
    ended_at: Time | None = None


class StandingJob(Job, kw_only=True):
    """A job, and who has it."""

    worker: Annotated[str | None, Meta(description="Whose claim it is; null: nobody's.")] = None
    lease_until: Time | None = None
    attempt_base: Annotated[
        int,
        Meta(
            description="Attempts that do not count: those before it was last retried, and claims "
            "that were lost before they began."
        ),
    ] = 0


class JobWithHistory(StandingJob, kw_only=True):
    """A job and what happened to it, oldest first."""

    operations: list[JobOperation] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    @classmethod
    def of(cls, job: core.Job, history: core.History) -> JobWithHistory:
        events = written(_Events, history)
        return written(
            cls,
            job,
            operations=events.operations,
            diagnostics=events.diagnostics,
            attempts=events.attempts,
        )

    def history(self) -> core.History:
        return read(core.History, self)


class _Events(Answer):
    operations: list[JobOperation]
    diagnostics: list[Diagnostic]
    attempts: list[Attempt]


class Jobs(Answer):
    """A page. It may be short or empty and still have a next one."""

    items: list[StandingJob]
    next_cursor: Cursor = None


class Explanation(Answer):
    """Why a job is where it is: for programs, for people, and what it rests on."""

    reason: Annotated[str, Meta(extra_json_schema={"enum": list(REASONS)})]
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


class BatchProblem(Answer):
    """Why a line was not stored."""

    line: Annotated[int, Meta(ge=1)]
    status: int
    detail: str


class BatchReport(Answer, kw_only=True):
    """What became of the lines of a batch."""

    accepted: Annotated[int, Meta(description="Stored now, or there already.")]
    existing: Annotated[int, Meta(description="Those of them that were there already.")]
    rejected_count: int = 0
    rejected: Annotated[list[BatchProblem], Meta(description="The first 1,000.")] = field(
        default_factory=list
    )
    ids: Annotated[
        list[str | None],
        Meta(description="In the order of the lines, null for rejected ones; empty beyond 10,000."),
    ] = field(default_factory=list)


class BulkOutcome(Answer, kw_only=True):
    """What a bulk verb came to, in this request."""

    matched: Annotated[int, Meta(description="Jobs that fit, in a state in which it applies.")]
    changed: Annotated[int, Meta(description="Those that were changed; none in a dry run.")]
    key_taken: Annotated[int, Meta(description="Those left alone: another job has their key.")] = 0
    sample: Annotated[list[StandingJob], Meta(description="The first 20 of them, as they are now.")]
    next_cursor: Annotated[
        str | None, Meta(description="Send it as `cursor` to go on; null: that was all.")
    ] = None


# -- what fields must be together, in JSON Schema --------------------------------------------------


_MEANT: dict[str, Any] = {
    "anyOf": [
        {"required": ["everything"], "properties": {"everything": {"const": True}}},
        {
            "required": ["filter"],
            "properties": {"filter": {"anyOf": [given(name) for name in FILTERS]}},
        },
    ]
}
"""At least one filter, unless everything is meant."""


def _in_states(verb: BulkVerb, running: bool = False) -> dict[str, Any]:
    """A state in which the verb applies."""
    states = BulkChange(verb, 0, running).states
    allowed: list[str | None] = [state.value for state in State if state in states]
    return {"properties": {"filter": {"properties": {"state": {"enum": [*allowed, None]}}}}}


RULES: dict[type[Struct], dict[str, Any]] = {
    NewJob: not_both("due_at", "delay"),
    Patch: not_both("due_at", "delay"),
    BulkCancel: {
        "allOf": [
            _MEANT,
            {
                "if": {"required": ["running"], "properties": {"running": {"const": True}}},
                "then": _in_states(BulkVerb.CANCEL, running=True),
                "else": _in_states(BulkVerb.CANCEL),
            },
        ]
    },
    BulkRun: {"allOf": [_MEANT, _in_states(BulkVerb.RUN)]},
    BulkRetry: {"allOf": [_MEANT, _in_states(BulkVerb.RETRY)]},
    BulkMove: {"allOf": [_MEANT, _in_states(BulkVerb.MOVE)]},
    BulkReprioritise: {"allOf": [_MEANT, _in_states(BulkVerb.REPRIORITISE)]},
}
