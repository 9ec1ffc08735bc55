"""What the bodies of bulk verbs must look like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from oncue.api.shapes import Body
from oncue.core.bulk import FILTERS, BulkChange, BulkVerb
from oncue.core.lifecycle import State
from oncue.wire.formats import Label, Moment, Priority, QueueName

LIMIT = 1_000_000

States = Literal["scheduled", "dispatched", "executing", "succeeded", "failed", "cancelled"]
Cursor = Annotated[
    str,
    Meta(
        description="The `next_cursor` of the answer before.",
        extra_json_schema={"format": "bulk-cursor", "pattern": "^[A-Za-z0-9_=-]+$"},
    ),
]


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
        Annotated[int, Meta(ge=1, le=LIMIT)] | None,
        Meta(description="Go no further than so many jobs that fit."),
    ] = None
    cursor: Cursor | None = None


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


def _said(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


_MEANT: dict[str, Any] = {
    "anyOf": [
        {"required": ["everything"], "properties": {"everything": {"const": True}}},
        {
            "required": ["filter"],
            "properties": {"filter": {"anyOf": [_said(name) for name in FILTERS]}},
        },
    ]
}


def _in_states(verb: BulkVerb, running: bool = False) -> dict[str, Any]:
    states = BulkChange(verb, 0, running).states
    told: list[str | None] = [state.value for state in State if state in states]
    return {"properties": {"filter": {"properties": {"state": {"enum": [*told, None]}}}}}


RULES: dict[type[Struct], dict[str, Any]] = {
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
"""At least one filter unless everything is meant, and a state in which the verb applies; in words
of JSON Schema."""
