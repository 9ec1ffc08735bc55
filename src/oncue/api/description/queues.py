"""Queues: settings, counts, pause."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from oncue.api.description.about import About, Answered, Parameter, json
from oncue.api.description.samples import NOON
from oncue.wire import formats
from oncue.wire import queues as wire

TAG = "Queues"
_QUEUE = {
    "name": "mail",
    "sink": None,
    "completion": "worker",
    "max_attempts": 5,
    "retry": {"initial_seconds": 1.0, "factor": 2.0, "max_seconds": 100.0},
    "lease_seconds": 60.0,
    "timeout_seconds": 900.0,
    "rate_per_second": 20.0,
    "concurrency": 8,
    "retention_seconds": 604800.0,
    "poison_after": 3,
    "paused": False,
    "counts": {
        "scheduled": 12,
        "dispatched": 0,
        "executing": 3,
        "succeeded": 240,
        "failed": 1,
        "cancelled": 0,
    },
    "approximate": False,
    "oldest_due_at": None,
    "lateness": {"p50_seconds": 0.002, "p99_seconds": 0.011, "count": 240, "window_seconds": 300.0},
}

ABOUT = {
    ("GET", "/queues"): About(
        "listQueues",
        TAG,
        "Those that were set, and those that have jobs.",
        {200: Answered("All queues.", wire.Queues, {"items": [_QUEUE], "next_cursor": None})},
    ),
    ("GET", "/queues/{queue}"): About(
        "getQueue",
        TAG,
        "A queue that nobody has set has the default settings: queues need not be created.",
        {200: Answered("The queue.", wire.Queue, _QUEUE)},
    ),
    ("GET", "/queues/{queue}/due-counts"): About(
        "countDue",
        TAG,
        "How many scheduled jobs are due in each step from `from` up to `until`: at most 100,000 "
        "steps. What is overdue is counted at its own time, in the past.",
        {
            200: Answered(
                "The steps in which something is due.",
                wire.DueCounts,
                {"items": [{"at": NOON, "count": 1200}], "next_cursor": None},
            )
        },
        parameters=(
            Parameter("from", "Where to begin; now if left out.", formats.Moment, NOON),
            Parameter(
                "until",
                "Where to end; an hour later if left out.",
                formats.Moment,
                "2026-12-01T13:00:00Z",
            ),
            Parameter(
                "step_seconds",
                "How long a step is; a minute if left out.",
                Annotated[float, Meta(ge=0.001, le=formats.LONGEST)],
                60,
            ),
        ),
    ),
    ("PUT", "/queues/{queue}"): About(
        "replaceQueue",
        TAG,
        "Replaces all settings, except whether it is paused. `completion` is `delivery` for queues "
        "with a sink and `worker` for others, unless said. `rate_per_second` and `concurrency` "
        "hold for all workers and dispatchers together.",
        {200: Answered("The queue.", wire.Queue, _QUEUE)},
        json(
            wire.QueueSettings,
            {
                "max_attempts": 5,
                "timeout_seconds": "PT15M",
                "rate_per_second": 20,
                "concurrency": 8,
            },
        ),
    ),
    ("DELETE", "/queues/{queue}"): About(
        "deleteQueue",
        TAG,
        "Its settings and its finished jobs go with it. Refused while it has unfinished jobs, "
        "while a schedule or a rule makes jobs for it, and if it is built in; the detail says "
        "which. The name may be used again, with default settings. Very many finished jobs take a "
        "while: they are removed in parts, and a job that arrives meanwhile stops it.",
        {204: Answered("Deleted.")},
        problems=(404, 409),
    ),
    ("POST", "/queues/{queue}/pause"): About(
        "pauseQueue",
        TAG,
        "Nothing is claimed or delivered while it is paused; due work waits. What was taken before "
        "goes on.",
        {200: Answered("The queue, paused.", wire.Queue, _QUEUE | {"paused": True})},
        json(formats.Nothing, {}),
    ),
    ("POST", "/queues/{queue}/resume"): About(
        "resumeQueue",
        TAG,
        "What has become due meanwhile is handed over at once.",
        {200: Answered("The queue, open.", wire.Queue, _QUEUE)},
        json(formats.Nothing, {}),
    ),
}
