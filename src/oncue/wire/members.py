"""Schedules as JSON: the members and names that the HTTP interface and the command line
share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from oncue.core.recurrence import Outcome
from oncue.core.runs import Difference, Run
from oncue.core.schedule import Schedule


def rfc3339(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(timespec="milliseconds")[:-6] + "Z"


def schedule_members(schedule: Schedule) -> dict[str, Any]:
    is_interval = schedule.every_seconds is not None
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "every_seconds": schedule.every_seconds,
        "timezone": schedule.timezone,
        "queue": schedule.queue,
        "payload": msgspec.Raw(schedule.payload_json),
        "owner": schedule.owner,
        "emits": None if schedule.emits is None else schedule.emits.as_dict(),
        "catch_up": schedule.catch_up.value,
        "overlap": schedule.overlap.value,
        "paused": schedule.paused,
        "anchor_at": rfc3339(schedule.anchor_at) if is_interval else None,
        "next_at": rfc3339(schedule.next_at),
        "last_at": rfc3339(schedule.last_at),
        "last_job_id": schedule.progress.last_job_id,
        "created_at": rfc3339(schedule.created_at),
        "updated_at": rfc3339(schedule.updated_at),
    }


def run_members(run: Run) -> dict[str, Any]:
    return {
        "at": rfc3339(run.at),
        "local": run.local.isoformat(timespec="milliseconds"),
        "mark": run.mark.value,
        "note": run.note or None,
    }


def difference_members(difference: Difference) -> dict[str, Any]:
    return {name: [run_members(run) for run in runs] for name, runs in difference._asdict().items()}


def outcome_members(outcome: Outcome) -> dict[str, Any]:
    return {
        "fate": outcome.fate.value,
        "at": rfc3339(outcome.at),
        "until": rfc3339(outcome.until),
        "count": outcome.count,
        "job_id": outcome.job_id,
        "decided_at": rfc3339(outcome.decided_at),
    }
