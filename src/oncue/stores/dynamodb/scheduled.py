"""A schedule as the table has it: its head, and pages of what became of its occurrences.

What became of the last occurrences is in the head, so that an ordinary occurrence writes no other
item of the schedule. What is too much for the head becomes a page; the last pages are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from secrets import randbits
from typing import Any, NamedTuple

import msgspec

from oncue.core.ids import REMEMBERED_MS
from oncue.core.moment import Moment, from_datetime, to_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome
from oncue.core.schedule import Progress, Schedule, occurrence_id
from oncue.ports.schedules import Advance
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, reader, to_text
from oncue.stores.dynamodb.filed import MISSING
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import Item, Put, Remove, Write, as_ttl, unchanged

RECENT = 10
"""So many entries the head holds; with more they become a page. As every page has more than that,
all pages have more than `OUTCOMES_KEPT` outcomes, even if each of them was withdrawn later."""
INLINE_BYTES = 256
"""Payloads that are larger stand apart: every occurrence writes the head."""
CHANGED_ITEMS, DELETED_ITEMS = 3, 2 + keys.OUTCOME_PAGES
"""The most items of the schedule itself in one transaction: head, name and page; or all pages."""

Row = list[Any]
"""An entry of the log: an outcome, or what an outcome before it has become."""
_NOT_SETTINGS = frozenset({"name", "payload_json", "revision", "progress", "unfinished"})
_read = reader(Schedule)
_DEFAULTS = msgspec.to_builtins(Schedule(""))


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What the table has of one name."""

    ver: int = 0
    """0: nothing."""
    schedule: Schedule | None = None
    """None: there is none. Its payload is missing if it stands apart."""
    payload_number: int | None = None
    """Of the payload that stands apart. It is random: of two who change the schedule at the same
    moment, none writes over the payload of the other."""
    recent: tuple[Row, ...] = ()
    pages: int = 0
    """How many pages were written so far."""

    def is_as(self, seen: Schedule | None) -> bool:
        """Whether the schedule is still as it was seen."""
        if self.schedule is None or seen is None:
            return self.schedule is seen
        was, is_now = seen.progress, self.schedule.progress
        alike = (was.next_at, was.wake_at) == (is_now.next_at, is_now.wake_at)
        return self.schedule.revision == seen.revision and alike


class HeadChange(NamedTuple):
    """One change of a schedule."""

    before: list[Item]
    """Written first. Without the head, nothing refers to them."""
    together: list[Write]
    removed: list[Key]
    """Of what is removed at the end, nothing is visible any more."""


def read_head(item: Item | None) -> Scheduled:
    """The head of a schedule; that of one that was deleted has only a version."""
    if item is None:
        return Scheduled()
    if "rec" not in item:
        return Scheduled(item["ver"])
    shown = from_text(item["rec"])
    schedule = replace(
        _read({**shown["settings"], "name": item["pk"][2:]}),
        payload_json=item.get("payload", b""),
        revision=shown["revision"],
        progress=Progress(*shown["progress"]),
    )
    recent = tuple(shown.get("recent", ()))
    return Scheduled(item["ver"], schedule, shown.get("payload"), recent, shown.get("pages", 0))


def change(was: Scheduled, one: Advance, now: Moment) -> HeadChange:
    """What this change writes, jobs aside. The head is the condition of all the rest."""
    ver = max(now, was.ver + 1)
    number = was.payload_number
    old = [] if number is None else [keys.schedule_payload(one.name, number)]
    if one.then is None:
        return HeadChange([], _deletion(was, one.name, ver, now), old)
    then = replace(one.then, progress=one.progress or one.then.progress)
    before: list[Item] = []
    if one.seen is not None and one.is_progress:
        then = replace(then, revision=one.seen.revision)
        old = []
    elif then.payload_json is MISSING:  # it stays so until another one is set
        then, old = replace(then, revision=ver), []
    else:
        then = replace(then, revision=ver)
        number = randbits(40) if len(then.payload_json) > INLINE_BYTES else None
        if number is not None:
            key = keys.schedule_payload(one.name, number)
            before.append({**key._asdict(), "payload": then.payload_json})
    recent = (*was.recent, *_rows(one))
    pages, spilled = was.pages, len(recent) > RECENT
    together: list[Write] = []
    if spilled:
        together.append(Put(_page(one.name, pages, recent)))
        recent, pages = (), pages + 1
    if was.schedule is None:
        together.append(Put({**keys.schedule_name(one.name)._asdict(), "ver": ver}))
    head = Scheduled(ver, then, number, recent, pages)
    return HeadChange(before, [Put(_head(head, then), unchanged(was.ver)), *together], old)


