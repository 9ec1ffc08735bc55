"""Out of a store into a dump, page by page; and where an interrupted dump can go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from oncue import __version__, dump
from oncue.core import moment
from oncue.core.dossier import Dossier
from oncue.core.errors import InvalidInput
from oncue.dump import Counts, Header, Line, Mark
from oncue.ports.store import Store

PAGE = 1000
FIRST_PAGE = 50  # until the size of the jobs is known
PAGE_BYTES = 16 * 1024 * 1024
_BEGINNING = b'{"header":{"format":"' + dump.FORMAT.encode() + b'"'


class Progress(NamedTuple):
    counts: Counts
    size: int
    """Bytes written or read so far."""


class Interrupted(NamedTuple):
    """An unfinished dump: what follows `size` bytes is torn or will be written again."""

    size: int
    header: Header | None = None
    mark: Mark | None = None
    complete: Counts | None = None
    """There is nothing left to do."""


def write(
    store: Store,
    out: BinaryIO,
    queue: str | None = None,
    since: Interrupted | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
) -> Counts:
    """Write everything, or everything of one queue; with `since`, what an earlier try had not yet
    written. Memory does not grow with the number of jobs. Jobs that change meanwhile are in it
    once, as they were or as they are."""
    mark = since.mark if since else None
    counts = Counts(0, 0) if mark is None else Counts(mark.jobs, mark.queues)
    size = since.size if since else 0
    after = mark.after if mark else None
    if mark is None:
        size += _begin(store, out, queue, counts)
    limit = FIRST_PAGE
    while True:
        export = store.export(after, limit)
        wanted = [d for d in export.dossiers if queue is None or d.job.queue == queue]
        text = b"".join([dump.encode(dump.job_line(d)) for d in wanted])
        out.write(text)
        size += len(text)
        counts.jobs += len(wanted)
        if export.next is None:
            break
        after = export.next
        size += out.write(dump.encode(Line(mark=Mark(counts.jobs, counts.queues, after))))
        limit = _next_limit(export.dossiers)
        told(Progress(counts, size))
    size += out.write(dump.encode(Line(end=counts)))
    out.flush()
    told(Progress(counts, size))
    return counts


def origin(store: Store) -> dict[str, str]:
    """What the header tells of the store."""
    facts = store.describe()
    path = None if facts.path is None else os.path.realpath(facts.path)
    told = {"kind": facts.kind, "path": path, "schema": facts.schema}
    return {name: str(value) for name, value in told.items() if value is not None}


def interrupted(file: BinaryIO) -> Interrupted:
    """Where the dump in this file stopped."""
    first = file.readline()
    if not first.endswith(b"\n"):
        if not _BEGINNING.startswith(first[: len(_BEGINNING)]):
            raise InvalidInput("is not a dump of oncue; nothing was changed.")
        return Interrupted(0)
    header, place = dump.check_header(first), len(first)
    found = Interrupted(0, header)
    for text in file:
        place += len(text)
        if not text.endswith(b"\n"):
            break
        if text.startswith(b'{"mark":'):
            found = Interrupted(place, header, dump.decode(text).mark)
        elif text.startswith(b'{"end":'):
            return Interrupted(place, header, complete=dump.decode(text).end)
    return found


def _begin(store: Store, out: BinaryIO, queue: str | None, counts: Counts) -> int:
    """Header and queues."""
    now = moment.render(store.clock.now())
    header = Header(dump.FORMAT, dump.VERSION, __version__, now, origin(store), queue)
    queues = [known for known in store.queues() if queue is None or known.name == queue]
    counts.queues = len(queues)
    lines = [Line(header=header), *(Line(queue=known) for known in queues)]
    text = b"".join([dump.encode(line) for line in lines])
    out.write(text)
    return len(text)


def _next_limit(page: Sequence[Dossier]) -> int:
    """As many as fit in a page's memory if the next are as large as these."""
    size = sum(len(d.job.payload_json) + len(d.job.result_json or b"") for d in page)
    return max(1, min(PAGE, PAGE_BYTES * len(page) // max(size, 1)))
