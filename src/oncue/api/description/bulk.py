"""Bulk verbs: all jobs that fit a filter."""

from __future__ import annotations

from typing import Any

from oncue.api.description.about import About, Answered, json
from oncue.api.description.samples import JOB, STANDING
from oncue.wire import jobs as wire

TAG = "Jobs"
_PARTS = (
    " A request works for a few seconds at most and leaves others time to write; send its "
    "`next_cursor` as `cursor`, with the same members, until that is null. With `dry_run` it only "
    "counts. Without any filter, say `everything`."
)
_MAIL = {"filter": {"queue": "mail"}}


def _about(name: str, text: str, shape: Any, sent: dict[str, Any], **job: Any) -> About:
    outcome = {
        "matched": 1,
        "changed": 1,
        "key_taken": 0,
        "sample": [JOB | STANDING | job],
        "next_cursor": None,
    }
    told = Answered("What was found and what was changed.", wire.BulkOutcome, outcome)
    return About(name, TAG, text + _PARTS, {200: told}, json(shape, sent, required=True))


ABOUT = {
    ("POST", "/jobs/cancel"): _about(
        "cancelJobs",
        "Scheduled jobs end cancelled. Taken ones can only be asked to stop, with `running`; those "
        "that a sink is just receiving are left alone.",
        wire.BulkCancel,
        {"filter": {"queue": "mail", "owner": "ada"}, "dry_run": False},
        state="cancelled",
    ),
    ("POST", "/jobs/run"): _about(
        "runJobs",
        "For scheduled jobs. What is due already keeps its place in the line.",
        wire.BulkRun,
        _MAIL,
    ),
    ("POST", "/jobs/retry"): _about(
        "retryJobs",
        "For jobs that had failed or been cancelled when the first request came. One whose key is "
        "taken is left alone.",
        wire.BulkRetry,
        {"filter": {"queue": "mail", "state": "failed"}},
    ),
    ("POST", "/jobs/move"): _about(
        "moveJobs",
        "For scheduled jobs. The settings of the other queue hold for them then. One whose key is "
        "taken there stays.",
        wire.BulkMove,
        {**_MAIL, "queue": "letters"},
        queue="letters",
    ),
    ("POST", "/jobs/reprioritise"): _about(
        "reprioritiseJobs",
        "For scheduled jobs.",
        wire.BulkReprioritise,
        {**_MAIL, "priority": 9},
        priority=9,
    ),
}
