"""Reclaim runs, and jobs as AgendaProgress."""

from __future__ import annotations

from oncue.api.description.about import About, Answered, Parameter, json
from oncue.api.description.samples import ID
from oncue.wire.agenda import AgendaProgress, AgendaProgressWrite
from oncue.wire.reclaim import ReclaimParameters, ReclaimReport

TAG = "Reclaiming"
_EVENT = {
    "time": "2026-12-01T12:05:00.000Z",
    "code": "timeout_executing",
    "message": "Nothing was heard from the worker for 300 s. Due again at once.",
    "attempt": 1,
    "details": {"worker": "encoder-1", "age_seconds": 300.0, "decision": "reclaim"},
}
_PROGRESS = {
    "id": ID,
    "processingState": "EXECUTING",
    "processingStateMessage": "frame 1,200 of 5,000",
    "updatedTime": "2026-12-01T12:06:00.000Z",
    "attemptsCompleted": 1,
    "maximumAttempts": 3,
    "operationProgress": [
        {
            "name": "download",
            "processingState": "COMPLETE",
            "processingStateMessage": "succeeded",
            "percent": 100.0,
            "message": None,
            "result": {"bytes": 73_400_320},
            "updatedTime": "2026-12-01T12:01:00.000Z",
        }
    ],
    "diagnosticEvents": [_EVENT],
}
_REPORT = {
    "scanned": 3,
    "reclaimed": 2,
    "retried": 1,
    "failed": 1,
    "cancelled": 0,
    "lostRaces": 1,
    "anomalies": 0,
    "warnings": [],
    "endedBy": "end",
}
_IF_MATCH = Parameter(
    "If-Match",
    "The `ETag` of what was seen; or send its `updatedTime` in the body.",
    str,
    '"2f8a41d09c7be653a1f04d27"',
    "header",
)

ABOUT = {
    ("POST", "/reclaim"): About(
        "reclaim",
        TAG,
        "Looks once through the claims that workers hold, and takes away those that were silent "
        "for longer than `reclaimAgeMinutes`: retried if attempts remain, else failed. Leases and "
        "timeouts are looked after all the time and need no run. The answer comes when the run is "
        "over; two runs at once do no harm.",
        {200: Answered("What it did.", ReclaimReport, _REPORT)},
        json(ReclaimParameters, {"reclaimAgeMinutes": 4320, "maximumExecutionSeconds": 120}),
    ),
    ("GET", "/agenda-progress/{id}"): About(
        "getAgendaProgress",
        TAG,
        "WAITING is scheduled, DEQUEUED dispatched, EXECUTING executing; COMPLETE has the message "
        "`succeeded` or `failed`, the latter for cancelled jobs as well.",
        {200: Answered("The job.", AgendaProgress, _PROGRESS, headers=("ETag",))},
        problems=(404,),
    ),
    ("PUT", "/agenda-progress/{id}"): About(
        "putAgendaProgress",
        TAG,
        "COMPLETE with `failed` fails the job, with `succeeded` completes it; WAITING retries it, "
        "if attempts remain; EXECUTING is a sign of life. Only if the job is still as it was seen, "
        "else 409. Attempts and operations are the server's to tell. It ends claims of others, so "
        "it takes the scope `admin`.",
        {200: Answered("The job now.", AgendaProgress, _PROGRESS, headers=("ETag",))},
        json(
            AgendaProgressWrite,
            {
                "processingState": "COMPLETE",
                "processingStateMessage": "failed",
                "updatedTime": "2026-12-01T12:06:00.000Z",
                "diagnosticEvents": [{"message": "AgendaProgress timed out."}],
            },
            required=True,
        ),
        (_IF_MATCH,),
        problems=(404, 409),
    ),
}
