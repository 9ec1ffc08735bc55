"""The store, as far as single jobs go: creation, reading, and what people change.

Every method is durable when it returns, and atomic for each job: a job changes with all that
belongs to it or not at all. Batches are not atomic: if one raises, any part may have been applied,
and it may be repeated with the same ids. Moments come in as arguments; the store reads no
clock. Each write is a compare-and-set: what it finds changed, it refuses, and it says so in its
answer rather than by an exception. Answers to batches name the exceptions only: {} means all went
well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from oncue.core.clash import ClashKind
from oncue.core.job import Diagnostic, History, Job, JobFilter, NewJob, Page, Position
from oncue.core.moment import Moment


class Clash(NamedTuple):
    """What met a new job whose id or key was there already. `job` is the one that was."""

    kind: ClashKind
    job: Job


class Amendment(NamedTuple):
    """New values for a scheduled job; None leaves the old one."""

    due_at: Moment | None = None
    priority: int | None = None
    payload: bytes | None = None


class Change(NamedTuple):
    """The answer to a change of one job: the job as it is now, None if there is none."""

    job: Job | None
    refused: Literal["state", "key"] | None = None
    """Why nothing was changed: its state forbids it, or its key has been taken meanwhile."""


class JobStore(Protocol):
    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        """Store new jobs and answer with the clashes by position.

        An id that is there: `existing` if the digests are equal (two absent ones are), else `id
        taken`; ids that came with a digest are remembered for a day whatever the retention. A key
        that an unfinished job of the queue holds: `existing`; with `replace` the holder gets the
        new due time and payload, `replaced`, or `key taken` if it has left `scheduled`. Jobs of one
        batch clash with each other in order.
        """
        ...

    def get(self, job_id: str) -> Job | None:
        """The job, or None. A job inside an open range claim shows as dispatched."""
        ...

    def history(self, job_id: str) -> History:
        """The job's operations, diagnostics (first and last 50) and attempts."""
        ...

    def page(self, wanted: JobFilter, after: Position | None, limit: int) -> Page:
        """Jobs in the order of due time then id. A page may be short and still have a next. Raises
        `InvalidInput`, naming the filters it can serve, when no index answers `wanted`."""
        ...

    def note(self, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        """Record facts about a job, whatever its state; the first and the last 50 are kept. Nothing
        else of it changes. A job that is gone has nothing recorded."""
        ...

    def amend(self, job_ids: Sequence[str], amendment: Amendment, now: Moment) -> list[Change]:
        """Change jobs that are scheduled and not inside an open range claim. An answer each."""
        ...

    def cancel(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        """End scheduled jobs that are not inside an open range claim. They are never delivered."""
        ...

    def request_cancel(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        """Mark dispatched or executing jobs; their next heartbeats learn of it."""
        ...

    def revive(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        """Make failed or cancelled jobs due now. The attempt goes on counting from where it was,
        the allowance starts anew, operations are kept. Refused if its key is taken."""
        ...
