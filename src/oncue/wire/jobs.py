"""Jobs as JSON: what is sent to store and change them, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from oncue.core import job as core
from oncue.core import moment
from oncue.core.bulk import FILTERS, BulkChange, BulkVerb
from oncue.core.cursor import Page
from oncue.core.explain import REASONS
from oncue.core.lifecycle import State
from oncue.wire import formats
from oncue.wire.converting import NULL, null, read, writer, written
from oncue.wire.formats import Answer, Body, Cursor, Instant, OperationsCursor, Time, schema

BULK_LIMIT = 1_000_000
CONTENT = ("payload", "result", "error", "message")
"""What is in a job. These fields are left out of answers to callers who lack the scope `read`."""
_BulkCursor = Annotated[str, schema(format="bulk-cursor", pattern="^[A-Za-z0-9_=-]+$")]

# -- requests --------------------------------------------------------------------------------------


class NewJob(Body):
    """A job to create. Every field is optional; null is the same as leaving it out."""

    # Described here, and read by `intake`, whose sentences say more than a schema's.
    payload: formats.Json = None
    """The data of the job: any JSON value, at most 256 KiB."""
    queue: formats.QueueName | None = "default"
    """The queue of the job."""
    due_at: formats.Moment | None = None
    """The moment from which it may be handed over: RFC 3339 with an offset, at most 100 years
    ahead. A moment in the past means now."""
    delay: formats.Delay | None = None
    """Instead of `due_at`: a length of time from now, in seconds or ISO 8601 such as PT15M."""
    expires_at: formats.Moment | None = None
    """A job that is not taken by then is cancelled."""
    owner: formats.Label | None = None
    """To whom the job belongs in your application; jobs can be listed by owner."""
    priority: formats.Priority | None = 0
    """Among due jobs, higher priority runs first."""
    key: formats.Label | None = None
    """A name of your choice. A queue has at most one unfinished job with the same key."""
    if_exists: Literal["keep", "replace"] | None = "keep"
    """If an unfinished job has the key: `keep` returns it, `replace` gives it the new time and
    payload."""
    max_attempts: formats.Attempts | None = None
    """How often it may be tried; null: the setting of its queue."""
    timeout_seconds: formats.Timeout | None = None
    """How long an attempt may take; null: the setting of its queue."""
    id: formats.JobId | None = None
    """1 to 80 letters, digits, `_` or `-`, beginning with a letter or digit; null: the server makes
    one."""
    together: ClassVar = formats.not_both("due_at", "delay")


class Patch(Body):
    """The fields to change; fields that are left out keep their value."""

    due_at: formats.Moment | None = None
    delay: formats.Delay | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    payload: formats.Json | UnsetType = UNSET
    together: ClassVar = formats.not_both("due_at", "delay")


class Filter(Body):
    """Selects the jobs that match all given fields. Null matches any value."""

    queue: formats.QueueName | None = None
    """Only of this queue."""
    state: formats.States | None = None
    """Only in this state."""
    owner: formats.Label | None = None
    """Only of this owner."""
    key: formats.Label | None = None
    """Only with this key."""
    due_after: formats.Moment | None = None
    """Due at this moment or later."""
    due_before: formats.Moment | None = None
    """Due before this moment."""


_MEANT = {
    "anyOf": [
        {"required": ["everything"], "properties": {"everything": {"const": True}}},
        {
            "required": ["filter"],
            "properties": {"filter": {"anyOf": [formats.given(name) for name in FILTERS]}},
        },
    ]
}
"""At least one filter, unless everything is meant."""


def _in_states(verb: BulkVerb, running: bool = False) -> dict[str, Any]:
    """A state in which the verb applies."""
    states = BulkChange(verb, 0, running).states
    allowed = [*(state.value for state in State if state in states), None]
    return {"properties": {"filter": {"properties": {"state": {"enum": allowed}}}}}


class Bulk(Body, kw_only=True):
    """Which jobs to change, and how many of them."""

    filter: Filter = field(default_factory=Filter)
    everything: bool = False
    """Apply to all jobs. Required if `filter` is empty."""
    dry_run: bool = False
    """Count and show a sample; change nothing."""
    limit: Annotated[int, Meta(ge=1, le=BULK_LIMIT)] | None = None
    """Stop after this many matching jobs."""
    cursor: _BulkCursor | None = None
    """The `next_cursor` of the previous answer."""


class BulkCancel(Bulk, kw_only=True):
    """Which jobs are cancelled."""

    running: bool = False
    """Also ask the workers of taken jobs to stop."""
    together: ClassVar = {
        "allOf": [
            _MEANT,
            {
                "if": {"required": ["running"], "properties": {"running": {"const": True}}},
                "then": _in_states(BulkVerb.CANCEL, running=True),
                "else": _in_states(BulkVerb.CANCEL),
            },
        ]
    }


class BulkRun(Bulk, kw_only=True):
    """Which jobs are made due now."""

    together: ClassVar = {"allOf": [_MEANT, _in_states(BulkVerb.RUN)]}


class BulkRetry(Bulk, kw_only=True):
    """Which jobs are made due again."""

    together: ClassVar = {"allOf": [_MEANT, _in_states(BulkVerb.RETRY)]}


class BulkMove(Bulk, kw_only=True):
    """Which jobs go to another queue."""

    queue: formats.QueueName
    """The new queue."""
    together: ClassVar = {"allOf": [_MEANT, _in_states(BulkVerb.MOVE)]}


class BulkReprioritise(Bulk, kw_only=True):
    """Which jobs get another priority."""

    priority: formats.Priority
    """The new priority. Among due jobs, higher priority runs first."""
    together: ClassVar = {"allOf": [_MEANT, _in_states(BulkVerb.REPRIORITISE)]}


# -- answers ---------------------------------------------------------------------------------------


class Job(Answer, kw_only=True):
    """A job as it is now. An answer to a caller without the scope `read` lacks `payload`, `result`,
    `error` and `message`, unless it is the job that the caller has just created."""

    optional: ClassVar[tuple[str, ...]] = CONTENT
    id: str
    queue: str
    state: formats.States
    due_at: Time
    expires_at: Time | None = None
    payload: Raw = field(default_factory=null)
    owner: str | None = None
    priority: int = 0
    key: str | None = None
    attempt: int = 0
    """How often it was taken or handed over."""
    max_attempts: int | None = None
    """Null: the setting of its queue."""
    timeout_seconds: float | None = None
    """Null: the setting of its queue."""
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
        """A job right after it was stored."""
        job: Job = _write_new(new, "scheduled", moment.render(new.created_at), NULL)
        return job


_write_new = writer(Job, core.NewJob, "state", "updated_at", "result")


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
    epoch: int = 0
    """The epoch of its claim. Reports with the token of another claim are refused."""
    claimed_at: Time
    worker: str | None
    outcome: str | None
    """Null: it has not ended."""
    ended_at: Time | None = None


class StandingJob(Job, kw_only=True):
    """A job, and the claim on it."""

    worker: str | None = None
    """The worker that has the claim; null: the job is not claimed."""
    lease_until: Time | None = None
    attempt_base: int = 0
    """Attempts that do not count: those before it was last retried, and claims that were lost
    before they began."""


class JobWithHistory(StandingJob, kw_only=True):
    """A job and what happened to it, oldest first."""

    optional: ClassVar[tuple[str, ...]] = ()
    operations: list[JobOperation] = field(default_factory=list)
    operations_cursor: OperationsCursor | UnsetType = UNSET
    diagnostics: list[Diagnostic] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    def history(self) -> core.History:
        return read(core.History, self)


class Operations(Answer):
    """A page. It may be short although others follow."""

    items: list[JobOperation]
    next_cursor: Cursor = None

    @classmethod
    def of(cls, page: Page[core.Operation]) -> Operations:
        return cls([written(JobOperation, one) for one in page.items], page.next)

    def read(self) -> Page[core.Operation]:
        return Page([one.read() for one in self.items], self.next_cursor)


class Jobs(Answer):
    """A page. It may be short or empty although others follow."""

    items: list[StandingJob]
    next_cursor: Cursor = None


class Explanation(Answer):
    """Why a job is in its state: `reason` for programs, `sentence` for people, and the facts."""

    reason: Annotated[str, schema(enum=list(REASONS))]
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


class BatchProblem(Answer):
    """Why a line was not stored."""

    line: Annotated[int, Meta(ge=1)]
    status: int
    detail: str


class BatchReport(Answer, kw_only=True):
    """How many lines of a batch were stored, and which were not."""

    accepted: int
    """Jobs that were stored now or existed already."""
    existing: int
    """Those of `accepted` that existed already."""
    rejected_count: int = 0
    rejected: list[BatchProblem] = field(default_factory=list)
    """The first 1,000."""
    ids: list[str | None] = field(default_factory=list)
    """By line, null for rejected and empty ones; empty beyond 10,000 lines."""


class BulkOutcome(Answer, kw_only=True):
    """What a bulk verb did in this request."""

    matched: int
    """Jobs that match the filter, in a state in which the verb applies."""
    changed: int
    """Those that were changed; none in a dry run."""
    key_taken: int = 0
    """Those not changed because another unfinished job has their key."""
    sample: list[StandingJob]
    """The first 20 of them, as they are now."""
    next_cursor: str | None = None
    """Send it as `cursor` to continue; null: all jobs are done."""
