"""What the port promises, compared as it is promised and not more exactly: a store may say an
earlier moment to look again, a page may be short or empty and still have a next, a listener may be
told again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from oncue.core.bulk import BulkChange
from oncue.core.cursor import Cursor, Page
from oncue.core.dumped import DumpedJob
from oncue.core.job import Job, JobFilter
from oncue.core.moment import Moment
from oncue.ports.store import Store

T = TypeVar("T")


class By:
    """Equal to this moment and to every earlier one: when the store says to look again. None, never
    to look, is not equal to it."""

    def __init__(self, moment: float) -> None:
        self._moment = moment

    def __eq__(self, told: object) -> bool:
        return isinstance(told, int) and told <= self._moment

    def __hash__(self) -> int:
        raise TypeError("it is equal to many")

    def __repr__(self) -> str:
        return f"{self._moment} or earlier"


def every(
    read: Callable[[Cursor | None, int], Page[T]],
    limit: int = 100,
    between: Callable[[list[T]], object] = lambda _: None,
) -> list[T]:
    """A whole listing, page by page, however short the pages are. `read` takes (after, limit);
    `between` is called with the items of each page before the next is read."""
    found: list[T] = []
    after: Cursor | None = None
    while True:
        page = read(after, limit)
        assert len(page.items) <= limit
        found += page.items
        between(page.items)
        if page.next is None:
            return found
        assert page.next != after, "a cursor must move on"
        after = page.next


def parts(store: Store, wanted: JobFilter) -> list[JobFilter]:
    """The filter; queue by queue, if the store cannot list all jobs and it means all queues."""
    everywhere = wanted.queue is None and wanted.owner is None and wanted.key is None
    if everywhere and "all-jobs" in store.traits.lacks:
        return [replace(wanted, queue=queue.name) for queue in store.queues()]
    return [wanted]


def listed(store: Store, wanted: JobFilter, limit: int = 100) -> list[Job]:
    """All jobs that fit, in order."""
    pages = [every(partial(store.page, part), limit) for part in parts(store, wanted)]
    if len(pages) == 1:
        return pages[0]
    return sorted(chain(*pages), key=lambda job: (job.due_at, job.id))


def found_by(store: Store, change: BulkChange, wanted: JobFilter, limit: int = 100) -> list[str]:
    """The ids that a bulk verb finds, sorted: a walk has an order of the store's own."""
    pages = [every(partial(store.find_all, change, part), limit) for part in parts(store, wanted)]
    return sorted(chain(*pages))


def exported(store: Store, limit: int = 100) -> list[DumpedJob]:
    """All jobs with all that belongs to them, by id: an export has no order."""
    return sorted(every(store.export, limit), key=lambda dumped: dumped.job.id)


class Listening:
    """Everything a store told, and whether it covers a piece of work."""

    def __init__(self, store: Store) -> None:
        self.told: list[tuple[str | None, Moment]] = []
        self.stop = store.watch(lambda queue, due_at: self.told.append((queue, due_at)))

    def has_heard_of(self, queue: str, due_at: Moment) -> bool:
        return any(name is None or (name == queue and at <= due_at) for name, at in self.told)

    def has_heard_of_settings(self) -> bool:
        return (None, 0) in self.told
