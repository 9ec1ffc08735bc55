"""Rules and events: what must hold, what happened, why nothing happens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from oncue.api.description.about import About, Answered, Parameter, json
from oncue.api.description.jobs import CURSOR_PARAMETER, LIMIT_PARAMETER
from oncue.api.description.samples import ID
from oncue.core.firing import Decision
from oncue.wire import formats
from oncue.wire import rules as shapes

TAG = "Rules"
_NAME = "hourly load"
_FILE = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}
_CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}
_RECEIVED = "2026-12-01T12:00:00.000Z"
_INSTANT = "2021-01-01T12:30:00.000000Z"
_RULE = {
    "name": _NAME,
    "dependencies": [_FILE, _CRON],
    "enabled": True,
    "queue": "rules",
    "payload": {"into": "warehouse"},
    "createdAt": "2026-12-01T10:00:00.000Z",
    "updatedAt": "2026-12-01T10:00:00.000Z",
    "lastInstant": _INSTANT,
    "lastJobId": ID,
}
_SENT = {
    "eventType": "TIME_BASED",
    "eventTimestamp": _INSTANT,
    "eventResourceId": "cron",
}
_EVENT = {"eventId": "8d0f3e51b8b44cb6a4a1b0f0d5a9c7e2", **_SENT}
_ARRIVED = {
    "eventId": "1f8a64c0b3ce4a52b7e9d6a1c0f4e3d2",
    "eventType": "FILE",
    "eventTimestamp": "2021-01-01T12:14:50.000000Z",
    "eventResourceId": "/in/a.csv",
}
_ACCEPTED = {"rule": _NAME, "dependency": _CRON, "decision": "ACCEPTED", "jobId": ID}
_PUBLISHED = {
    "eventId": _EVENT["eventId"],
    "duplicate": False,
    "decisions": [_ACCEPTED],
    "jobs": [{"rule": _NAME, "jobId": ID, "instant": _INSTANT}],
}
_AGAIN = {
    **_PUBLISHED,
    "duplicate": True,
    "decisions": [_ACCEPTED | {"decision": "DUPLICATE"}],
    "jobs": [],
}
_LOGGED = {
    **_EVENT,
    "receivedAt": _RECEIVED,
    "decisions": [{**_ACCEPTED, "decidedAt": _RECEIVED, "times": 1}],
}
_STANDING = {
    "rule": _NAME,
    "at": "2021-01-01T13:30:00.000000Z",
    "met": False,
    "enabled": True,
    "lastInstant": None,
    "lastJobId": None,
    "dependencies": [
        {
            **_FILE,
            "validity": "EXPIRED",
            "event": _ARRIVED,
            "validUntil": "2021-01-01T13:14:50.000000Z",
        },
        {**_CRON, "validity": "NEVER_SEEN", "event": None, "validUntil": None},
    ],
    "waitsFor": _CRON,
    "from": "2021-01-01T12:14:50.000000Z",
    "until": "2021-01-01T13:14:50.000000Z",
    "missedBySeconds": None,
    "sentence": "A TIME_BASED event `cron` stamped between 2021-01-01T12:14:50.000000Z and "
    "2021-01-01T13:14:50.000000Z would fire it.",
}

ABOUT = {
    ("GET", "/rules"): About(
        "listRules",
        TAG,
        "In the order of their names.",
        {200: Answered("A page.", shapes.Rules, {"items": [_RULE], "next_cursor": None})},
        parameters=(LIMIT_PARAMETER, CURSOR_PARAMETER),
    ),
    ("GET", "/rules/{rule}"): About(
        "getRule",
        TAG,
        "The rule, and the instant of its last job.",
        {200: Answered("The rule.", shapes.Rule, _RULE)},
        problems=(404,),
    ),
    ("PUT", "/rules/{rule}"): About(
        "putRule",
        TAG,
        "Replaces all members. A rule that exists keeps its last instant, and the events of each "
        "dependency that keeps type and resource. Fires nothing by itself.",
        {
            200: Answered("Replaced.", shapes.Rule, _RULE),
            201: Answered(
                "Created.", shapes.Rule, _RULE | {"lastInstant": None, "lastJobId": None}
            ),
        },
        json(
            shapes.NewRule,
            {"dependencies": [_FILE, _CRON], "payload": {"into": "warehouse"}},
            required=True,
        ),
    ),
    ("DELETE", "/rules/{rule}"): About(
        "deleteRule",
        TAG,
        "Its events and decisions are forgotten; its jobs stay. Created again, it is another rule.",
        {204: Answered("Forgotten.")},
        problems=(404,),
    ),
    ("GET", "/rules/{rule}/explain"): About(
        "explainRule",
        TAG,
        "For each dependency: whether it is valid at a time, by which event, and until when. And "
        "which event would fire the rule.",
        {200: Answered("How it stands.", shapes.Standing, _STANDING)},
        parameters=(
            Parameter("at", "The time; now if left out.", shapes.Stamp, "2021-01-01 13:30:00"),
        ),
        problems=(404,),
    ),
    ("POST", "/events"): About(
        "publishEvents",
        TAG,
        f"One event, or a list of up to {shapes.MOST_EVENTS:,}. All are checked before anything is "
        "stored; then each is applied in order, and the rules that it matches decide on it. "
        "Answered when all have decided. May be repeated: the same event changes nothing, and what "
        "a crash left undone is completed. All in event time: events of last year can be sent "
        "today, in any order.",
        {
            200: Answered(
                "All were known, and nothing new was decided.",
                shapes.Published,
                {"events": [_AGAIN]},
            ),
            201: Answered(
                "Stored and decided.",
                shapes.Published,
                {"events": [_PUBLISHED]},
            ),
        },
        json(shapes.NewEvents, _SENT, required=True),
        problems=(409,),
    ),
    ("GET", "/events"): About(
        "listEvents",
        TAG,
        "The last that arrived first, each with its decisions. With `rule` or `decision`: those "
        "that have one of it.",
        {200: Answered("A page.", shapes.LoggedEvents, {"items": [_LOGGED], "next_cursor": None})},
        parameters=(
            Parameter("rule", "Only what this rule decided.", formats.Label, _NAME),
            Parameter("decision", "Only what was so decided.", Decision, "ACCEPTED"),
            LIMIT_PARAMETER,
            Parameter(
                "cursor",
                "The `next_cursor` of the page before.",
                Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9]{1,18}$"})],
                "4711",
            ),
        ),
        problems=(404,),
    ),
}
