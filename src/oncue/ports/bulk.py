"""The store, as far as bulk verbs go: find a page of jobs that fit.

Finding only reads, so it blocks no writer. The jobs that were found are changed by
`JobStore.change`, if they still fit. A caller that changes many jobs asks for short pages and rests
in between, so that others can write.
"""

from __future__ import annotations

from typing import Protocol

from oncue.core.bulk import BulkChange
from oncue.core.cursor import Cursor, Page
from oncue.core.job import JobFilter

BulkFound = Page[str]
"""Ids of jobs that a change applies to. Its `next` holds for this change and filter. A page may be
short or empty and still have a next."""


class BulkStore(Protocol):
    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        """Jobs that fit the filter and are in one of `change.states`, in an order of the store's
        own, after `after`, which is the `next` of the page before; up to `limit` of them. A store
        looks at a bounded number of jobs, so a page may be empty. None inside an open range claim:
        those are being delivered. For RETRY, none that finished after the change began. A `next`
        stays valid when the jobs change or go, and no job is found again because the change moved
        it. The cost of a walk depends on the number of jobs and not on that of queues. Refuses the
        filters that `JobStore.page` refuses."""
