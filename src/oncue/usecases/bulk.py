"""Bulk verbs as people ask for them: all jobs that fit a filter, a few at a time.

Every part is small, and after each the others get as much time as its write took: whoever
dispatches, claims or schedules meanwhile waits for milliseconds, not for the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack

from oncue.core.bulk import (
    FILTERS,
    SAMPLE,
    BulkChange,
    BulkCursor,
    BulkOrder,
    BulkOutcome,
    BulkVerb,
    check_order,
)
from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import check_queue_name
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock
from oncue.ports.jobs import JobStore
from oncue.ports.store import Store
from oncue.usecases import intake

CHUNK = 250  # jobs changed in one transaction: 2 or 3 ms
LOOK = 5000  # jobs looked at by one read of a dry run, which keeps nobody from writing

Progress = Callable[[BulkOutcome], None]
"""Told how far it is after each part; the outcome is the caller's to read, not to keep."""


class BulkOptions(TypedDict, total=False):
    """Which jobs, how many of them, and what for. At least one filter, or `everything`."""

    queue: str | None
    state: State | str | None
    owner: str | None
    key: str | None
    due_after: datetime | None
    """Due then or later."""
    due_before: datetime | None
    everything: bool
    """No filter is meant: all jobs of the store."""
    dry_run: bool
    """Count and show a sample; change nothing."""
    cursor: str | None
    """The `next_cursor` of the part before."""
    limit: int | None
    """Go no further than so many jobs that fit."""
    seconds: float | None
    """Begin nothing more after so long."""
    progress: Progress


class BulkVerbs(ABC):
    """The verbs, wherever they are carried out."""

    def cancel_all(self, *, running: bool = False, **options: Unpack[BulkOptions]) -> BulkOutcome:
        """End all scheduled jobs that fit: they will not be delivered. With `running`, taken ones
        are asked to stop; those that a sink is just receiving are left alone."""
        return self._carry_out(BulkVerb.CANCEL, options, running=running)

    def run_all(self, **options: Unpack[BulkOptions]) -> BulkOutcome:
        """Make all scheduled jobs that fit due now; due ones keep their place in the line."""
        return self._carry_out(BulkVerb.RUN, options)

    def retry_all(self, **options: Unpack[BulkOptions]) -> BulkOutcome:
        """Make all failed or cancelled jobs that fit due again, now, with their attempts anew.
        What finishes after this began is left alone, and so is a job whose key is taken."""
        return self._carry_out(BulkVerb.RETRY, options)

    def move_all(self, *, to: str, **options: Unpack[BulkOptions]) -> BulkOutcome:
        """Give all scheduled jobs that fit to another queue, whose settings then hold for them.
        One whose key is taken there stays where it is."""
        return self._carry_out(BulkVerb.MOVE, options, queue=check_queue_name(to, "/to"))

    def reprioritise_all(self, *, priority: int, **options: Unpack[BulkOptions]) -> BulkOutcome:
        """Give all scheduled jobs that fit another priority."""
        priority = intake.check_priority(priority)
        return self._carry_out(BulkVerb.REPRIORITISE, options, priority=priority)

    @abstractmethod
    def _carry_out(self, verb: BulkVerb, options: BulkOptions, **how: Any) -> BulkOutcome:
        """Do it; `how` are the fields of the change."""


class BulkChanges(BulkVerbs):
    """In a store."""

    store: Store
    clock: Clock

    def _carry_out(self, verb: BulkVerb, options: BulkOptions, **how: Any) -> BulkOutcome:
        order = order_of(verb, options, self.clock.now(), **how)
        return carry_out(self.store, self.clock, order, options.get("progress"))


def carry_out(
    store: Store, clock: Clock, order: BulkOrder, progress: Progress | None = None
) -> BulkOutcome:
    """Do what was ordered, or as much of it as its bounds allow."""
    outcome = BulkOutcome()
    alarm = Alarm(clock)
    ends = None if order.seconds is None else clock.monotonic() + order.seconds
    after = order.after
    while True:
        found = store.find_all(order.change, order.wanted, after, _size(order, outcome))
        after = found.next
        outcome.matched += len(found.ids)
        outcome.next_cursor = after and str(BulkCursor(order.change.begun_at, after))
        began = ended = clock.monotonic()
        if found.ids and not order.dry_run:
            done = change_all(store, order.change, order.wanted, found.ids, clock.now())
            ended = clock.monotonic()
            outcome.changed += done.changed
            outcome.key_taken += done.key_taken
        _add_sample(store, outcome, found.ids)
        if progress is not None:
            progress(outcome)
        over = ends is not None and clock.monotonic() >= ends
        if after is None or outcome.matched == order.limit or over:
            return outcome
        alarm.pause(ended - began)


class BulkDone(NamedTuple):
    changed: int
    key_taken: int = 0
    """How many were left alone because another unfinished job of the queue has their key."""


def change_all(
    store: JobStore, change: BulkChange, wanted: JobFilter, job_ids: Sequence[str], now: Moment
) -> BulkDone:
    """Change those of these jobs that still fit."""
    left, key_taken = list(job_ids), 0
    changed = 0
    for part in change.parts(wanted):
        refused = store.change(left, part, now)
        changed += len(left) - len(refused)
        key_taken += sum(why.reason == "key" for why in refused.values())
        left = [left[at] for at, why in sorted(refused.items()) if why.reason == "state"]
    return BulkDone(changed, key_taken)


def _size(order: BulkOrder, outcome: BulkOutcome) -> int:
    """How many jobs the next part looks at."""
    size = LOOK if order.dry_run else CHUNK
    return size if order.limit is None else min(size, order.limit - outcome.matched)


def _add_sample(store: Store, outcome: BulkOutcome, job_ids: Sequence[str]) -> None:
    for job_id in job_ids[: SAMPLE - len(outcome.sample)]:
        job = store.get(job_id)
        if job is not None:
            outcome.sample.append(job)


def order_of(verb: BulkVerb, options: BulkOptions, now: Moment, **how: Any) -> BulkOrder:
    """The order that these options describe; `how` are the fields of the change."""
    for unknown in sorted(options.keys() - BulkOptions.__annotations__.keys()):
        known = ", ".join(FILTERS)
        raise InvalidInput(f"there is no such option; the filters are {known}.", f"/{unknown}")
    text = options.get("cursor")
    cursor = None if text is None else BulkCursor.read(text)
    return check_order(
        BulkOrder(
            BulkChange(verb, now if cursor is None else cursor.begun_at, **how),
            filter_of(options),
            options.get("dry_run", False),
            None if cursor is None else cursor.after,
            _limit(options.get("limit")),
            options.get("seconds"),
        ),
        everything=options.get("everything", False),
    )


def filter_of(options: BulkOptions) -> JobFilter:
    return intake.job_filter(
        options.get("queue"),
        options.get("state"),
        options.get("owner"),
        options.get("key"),
        options.get("due_after"),
        options.get("due_before"),
    )


def _limit(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput("must be a whole number from 1 on.", "/limit")
    return value
