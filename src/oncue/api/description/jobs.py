"""Jobs: create, look, change."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oncue.api.description.about import About, Answered, Content, Parameter, Sent, json
from oncue.api.description.samples import HISTORY, ID, JOB, NOON, STANDING
from oncue.api.jobs import KEY_LENGTH, LIMIT, MOST
from oncue.api.request import JSON_TYPE
from oncue.wire import formats
from oncue.wire import jobs as wire

TAG = "Jobs"
NDJSON_TYPE = "application/x-ndjson"
_NEW = {"payload": {"to": "ada"}, "queue": "mail", "delay": "PT2H"}
_SECOND = {"payload": {"to": "bob"}, "queue": "mail"}

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "Makes repeating the request harmless: the same key with the same body gives the first answer "
    "again. Remembered for at least a day.",
    Annotated[
        str,
        Meta(
            min_length=1,
            max_length=KEY_LENGTH,
            extra_json_schema={"pattern": "^[!-~]([ -~]*[!-~])?$"},
        ),
    ],
    "order-1001-mail",
    "header",
)
LIMIT_PARAMETER = Parameter(
    "limit",
    f"How many to show; {LIMIT} if left out.",
    Annotated[int, Meta(ge=1, le=MOST)],
    20,
)
CURSOR_PARAMETER = Parameter(
    "cursor",
    "The `next_cursor` of the page before.",
    Annotated[str, Meta(extra_json_schema={"format": "cursor", "pattern": "^[A-Za-z0-9_=-]+$"})],
    "MTc5NjEyNjQwMDAwMC5hYmM",
)
_FILTERS = (
    Parameter("queue", "Only of this queue.", formats.QueueName, "mail"),
    Parameter("state", "Only in this state.", formats.States, "scheduled"),
    Parameter("owner", "Only of this owner.", formats.Label, "ada"),
    Parameter("key", "Only with this key.", formats.Label, "order-1001"),
    Parameter("due_after", "Due at this moment or later.", formats.Moment, NOON),
    Parameter("due_before", "Due before this moment.", formats.Moment, "2026-12-02T00:00:00Z"),
)
_RUNNING = Parameter(
    "running",
    "Ask a job that was taken already to stop; false if left out.",
    Literal["true", "false"],
    "true",
)

ABOUT = {
    ("POST", "/jobs"): About(
        "createJob",
        TAG,
        "Durable when the answer arrives. Without a time it is due at once. With a `key` that an "
        "unfinished job of the queue has, `if_exists` decides: `keep` answers with that job, "
        "`replace` gives it the new time and payload. With an `id` that exists, the same members "
        "are answered with the job, others are refused. Give an `id` or an `Idempotency-Key`, "
        "not both.",
        {
            201: Answered("Created.", wire.Job, JOB, headers=("Location",)),
            200: Answered(
                "There was such a job already: this is it.",
                wire.Job,
                JOB | {"key": "order-1001"},
                headers=("Location",),
            ),
        },
        json(wire.NewJob, _NEW),
        (IDEMPOTENCY_KEY,),
        (409,),
    ),
    ("POST", "/jobs/batch"): About(
        "createJobs",
        TAG,
        "A job a line (NDJSON), or an array. Not atomic: each is stored or rejected by itself. "
        "What was accepted is durable when the answer arrives. With an `Idempotency-Key` a batch "
        "can be sent again: only what is missing is stored.",
        {
            200: Answered(
                "What became of the lines, counted from 1.",
                wire.BatchReport,
                {
                    "accepted": 1,
                    "existing": 0,
                    "rejected_count": 1,
                    "rejected": [
                        {
                            "line": 2,
                            "status": 422,
                            "detail": "/priority: must be a whole number from 0 to 9.",
                        }
                    ],
                    "ids": [ID, None],
                },
            )
        },
        Sent(
            {
                NDJSON_TYPE: Content(
                    Annotated[str, Meta(description="A `NewJob` a line.")],
                    '{"payload": {"to": "ada"}, "queue": "mail"}\n'
                    '{"payload": {"to": "bob"}, "queue": "mail", "priority": 10}\n',
                ),
                JSON_TYPE: Content(list[wire.NewJob], [_NEW, _SECOND]),
            }
        ),
        (IDEMPOTENCY_KEY,),
    ),
    ("GET", "/jobs"): About(
        "listJobs",
        TAG,
        "Ordered by due time, then id. Filters narrow it down together.",
        {200: Answered("A page.", wire.Jobs, {"items": [JOB | STANDING], "next_cursor": None})},
        parameters=(*_FILTERS, LIMIT_PARAMETER, CURSOR_PARAMETER),
    ),
    ("GET", "/jobs/{id}"): About(
        "getJob",
        TAG,
        "With its operations, diagnostics and attempts; of many, the first and the last 50.",
        {
            200: Answered(
                "The job.",
                wire.JobWithHistory,
                {**JOB, **STANDING, "attempt": 1, "error": "timed out", **HISTORY},
            )
        },
        problems=(404,),
    ),
    ("PATCH", "/jobs/{id}"): About(
        "amendJob",
        TAG,
        "Only while it is scheduled.",
        {200: Answered("The job as it is now.", wire.Job, JOB)},
        json(wire.Patch, {"due_at": NOON, "priority": 5}),
        problems=(404, 409),
    ),
    ("DELETE", "/jobs/{id}"): About(
        "cancelJob",
        TAG,
        "A scheduled job ends cancelled and is not handed over. A taken one can only be asked to "
        "stop, with `running=true`: its worker learns it by its next heartbeat. The job itself "
        "stays until its queue's retention is over.",
        {
            200: Answered("Cancelled.", wire.Job, JOB | {"state": "cancelled"}),
            202: Answered(
                "Its worker is asked to stop.",
                wire.Job,
                JOB | {"state": "executing", "attempt": 1, "cancel_requested": True},
            ),
        },
        parameters=(_RUNNING,),
        problems=(404, 409),
    ),
    ("POST", "/jobs/{id}/run"): About(
        "runJob",
        TAG,
        "Only while it is scheduled. What is due already keeps its place in the line.",
        {200: Answered("The job, due now.", wire.Job, JOB)},
        json(formats.Nothing, {}),
        problems=(404, 409),
    ),
    ("POST", "/jobs/{id}/retry"): About(
        "retryJob",
        TAG,
        "For a failed or cancelled job. Its operations are kept, and it gets its attempts anew.",
        {200: Answered("The job, due now.", wire.Job, JOB)},
        json(formats.Nothing, {}),
        problems=(404, 409),
    ),
    ("GET", "/jobs/{id}/explain"): About(
        "explainJob",
        TAG,
        "A reason for programs, a sentence for people, and the facts behind them.",
        {
            200: Answered(
                "Why.",
                wire.Explanation,
                {
                    "reason": "not_due",
                    "sentence": "It is not due before 2026-12-01T12:00:00.000Z, in 2 h.",
                    "facts": {"due_at": NOON, "due_in_seconds": 7200.0, "paused": False},
                },
            )
        },
        problems=(404,),
    ),
}
