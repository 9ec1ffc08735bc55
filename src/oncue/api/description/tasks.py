"""Tasks: work for a user on a date."""

from __future__ import annotations

from oncue.api.description.about import About, Answered, json
from oncue.api.description.jobs import CURSOR_PARAMETER, IDEMPOTENCY_KEY, LIMIT_PARAMETER
from oncue.api.description.samples import ID
from oncue.wire import tasks as wire

TAG = "Tasks"
_TASK = {
    "userId": "ada",
    "requestId": ID,
    "dueDate": "2026-12-01",
    "status": "SCHEDULED",
    "text": "Send the yearly report",
}

ABOUT = {
    ("POST", "/tasks"): About(
        "createTask",
        TAG,
        "A job of the built-in queue `tasks`, due at 00:00 UTC of its date. Give `dueDate` or "
        "`afterDays`; all other members are the task's content.",
        {201: Answered("Created.", wire.Task, _TASK, headers=("Location",))},
        json(
            wire.NewTask,
            {"userId": "ada", "dueDate": "2026-12-01", "text": "Send the yearly report"},
            required=True,
        ),
        (IDEMPOTENCY_KEY,),
    ),
    ("GET", "/tasks/{userId}"): About(
        "listTasks",
        TAG,
        "Ordered by date; finished ones included, removed ones not.",
        {200: Answered("A page.", wire.Tasks, {"items": [_TASK], "next_cursor": None})},
        parameters=(LIMIT_PARAMETER, CURSOR_PARAMETER),
    ),
    ("GET", "/tasks/{userId}/{requestId}"): About(
        "getTask",
        TAG,
        "Another user's task is not found.",
        {200: Answered("The task.", wire.Task, _TASK)},
        problems=(404,),
    ),
    ("DELETE", "/tasks/{userId}/{requestId}"): About(
        "removeTask",
        TAG,
        "Only while it is SCHEDULED. It is then gone from here, and cancelled under `/jobs`.",
        {204: Answered("Removed.")},
        problems=(404, 409),
    ),
}
