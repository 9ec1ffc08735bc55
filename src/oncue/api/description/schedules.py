"""Schedules: what comes again and again."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from oncue.api.description.about import About, Answered, Parameter, json
from oncue.schedules import RUNS_LIMIT
from oncue.wire import schedules as shapes
from oncue.wire.formats import Nothing, QueueName

TAG = "Schedules"
_SENT = {
    "cron": "30 2 * * *",
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"report": "nightly"},
}
_SCHEDULE: dict[str, Any] = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "every_seconds": None,
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"report": "nightly"},
    "owner": None,
    "emits": None,
    "catch_up": "once",
    "overlap": "allow",
    "paused": False,
    "anchor_at": None,
    "next_at": "2026-03-28T01:30:00.000Z",
    "last_at": None,
    "last_job_id": None,
    "created_at": "2026-03-27T12:00:00.000Z",
    "updated_at": "2026-03-27T12:00:00.000Z",
}
_RUN = {
    "at": "2026-03-28T01:30:00.000Z",
    "local": "2026-03-28T02:30:00.000+01:00",
    "mark": "normal",
    "note": None,
}
_IN_A_GAP = {
    "at": "2026-03-29T01:00:00.000Z",
    "local": "2026-03-29T03:00:00.000+02:00",
    "mark": "gap",
    "note": "02:30 does not exist on this day: at the end of the gap",
}
_OUTCOME = {
    "fate": "created",
    "at": "2026-03-28T01:30:00.000Z",
    "until": "2026-03-28T01:30:00.000Z",
    "count": 1,
    "job_id": "s019d33b5a0c0b3e1f0a2d4c6e8f00112233",
    "decided_at": "2026-03-28T01:29:45.000Z",
}
_COUNT = Parameter(
    "count",
    "How many; 20 if left out.",
    Annotated[int, Meta(ge=1, le=RUNS_LIMIT)],
    20,
)
_GONE = {204: Answered("It is gone.")}


def _one(text: str, **changes: Any) -> Answered:
    return Answered(text, shapes.Schedule, _SCHEDULE | changes)


ABOUT = {
    ("GET", "/schedules"): About(
        "listSchedules",
        TAG,
        "All schedules by name.",
        {200: Answered("A page.", shapes.Schedules, {"items": [_SCHEDULE], "next_cursor": None})},
        parameters=(
            Parameter("limit", "How many, at most.", Annotated[int, Meta(ge=1, le=500)], 50),
            Parameter("cursor", "The `next_cursor` of the page before.", QueueName, "nightly"),
        ),
    ),
    ("GET", "/schedules/{schedule}"): About(
        "getSchedule",
        TAG,
        "Its settings, the next occurrence, and the last one that became a job or an event.",
        {200: _one("The schedule.")},
        problems=(404,),
    ),
    ("PUT", "/schedules/{schedule}"): About(
        "putSchedule",
        TAG,
        "Every occurrence becomes one job, or one event if it `emits`, whatever the number of "
        "nodes. Replaces all settings; `paused` stays unless given. What is due stays: jobs that "
        "were made ahead of their time are taken away and made anew. The same settings again "
        "change nothing.",
        {
            200: _one("The schedule, replaced."),
            201: _one("The schedule, new.")._replace(headers=("Location",)),
        },
        json(shapes.ScheduleSettings, _SENT, required=True),
        problems=(409,),
    ),
    ("DELETE", "/schedules/{schedule}"): About(
        "deleteSchedule",
        TAG,
        "Its jobs that are due stay; those that were made ahead of their time are taken away.",
        _GONE,
        problems=(404, 409),
    ),
    ("GET", "/schedules/{schedule}/next"): About(
        "nextRuns",
        TAG,
        "In UTC and local time, with what gaps and overlaps of the local clock do to them. Of a "
        "paused schedule, as if it were resumed.",
        {
            200: Answered(
                "The coming runs.", shapes.Runs, {"items": [_RUN, _IN_A_GAP], "next_cursor": None}
            )
        },
        parameters=(_COUNT,),
        problems=(404,),
    ),
    ("POST", "/schedules/{schedule}/preview"): About(
        "previewSchedule",
        TAG,
        "What putting these settings would change about the coming runs; nothing is changed. Of a "
        "schedule that does not exist, all runs are added.",
        {
            200: Answered(
                "The difference.",
                shapes.RunChanges,
                {"removed": [_RUN], "added": [], "kept": [_IN_A_GAP]},
            )
        },
        json(shapes.ScheduleSettings, _SENT, required=True),
        parameters=(_COUNT,),
        problems=(404,),
    ),
    ("GET", "/schedules/{schedule}/outcomes"): About(
        "listOutcomes",
        TAG,
        "What became of the last hundred occurrences: `created` or `emitted`; `missed` in an "
        "outage; `overlapped` by the job before; `paused`; `withdrawn` by a change before they "
        "were due.",
        {
            200: Answered(
                "The outcomes.", shapes.Outcomes, {"items": [_OUTCOME], "next_cursor": None}
            )
        },
        problems=(404,),
    ),
    ("POST", "/schedules/{schedule}/pause"): About(
        "pauseSchedule",
        TAG,
        "Nothing of it happens until it is resumed; jobs that are due stay.",
        {200: _one("The schedule, paused.", paused=True)},
        json(Nothing, {}),
        problems=(404, 409),
    ),
    ("POST", "/schedules/{schedule}/resume"): About(
        "resumeSchedule",
        TAG,
        "It goes on with the next occurrence; those during the pause are recorded as left out.",
        {200: _one("The schedule, going on.")},
        json(Nothing, {}),
        problems=(404, 409),
    ),
}
