"""Where `oncue jobs load` puts a chunk of jobs: into a store, or to a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from oncue.core.errors import Conflict
from oncue.core.job import NewJob

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

SENT_AT_ONCE = 1000  # a server describes no more refusals than that in one answer


class Line(NamedTuple):
    """A line that has been found right. `fields` name their own id."""

    number: int
    fields: dict[str, Any]
    job: NewJob


class Inserted(NamedTuple):
    refused: dict[int, str]
    """Why, by the position in the chunk. All others are stored."""
    existing: int
    key_held: int
    """Of the existing: another job has the line's key."""


Insert = Callable[[Sequence[Line]], Inserted]


def inserter(cue: Scheduler | Client) -> Insert:
    """What stores a chunk there. Repeating it stores nothing twice, as every line has an id."""
    from oncue.scheduler import Scheduler

    if isinstance(cue, Scheduler):
        return lambda lines: _into_store(cue, lines)
    return lambda lines: _to_server(cue, lines)


def _into_store(cue: Scheduler, lines: Sequence[Line]) -> Inserted:
    from oncue.scheduler import answer

    clashes = cue.store.insert([line.job for line in lines], cue.clock.now())
    refused, key_held = {}, 0
    for position, clash in clashes.items():
        job = lines[position].job
        try:
            key_held += answer(job, clash).id != job.id
        except Conflict as refusal:
            refused[position] = str(refusal)
    return Inserted(refused, len(clashes) - len(refused), key_held)


def _to_server(cue: Client, lines: Sequence[Line]) -> Inserted:
    from oncue.client.jobs import sent

    refused: dict[int, str] = {}
    existing = key_held = 0
    for start in range(0, len(lines), SENT_AT_ONCE):
        some = lines[start : start + SENT_AT_ONCE]
        told = cue.store_lines([msgspec.json.encode(sent(line.fields)) for line in some])
        refused |= {start + one.line - 1: one.detail for one in told.rejected}
        existing += told.existing
        pairs = zip(some, told.ids, strict=True)
        key_held += sum(stored is not None and stored != line.job.id for line, stored in pairs)
    return Inserted(refused, existing, key_held)
