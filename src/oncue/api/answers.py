"""What answers look like, for `/openapi.json`. The routes write them from `wire`; a live server is
asked whether they agree."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncue.api.problem import PREFIX, TITLES
from oncue.core.explain import REASONS
from oncue.wire.formats import Time

States = Literal["scheduled", "dispatched", "executing", "succeeded", "failed", "cancelled"]
Cursor = Annotated[
    str | None, Meta(description="Send it as `cursor` for the next page; null: there is none.")
]
Kind = Annotated[str, Meta(extra_json_schema={"enum": [PREFIX + kind for kind in TITLES]})]


class Job(Struct):
    """A job as it is now."""

    id: str
    queue: str
    state: States
    due_at: Time
    expires_at: Time | None
    payload: Any
    owner: str | None
    priority: int
    key: str | None
    attempt: Annotated[int, Meta(description="How often it was taken or handed over.")]
    max_attempts: Annotated[int | None, Meta(description="Null: as its queue says.")]
    timeout_seconds: Annotated[float | None, Meta(description="Null: as its queue says.")]
    created_at: Time
    updated_at: Time
    finished_at: Time | None
    result: Any
    error: str | None
    message: str | None
    percent: float | None
    cancel_requested: bool
    rule: str | None
    instant: str | None
    schedule: str | None


class JobOperation(Struct):
    """One named step inside a job."""

    name: str
    state: Literal["executing", "succeeded", "failed"]
    percent: float | None
    message: str | None
    result: Any
    updated_at: Time


class Diagnostic(Struct):
    """A recorded fact about what went wrong or was decided."""

    at: Time
    code: str
    detail: str
    attempt: int
    epoch: int
    facts: dict[str, Any]


class Attempt(Struct):
    """One claim by a worker, or one hand-over to a sink."""

    attempt: int
    claimed_at: Time
    worker: str | None
    outcome: Annotated[str | None, Meta(description="Null: it goes on.")]
    ended_at: Time | None


class StandingJob(Job, kw_only=True):
    """A job, and who has it."""

    worker: Annotated[str | None, Meta(description="Whose claim it is; null: nobody's.")]
    lease_until: Time | None
    attempt_base: Annotated[
        int,
        Meta(
            description="Attempts that do not count: those before it was last retried, and claims "
            "that were lost before they began."
        ),
    ]


class JobWithHistory(StandingJob, kw_only=True):
    """A job and what happened to it, oldest first."""

    operations: list[JobOperation]
    diagnostics: list[Diagnostic]
    attempts: list[Attempt]


class Jobs(Struct):
    """A page. It may be short or empty and still have a next one."""

    items: list[StandingJob]
    next_cursor: Cursor


class Explanation(Struct):
    """Why a job is where it is: for programs, for people, and what it rests on."""

    reason: Annotated[str, Meta(extra_json_schema={"enum": list(REASONS)})]
    sentence: str
    facts: dict[str, Any]


class BatchProblem(Struct):
    """Why a line was not stored."""

    line: Annotated[int, Meta(ge=1)]
    status: int
    detail: str


class BatchReport(Struct):
    """What became of the lines of a batch."""

    accepted: Annotated[int, Meta(description="Stored now, or there already.")]
    existing: Annotated[int, Meta(description="Those of them that were there already.")]
    rejected_count: int
    rejected: Annotated[list[BatchProblem], Meta(description="The first 1,000.")]
    ids: Annotated[
        list[str | None],
        Meta(description="In the order of the lines, null for rejected ones; empty beyond 10,000."),
    ]


class BulkOutcome(Struct):
    """What a bulk verb came to, in this request."""

    matched: Annotated[int, Meta(description="Jobs that fit, in a state in which it applies.")]
    changed: Annotated[int, Meta(description="Those that were changed; none in a dry run.")]
    key_taken: Annotated[int, Meta(description="Those left alone: another job has their key.")]
    sample: Annotated[list[StandingJob], Meta(description="The first 20 of them, as they are now.")]
    next_cursor: Annotated[
        str | None, Meta(description="Send it as `cursor` to go on; null: that was all.")
    ]


class ClaimedJob(Job, kw_only=True):
    """A job in the hands of a worker."""

    token: Annotated[str, Meta(description="What every report on this claim must carry.")]
    lease_until: Time
    attempt_timeout_seconds: Annotated[
        float | None,
        Meta(description="How long the attempt may take, by the job or its queue. Null: no limit."),
    ]
    operations: list[JobOperation]


class Claims(Struct):
    """What was taken; nothing, if nothing was due."""

    items: list[ClaimedJob]


class JobState(Struct):
    """A job and its state after the report."""

    id: str
    state: States


class Touched(Struct):
    """How long the claim holds now, and whether somebody wants the work to stop."""

    lease_until: Time | None
    cancel_requested: bool


class FieldProblem(Struct):
    """One place that is wrong: `/member` of the body or `?parameter` of the query."""

    pointer: str
    detail: str


class Problem(Struct):
    """RFC 9457. Some kinds have members of their own: see `/docs`."""

    type: Kind
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET
    state: States | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    diagnostic: Diagnostic | UnsetType | None = UNSET
    request_id: str | UnsetType = UNSET
    accepted: int | UnsetType = UNSET
    lasting: bool | UnsetType = UNSET


class Settled(Struct):
    """What became of one item: its state, or its problem."""

    id: str
    state: States | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class SettledItems(Struct):
    """In the order in which they were sent."""

    items: list[Settled]


class Beaten(Struct):
    """What became of one item: its lease, or its problem."""

    id: str
    lease_until: Time | UnsetType | None = UNSET
    cancel_requested: bool | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class BeatenItems(Struct):
    """In the order in which they were sent."""

    items: list[Beaten]


class RetryPolicy(Struct):
    """Back-off: initial × factor^(failures − 1), at most max, with jitter."""

    initial_seconds: float
    factor: float
    max_seconds: float


class Lateness(Struct):
    """How late first attempts began, in the last minutes."""

    p50_seconds: float
    p99_seconds: float
    count: int
    window_seconds: float


class Queue(Struct):
    """A queue's settings and what is in it."""

    name: str
    sink: str | None
    completion: Literal["delivery", "worker"]
    max_attempts: int
    retry: RetryPolicy
    lease_seconds: float
    timeout_seconds: float | None
    rate_per_second: float | None
    concurrency: int | None
    retention_seconds: float | None
    poison_after: int
    paused: bool
    counts: Annotated[dict[str, int | None], Meta(description="Jobs in each state; null: unknown.")]
    approximate: bool
    oldest_due_at: Time | None
    lateness: Annotated[Lateness | None, Meta(description="Null: nothing was taken of late.")]


class Queues(Struct):
    """All queues that were set or have jobs."""

    items: list[Queue]
    next_cursor: Cursor


class DueCount(Struct):
    """One step of the time ahead."""

    at: Annotated[Time, Meta(description="Its beginning.")]
    count: Annotated[int, Meta(description="Scheduled jobs that are due in it.")]


class DueCounts(Struct):
    """In the order of time; steps in which nothing is due are left out."""

    items: list[DueCount]
    next_cursor: None


class Task(Struct):
    """A task: what was sent, and how far it is."""

    userId: str
    requestId: str
    dueDate: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    status: Literal["SCHEDULED", "STARTED", "COMPLETED", "FAILED"]
    error: str | UnsetType | None = UNSET


class Tasks(Struct):
    """A page. It may be short or empty and still have a next one."""

    items: list[Task]
    next_cursor: Cursor


class Alive(Struct):
    """The process answers."""

    status: Literal["alive"]
    version: str


class Allowed(Struct):
    """What whoever asks may do."""

    scopes: list[Literal["read", "write", "work", "admin"]]


class Ready(Struct):
    """The store answers."""

    status: Literal["ready"]
    store: str
    schema: Any


class ProblemKind(Struct):
    """What a problem's type stands for."""

    type: Kind
    title: str
