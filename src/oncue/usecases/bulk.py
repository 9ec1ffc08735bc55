"""Bulk verbs as people ask for them: all jobs that fit a filter, a few at a time.

Every part is small, and is followed by a rest of a quarter of the time that its write took. So
dispatching, claiming and scheduling wait for milliseconds, not until the verb is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Unpack

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
from oncue.core.moment import Moment
from oncue.core.queue import check_queue_name
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock
from oncue.ports.jobs import JobStore
from oncue.usecases import intake
from oncue.usecases.local import Local

CHUNK = 400  # jobs changed in one transaction: 2 or 3 ms
REST = 0.25  # of the time of a write: who waits for the store comes first
LOOK = 5000  # jobs looked at by one read of a dry run, which blocks no writer

Progress = Callable[[BulkOutcome], None]
"""Told how far it is after each part; the outcome is the caller's to read, not to keep."""


class BulkOptions(intake.FilterFields, total=False):
    """Which jobs, how many of them, and what for. At least one filter, or `everything`."""

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
    """The bulk methods of a scheduler and of a client."""

    clock: Clock

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

    def _carry_out(self, verb: BulkVerb, options: BulkOptions, **how: Any) -> BulkOutcome:
        """Do it; `how` are the fields of the change."""
        order = order_of(verb, options, self.clock.now(), **how)
        return carry_out(self, order, options.get("progress"))

    @abstractmethod
    def _part(self, order: BulkOrder, outcome: BulkOutcome) -> float:
        """Do the next part, and add what it came to. For how many seconds to rest after it."""


def carry_out(cue: BulkVerbs, order: BulkOrder, progress: Progress | None = None) -> BulkOutcome:
    """Do what was ordered, or as much of it as its bounds allow."""
    for outcome in in_parts(cue, order):
        if progress is not None:
            progress(outcome)
    return outcome


def in_parts(cue: BulkVerbs, order: BulkOrder) -> Iterator[BulkOutcome]:
    """Do what was ordered, or as much of it as its bounds allow: a part at each step, at least one.
    The outcome so far, the same object each time; it can be gone on from after any part."""
    outcome, alarm = BulkOutcome(), Alarm(cue.clock)
    if order.after is not None:
        outcome.next_cursor = str(BulkCursor(order.change.begun_at, order.after))
    ends = None if order.seconds is None else cue.clock.monotonic() + order.seconds
    while True:
        rest = cue._part(order, outcome)
        yield outcome
        over = ends is not None and cue.clock.monotonic() >= ends
        if outcome.next_cursor is None or outcome.matched == order.limit or over:
            return
        alarm.pause(rest)


class LocalBulk(Local, BulkVerbs):
    """In a store."""

    def _part(self, order: BulkOrder, outcome: BulkOutcome) -> float:
        cursor, change = outcome.next_cursor, order.change
        after = None if cursor is None else BulkCursor.read(cursor).after
        size = LOOK if order.dry_run else CHUNK
        if order.limit is not None:
            size = min(size, order.limit - outcome.matched)
        found = self.store.find_all(change, order.wanted, after, size)
        outcome.matched += len(found.items)
        outcome.next_cursor = found.next and str(BulkCursor(change.begun_at, found.next))
        began = ended = self.clock.monotonic()
        if found.items and not order.dry_run:
            done = change_all(self.store, change, order.wanted, found.items, self.clock.now())
            ended = self.clock.monotonic()
            outcome.changed += done.changed
            outcome.key_taken += done.key_taken
        shown = [self.store.get(job_id) for job_id in found.items[: SAMPLE - len(outcome.sample)]]
        outcome.sample += [job for job in shown if job is not None]
        return REST * (ended - began)


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
        refused = store.change(left, part, now).refused
        changed += len(left) - len(refused)
        key_taken += sum(why.reason == "key" for why in refused.values())
        left = [left[at] for at, why in sorted(refused.items()) if why.reason == "state"]
    return BulkDone(changed, key_taken)


def order_of(verb: BulkVerb, options: BulkOptions, now: Moment, **how: Any) -> BulkOrder:
    """The order that these options describe; `how` are the fields of the change."""
    for unknown in sorted(options.keys() - BulkOptions.__annotations__.keys()):
        raise intake.unknown_filter(unknown)
    text, limit = options.get("cursor"), options.get("limit")
    cursor = None if text is None else BulkCursor.read(text)
    if limit is not None and (not isinstance(limit, int) or limit is True or limit < 1):
        raise InvalidInput("must be a whole number from 1 on.", "/limit")
    order = BulkOrder(
        BulkChange(verb, now if cursor is None else cursor.begun_at, **how),
        intake.job_filter({name: options.get(name) for name in FILTERS}),
        options.get("dry_run", False),
        None if cursor is None else cursor.after,
        limit,
        options.get("seconds"),
    )
    return check_order(order, everything=options.get("everything", False))