def _deletion(was: Scheduled, name: str, ver: int, now: Moment) -> list[Write]:
    """The version stays for a day, so that a late request does not bring the schedule back."""
    ttl = as_ttl(now + REMEMBERED_MS)
    head: Item = {**keys.schedule(name)._asdict(), "ver": ver, "ttl": ttl}
    pages = range(min(was.pages, keys.OUTCOME_PAGES))
    return [
        Put(head, unchanged(was.ver)),
        Remove(keys.schedule_name(name)),
        *(Remove(keys.outcomes(name, page)) for page in pages),
    ]


def _head(head: Scheduled, schedule: Schedule) -> Item:
    settings = msgspec.to_builtins(schedule)
    shown: dict[str, Any] = {
        "settings": {
            name: value
            for name, value in settings.items()
            if name not in _NOT_SETTINGS and value != _DEFAULTS[name]
        },
        "revision": schedule.revision,
        "progress": schedule.progress,
    }
    more = {"recent": head.recent, "pages": head.pages, "payload": head.payload_number}
    rec = to_text(shown | {name: value for name, value in more.items() if value})
    item: Item = {**keys.schedule(schedule.name)._asdict(), "ver": head.ver, "rec": rec}
    if head.payload_number is None:
        item["payload"] = schedule.payload_json
    wake_at = schedule.progress.wake_at
    if wake_at is not None and not schedule.paused:
        item |= keys.wake(schedule.name, wake_at)._asdict()
    return item


def _page(name: str, number: int, rows: Sequence[Row]) -> Item:
    return {**keys.outcomes(name, number)._asdict(), "number": number, "rows": to_text(rows)}


def _rows(one: Advance) -> list[Row]:
    amended = [[*_row(one.name, outcome), True] for outcome in one.withdrawn]
    return amended + [_row(one.name, outcome) for outcome in one.outcomes]


def _row(name: str, one: Outcome) -> Row:
    """Brief: moments count from the first one, and the usual id of the job is only `true`."""
    at = from_datetime(one.at)
    job: str | bool | None = one.job_id
    if job == occurrence_id(name, at):
        job = True
    until, decided_at = from_datetime(one.until) - at, from_datetime(one.decided_at) - at
    return [one.fate, at, until, decided_at, one.count, job]


def _outcome(name: str, row: Row) -> Outcome:
    fate, at, until, decided_at, count, job = row[:6]
    job_id = occurrence_id(name, at) if job is True else job
    moments = to_datetime(at), to_datetime(at + until), to_datetime(at + decided_at)
    return Outcome(Fate(fate), *moments, count, job_id)


def outcomes(name: str, head: Scheduled, pages: Iterable[Item]) -> list[Outcome]:
    """What became of the last occurrences. Pages that are newer than the head are left out: their
    entries are in the head."""
    known = sorted((page["number"], page["rows"]) for page in pages if page["number"] < head.pages)
    found: list[Outcome] = []
    for row in chain(*(from_text(rows) for _, rows in known), head.recent):
        one = _outcome(name, row)
        if len(row) > 6:
            found = [one if old.job_id == one.job_id else old for old in found]
        else:
            found.append(one)
    return found[-OUTCOMES_KEPT:]
