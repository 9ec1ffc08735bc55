"""The store, as far as bulk verbs go: find a page of jobs that fit, change those that still do.

Finding only reads, so it keeps nobody from writing. Changing is a compare-and-set for each job, as
for the single verbs, in a few statements for all of them. A caller that changes many jobs asks for
short pages and rests in between, so that others can write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oncue.core.bulk import BulkChange
from oncue.core.job import JobFilter
from oncue.core.moment import Moment


class BulkFound(NamedTuple):
    """Jobs that a change applies to."""

    ids: list[str]
    next: str | None
    """Where to go on, for this change and filter, understood by the store alone; None: that was
    all. A page may be short or empty and still have a next."""


class BulkDone(NamedTuple):
    changed: int
    key_taken: int = 0
    """How many were left alone because another unfinished job of the queue has their key."""


class BulkStore(Protocol):
    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        """Jobs that fit the filter and are in one of `change.states`, in an order of the store's
        own, after `after`, which is the `next` of the page before; up to `limit` are looked at.
        None inside an open range claim: those are being delivered. For RETRY, none that finished
        after the change began. A `next` stays good whatever becomes of the jobs, and no job is
        found again because the change moved it. What a walk costs depends on the jobs and not on
        the number of queues. Raises `InvalidInput` when `after` is no such text, or, naming the
        filters it can serve, when no index answers `wanted`."""
        ...

    def change_all(
        self, change: BulkChange, wanted: JobFilter, job_ids: Sequence[str], now: Moment
    ) -> BulkDone:
        """Change those of these jobs that fit now as `find_all` says, and that are not as wanted
        already. Each is changed as the single verb would:

        CANCEL ends scheduled jobs; with `running`, taken ones are asked to stop. RUN makes those
        due now that are not due yet; the others keep their place. RETRY is `revive`. MOVE gives
        scheduled jobs another queue and leaves the rest of them alone. REPRIORITISE gives scheduled
        jobs another priority. A key that is taken in the queue where a job would be unfinished
        excludes it; of several with one key the first in order is changed.
        """
        ...
