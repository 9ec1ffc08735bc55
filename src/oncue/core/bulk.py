"""Bulk verbs: one change for all jobs that fit a filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from oncue.core.changes import ANY, ChangeVerb, JobChange
from oncue.core.cursor import Cursor, not_a_cursor, number_at
from oncue.core.errors import InvalidInput
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import Moment

SAMPLE = 20  # jobs that an outcome shows
FILTERS = ("queue", "state", "owner", "key", "due_after", "due_before")


class BulkVerb(StrEnum):
    """What can be done to all jobs that fit a filter."""

    CANCEL = "cancel"
    RUN = "run"
    RETRY = "retry"
    MOVE = "move"
    REPRIORITISE = "reprioritise"


_VERBS = {
    BulkVerb.CANCEL: ChangeVerb.CANCEL,
    BulkVerb.RUN: ChangeVerb.RUN,
    BulkVerb.RETRY: ChangeVerb.REVIVE,
    BulkVerb.MOVE: ChangeVerb.MOVE,
    BulkVerb.REPRIORITISE: ChangeVerb.AMEND,
}


@dataclass(frozen=True, slots=True)
class BulkChange:
    """The change that is made to each job."""

    verb: BulkVerb
    begun_at: Moment
    """When it was first asked for. Jobs that finished later are not retried: one that fails at once
    would be retried for ever."""
    running: bool = False
    """With CANCEL: ask taken jobs to stop."""
    queue: str | None = None
    """With MOVE: where to."""
    priority: int | None = None
    """With REPRIORITISE."""

    @property
    def states(self) -> frozenset[State]:
        """The states of the jobs to which it applies."""
        return frozenset().union(*(one.states for one in self.parts(ANY)))

    def parts(self, wanted: JobFilter) -> list[JobChange]:
        """The changes that make it up. Each is for the jobs whose state forbade the one before."""
        verbs = [_VERBS[self.verb], *([ChangeVerb.STOP] if self.running else [])]
        return [
            JobChange(verb, wanted, self.begun_at, priority=self.priority, queue=self.queue)
            for verb in verbs
        ]


class BulkCursor(NamedTuple):
    """Where a bulk verb goes on: the change it began as, and how far the store had looked."""

    begun_at: Moment
    after: Cursor
    """The `BulkFound.next` of the page before; only the store understands it."""

    def __str__(self) -> str:
        return f"{self.begun_at}_{self.after}"

    @classmethod
    def read(cls, text: str) -> BulkCursor:
        """The cursor that a text stands for."""
        begun_at, _, after = text.partition("_")
        if not after:
            raise not_a_cursor()
        return cls(number_at(begun_at), after)


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """A bulk verb as it was asked for, checked."""

    change: BulkChange
    wanted: JobFilter
    dry_run: bool = False
    after: Cursor | None = None
    limit: int | None = None
    """Go no further than so many jobs that fit; None: to the end."""
    seconds: float | None = None
    """Begin nothing more after so long."""


@dataclass(slots=True)
class BulkOutcome:
    """What a bulk verb has done so far."""

    matched: int = 0
    """Jobs that fit the filter and whose state allows the change."""
    changed: int = 0
    """Those of them that were changed; none in a dry run. The others were as wanted already, were
    taken just then, or could not keep their key."""
    key_taken: int = 0
    """Those whose key another unfinished job of the queue has."""
    sample: list[Job] = field(default_factory=list)
    """The first of them, up to twenty, as they are now."""
    next_cursor: str | None = None
    """What `cursor` takes to go on; None: that was all."""


def check_order(order: BulkOrder, *, everything: bool) -> BulkOrder:
    """The order; refused if no job can fit it, or if it means all jobs without saying so."""
    wanted, change = order.wanted, order.change
    if wanted == JobFilter() and not everything:
        raise InvalidInput(
            f"give at least one of {', '.join(FILTERS)}; or 'everything', to {change.verb} "
            "all jobs.",
            "/filter",
        )
    if wanted.state is not None and wanted.state not in change.states:
        states = " or ".join(state for state in State if state in change.states)
        running = change.verb is BulkVerb.CANCEL and wanted.state in LIVE
        hint = " With 'running', taken ones are asked to stop." if running else ""
        raise InvalidInput(
            f"'{change.verb}' is for jobs that are {states}; leave the state out, or name "
            f"one of these.{hint}",
            "/state",
        )
    return order
