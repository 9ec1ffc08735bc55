"""A timetable: schedules written down as JSON, and how they differ from those that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from oncue.core.errors import InvalidInput, NotFound
from oncue.core.schedule import Schedule
from oncue.schedules import new_schedule

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.core.runs import Difference
    from oncue.scheduler import Scheduler

MEMBERS = (
    *("name", "cron", "every_seconds", "timezone", "queue", "payload", "owner"),
    *("emits", "catch_up", "overlap", "paused"),
)
# Of a schedule that was shown, not told.
_TOLD = (
    *("anchor_at", "next_at", "last_at", "last_job_id", "created_at", "updated_at"),
    *("runs", "outcomes"),
)
_LISTS = ("schedules", "items")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Kind(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Entry(NamedTuple):
    """A schedule as it is written down."""

    schedule: Schedule
    members: Mapping[str, Any]
    """As `put_schedule` takes them; `paused` only if it is written."""


class Change(NamedTuple):
    """What applying an entry would do."""

    entry: Entry
    before: Schedule | None
    """The schedule of that name that there is."""

    @property
    def after(self) -> Schedule:
        """The schedule as it would be: paused as before unless the entry says."""
        if self.before is None or "paused" in self.entry.members:
            return self.entry.schedule
        return replace(self.entry.schedule, paused=self.before.paused)

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return Kind.NEW
        return Kind.CHANGED if self.members else Kind.UNCHANGED

    @property
    def members(self) -> dict[str, tuple[Any, Any]]:
        """What differs, from and to; of a new schedule everything that is not the default."""
        old, new = settings(self.before or Schedule("")), settings(self.after)
        return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def settings(schedule: Schedule) -> dict[str, Any]:
    """What people chose, the name aside, as JSON has it."""
    return {
        "cron": schedule.cron,
        "every_seconds": schedule.every_seconds,
        "timezone": schedule.timezone,
        "queue": schedule.queue,
        "payload": schedule.payload,
        "owner": schedule.owner,
        "emits": None if schedule.emits is None else schedule.emits.as_dict(),
        "catch_up": schedule.catch_up.value,
        "overlap": schedule.overlap.value,
        "paused": schedule.paused,
    }


def read(text: bytes, source: str) -> list[Entry]:
    """The schedules of a text: one, a list of them, or an object that has the list as `schedules`.
    All of them are read before it is refused; the refusal names the source and the places."""
    found = _listed(text, source)
    entries: dict[str, Entry] = {}
    wrong: list[str] = []
    for number, members in enumerate(found, 1):
        try:
            entry = _entry(members)
            if entry.schedule.name in entries:
                raise InvalidInput("another schedule before it has this name.", "/name")
            entries[entry.schedule.name] = entry
        except InvalidInput as problem:
            wrong.append(f"  schedule {number}{_named(members)}: {problem}")
    if wrong:
        share = f"{len(wrong)} of {len(found)} schedules {'is' if len(wrong) == 1 else 'are'}"
        raise InvalidInput("\n".join([f"{source}: {share} wrong; nothing was stored.", *wrong]))
    return list(entries.values())


def compare(cue: Scheduler | Client, entries: Sequence[Entry]) -> list[Change]:
    """What `apply` would do, in the order of the entries."""
    return [Change(entry, _kept(cue, entry.schedule.name)) for entry in entries]


def preview(cue: Scheduler | Client, change: Change, count: int) -> Difference:
    """What a change would do to the coming runs."""
    members = {name: value for name, value in change.entry.members.items() if name != "paused"}
    return cue.preview_schedule(change.entry.schedule.name, count=count, **members)


def apply(cue: Scheduler | Client, changes: Sequence[Change]) -> None:
    """Make the schedules so. What is so already is left alone. Others stay."""
    for change in changes:
        if change.kind is not Kind.UNCHANGED:
            cue.put_schedule(change.entry.schedule.name, **change.entry.members)


def _listed(text: bytes, source: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidInput(f"{source}: is not JSON: {str(problem).rstrip('.')}.") from None
    if isinstance(found, Mapping) and "name" not in found:
        found = next((found[name] for name in _LISTS if name in found), [found])
    schedules = [found] if isinstance(found, Mapping) else found
    if not isinstance(schedules, list) or not schedules:
        raise InvalidInput(
            f"{source}: holds no schedule; write one as an object, or several as a list of them."
        )
    return schedules


def _entry(written: object) -> Entry:
    if not isinstance(written, Mapping):
        raise InvalidInput("must be an object with the members of a schedule.")
    for name in sorted(written.keys() - {*MEMBERS, *_TOLD}):
        known = ", ".join(MEMBERS)
        raise InvalidInput(f"there is no such member; a schedule has {known}.", f"/{name}")
    members = {
        name: written[name]
        for name in MEMBERS[1:]
        if name in written and (written[name] is not None or name == "payload")
    }
    timed = {name: value for name, value in members.items() if name != "paused"}
    schedule = new_schedule(written.get("name"), timed, paused=members.get("paused", False))
    return Entry(schedule, members)


def _named(members: object) -> str:
    name = members.get("name") if isinstance(members, Mapping) else None
    return f" {name!r}" if isinstance(name, str) else ""


def _kept(cue: Scheduler | Client, name: str) -> Schedule | None:
    try:
        return cue.schedule_named(name)
    except NotFound:
        return None
