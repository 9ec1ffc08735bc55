"""`oncue.aws.start_scheduled_tasks`: the function that starts the tasks of a date.

It is invoked at 00:00 UTC and every hour until 05:00: the later runs complete an earlier one that
failed. It delivers the queue `tasks` alone, and a task that was started is not started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from oncue.aws import sandbox
from oncue.aws.sandbox import Context, Event
from oncue.aws.ticks import MARGIN_MS, run
from oncue.core.errors import InvalidInput
from oncue.core.moment import from_datetime

QUEUE = "tasks"
RUN_EVERY_SECONDS = 3600.0


def start_scheduled_tasks(event: Event, context: Context) -> Mapping[str, Any]:
    """Start all tasks whose date has come. With `date` in the event (YYYY-MM-DD), also those of
    that date, if it is in the future: they keep their `dueDate`."""
    day = _date_of(event)
    moved = 0 if day is None else _make_due(day, context)
    done = run(context, only=[QUEUE], tick_seconds=RUN_EVERY_SECONDS, ahead_seconds=0.0)
    return {**done, "started_early": moved}


def _date_of(event: Event) -> datetime | None:
    text = event.get("date") if isinstance(event, Mapping) else None
    if text is None:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
    except (TypeError, ValueError):
        raise InvalidInput("must be a date such as 2022-02-01.", "/date") from None


def _make_due(day: datetime, context: Context) -> int:
    """Make the tasks of a date that has not come due now. How many."""
    cue = sandbox.scheduler()
    if from_datetime(day) <= cue.clock.now():
        return 0
    seconds = max(0.0, (context.get_remaining_time_in_millis() - MARGIN_MS) / 2000)
    end = day + timedelta(days=1)
    return cue.run_all(queue=QUEUE, due_after=day, due_before=end, seconds=seconds).changed
