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
from typing import NamedTuple, Protocol

from oncue.core.changes import JobChange, NotChanged
from oncue.core.clash import ClashKind
from oncue.core.cursor import MOST_ITEMS, Cursor
from oncue.core.errors import HeldByOthers
from oncue.core.job import Diagnostic, History, Job, JobFilter, JobPage, NewJob
from oncue.core.moment import Moment


class Clash(NamedTuple):
    """A new job whose id or key was there already. `job` is the one that has it."""

    kind: ClashKind
    job: Job


class Changed(NamedTuple):
    """What became of a change."""

    refused: Mapping[int, NotChanged]
    """The jobs that were not changed, by position."""
    first: Job | None
    """The first of the jobs that were named, changed or not, as it is then: a caller that changes
    one job need not read it again, when it may be gone. None: there is no such job."""


class JobStore(Protocol):
    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash | HeldByOthers]:
        """Store new jobs and answer with the clashes by position.

        An id that is there: `existing` if the digests are equal (two absent ones are), else `id
        taken`; ids that came with a digest are remembered for a day whatever the retention. A key
        that an unfinished job of the queue holds: `existing`; with `replace` the holder gets the
        new due time and payload, `replaced`, or `key taken` if it has left `scheduled`. Jobs of one
        batch clash with each other in order.

        `HeldByOthers`: it cannot be told whether the job clashes before a transaction of others has
        ended. It is not stored, and the others do not wait for it: ask again.
        """

    def get(self, job_id: str) -> Job | None:
        """The job, or None. A job inside an open range claim shows as dispatched."""

    def history(self, job_id: str, after: Cursor | None = None, limit: int = MOST_ITEMS) -> History:
        """The job's operations, diagnostics (first and last 50) and attempts. Of the operations at
        most `limit`, and as many as one answer has room for (`core/operations.py`); the others are
        told from the cursor on: with `after`, the answer has operations and nothing else."""

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        """Jobs in the order of due time then id. A page may be short and still have a next. Raises
        `InvalidInput`, naming the filters it can serve, when no index answers `wanted`. A filter
        that means all queues is refused by a store that lacks `all-jobs`."""

    def note(self, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        """Record facts about a job, whatever its state; the first and the last 50 are kept. Nothing
        else of it changes. A job that is gone has nothing recorded."""

    def change(self, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        """Change those of these jobs for which `core/changes.py: decide` says so; the others are
        named, each with the reason. Each id is given once. Of several jobs that need the same
        key, the first in the order of due time then id is changed."""
