"""Out of a store into a dump, page by page; and where an interrupted dump can go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import msgspec

from oncue import __version__
from oncue.core import moment
from oncue.core.cursor import Cursor
from oncue.core.errors import InvalidInput
from oncue.core.queue import Queue
from oncue.ports.store import Store
from oncue.usecases.local import by_name
from oncue.wire import dump
from oncue.wire.dump import DumpCounts, Header, PageMark

Notify = Callable[[DumpCounts, int], None]
"""Hears how many lines of each noun and how many bytes have been written or read so far."""
PAGE = 1000
FIRST_PAGE = 50  # until the size of the jobs is known
PAGE_BYTES = 16 * 1024 * 1024
_BEGINNING = b'{"header":{"format":"' + dump.FORMAT.encode() + b'"'


class Interrupted(NamedTuple):
    """An unfinished dump: what follows `size` bytes is torn or will be written again."""

    size: int = 0
    header: Header | None = None
    mark: PageMark | None = None
    queues: frozenset[str] = frozenset()
    """Those that are in it."""
    complete: DumpCounts | None = None
    """There is nothing left to do."""


NOT_BEGUN = Interrupted()


@dataclass
class Dump:
    """One dump on its way out, of the whole store, or of one queue and its jobs.

    Schedules come before jobs: an occurrence that became a job in between is then in the dump, and
    the restored schedule makes it again under the same id, which changes nothing.
    """

    store: Store
    out: BinaryIO
    queue: str | None = None
    notify: Notify = lambda counts, size: None

    def write(self, since: Interrupted = NOT_BEGUN) -> DumpCounts:
        """Write what an earlier try had not yet written. Memory does not grow with the number of
        jobs and events. A job that changes meanwhile is in it once, as it was before or after."""
        mark, self._size = since.mark, since.size
        self._written = since.queues  # their names
        self._counts = DumpCounts(0, 0)
        if mark is not None:
            self._counts = msgspec.convert(mark, DumpCounts, from_attributes=True)
        if mark is None:
            self._begin()
        if self.queue is None and (mark is None or mark.event is not None):
            self._events(str(mark.event) if mark else None)
        self._jobs(mark.after or None if mark else None)
        self._queues()  # those that came meanwhile
        self._put(self._counts)
        self.out.flush()
        self.notify(self._counts, self._size)
        return self._counts

    def _begin(self) -> None:
        """Header, queues, schedules and rules."""
        store = self.store
        now = moment.render(store.clock.now())
        self._put(Header(dump.FORMAT, dump.VERSION, __version__, now, origin(store), self.queue))
        self._queues()
        if self.queue is None:
            for schedule in by_name(store.schedules):
                self._put(dump.ScheduleLine.of_dumped(schedule, store.outcomes(schedule.name)))
            for rule in by_name(store.rules):
                seen = store.sightings(rule.name, 0)
                if seen is not None:  # it is still there
                    self._put(dump.RuleLine.of_dumped(seen))

    def _queues(self) -> None:
        wanted = [
            queue
            for queue in self.store.queues()
            if self.queue in (None, queue.name) and queue.name not in self._written
        ]
        self._put(*wanted)
        self._written |= {queue.name for queue in wanted}

    def _events(self, after: Cursor | None) -> None:
        while True:
            export = self.store.export_events(after, PAGE)
            self._put(*map(dump.EventLine.of_dumped, export.items))
            if export.next is None:
                return
            after = export.next
            self._put_mark("", after)

    def _jobs(self, after: Cursor | None) -> None:
        limit = FIRST_PAGE
        while True:
            export = self.store.export(after, limit)
            wanted = [one for one in export.items if self.queue in (None, one.job.queue)]
            self._put(*map(dump.JobLine.of_dumped, wanted))
            if export.next is None:
                return
            after = export.next
            self._put_mark(after)
            # As many as fit in a page's memory if the next are as large as these.
            size = sum(one.size for one in export.items)
            if size:
                limit = max(1, min(PAGE, PAGE_BYTES * len(export.items) // size))

    def _put_mark(self, after: Cursor, event: Cursor | None = None) -> None:
        self._put(PageMark(**msgspec.structs.asdict(self._counts), after=after, event=event))
        self.notify(self._counts, self._size)

    def _put(self, *parts: dump.Part) -> None:
        for part in parts:
            self._counts.add(part)
            self._size += self.out.write(dump.encode(part))


def origin(store: Store) -> dict[str, str]:
    """What the header tells of the store."""
    facts = store.describe()
    path = None if facts.path is None else os.path.realpath(facts.path)
    described = {"kind": facts.kind, "path": path, "schema": facts.schema}
    described |= {name: facts.details.get(name) for name in ("table", "place", "schema_name")}
    return {name: str(value) for name, value in described.items() if value is not None}


def interrupted(file: BinaryIO) -> Interrupted:
    """Where the dump in this file stopped."""
    first = file.readline()
    if not first.endswith(b"\n"):
        if not _BEGINNING.startswith(first[: len(_BEGINNING)]):
            raise InvalidInput("is not a dump of oncue; nothing was changed.")
        return NOT_BEGUN
    header, size = dump.check_header(first), len(first)
    found, queues = Interrupted(0, header), set[str]()
    for text in file:
        size += len(text)
        if not text.endswith(b"\n"):
            break
        if not text.startswith((b'{"queue":', b'{"mark":', b'{"end":')):
            continue
        match dump.decode(text):
            case Queue(name=name):
                queues.add(name)
            case PageMark() as mark:
                found = Interrupted(size, header, mark, frozenset(queues))
            case DumpCounts() as counts:
                return Interrupted(size, header, complete=counts)
    return found
