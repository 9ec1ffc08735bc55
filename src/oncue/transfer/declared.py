"""Rules and schedules that are declared in a file of JSON, and how they differ from the stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from oncue.core.errors import InvalidInput, NotFound
from oncue.core.rule import Rule
from oncue.core.schedule import Schedule
from oncue.rules import new_rule
from oncue.schedules import new_schedule

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
T = TypeVar("T", Rule, Schedule)


class Kind(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Noun(Generic[T]):
    """What a file may declare."""

    name: str
    fields: tuple[str, ...]
    """In the file; `name` is the first."""
    shown: tuple[str, ...]
    """Fields of a stored one that was shown: they may stand in the file and are ignored."""
    read: Callable[[Any, dict[str, Any]], T]
    """From its name and the fields that are written, checked."""
    settings: Callable[[T], dict[str, Any]]
    """All its fields but the name, as JSON has them."""
    stored: Callable[[Scheduler | Client, str], T]
    """The one of that name; `NotFound` if there is none."""
    put: Callable[[Scheduler | Client], Callable[..., T]]
    blank: Mapping[str, Any] = field(default_factory=dict)
    """What the fields of a new one are compared with."""
    kept: tuple[str, ...] = ()
    """Fields that stay as they are stored unless they are written."""


class Declared(NamedTuple, Generic[T]):
    """One rule or schedule of a file."""

    value: T
    written: Mapping[str, Any]
    """The fields that the file has, the name aside; null means the default."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What applying one would do."""

    noun: Noun[T]
    declared: Declared[T]
    before: T | None
    """The stored one of that name."""

    @property
    def name(self) -> str:
        return self.declared.value.name

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return Kind.NEW
        return Kind.CHANGED if self.fields else Kind.UNCHANGED

    @property
    def fields(self) -> dict[str, tuple[Any, Any]]:
        """What differs, from and to."""
        old, new = self.noun.blank, self.noun.settings(self.declared.value)
        if self.before is not None:
            old = self.noun.settings(self.before)
            for name in self.noun.kept:
                new[name] = self.declared.written.get(name, old[name])
        return {
            name: (old.get(name), new[name])
            for name in new
            if name not in old or old[name] != new[name]
        }


def read(noun: Noun[T], text: bytes, source: str) -> list[Declared[T]]:
    """What a text declares: one, a list of them, or an object that has the list. All of them are
    read before it is refused; the refusal names the source and the places."""
    found = _listed(noun, text, source)
    declared: dict[str, Declared[T]] = {}
    wrong: list[str] = []
    for number, body in enumerate(found, 1):
        try:
            one = _declared(noun, body)
            if one.value.name in declared:
                raise InvalidInput(f"another {noun.name} before it has this name.", "/name")
            declared[one.value.name] = one
        except InvalidInput as problem:
            name = body.get("name") if isinstance(body, Mapping) else None
            named = f" {name!r}" if isinstance(name, str) else ""
            wrong.append(f"  {noun.name} {number}{named}: {problem}")
    if wrong:
        share = f"{len(wrong)} of {len(found)} {noun.name}s {'is' if len(wrong) == 1 else 'are'}"
        raise InvalidInput("\n".join([f"{source}: {share} wrong; nothing was stored.", *wrong]))
    return list(declared.values())


def compare(
    noun: Noun[T], cue: Scheduler | Client, declared: Iterable[Declared[T]]
) -> list[Change[T]]:
    """What `apply` would do, in the order of the file."""
    return [Change(noun, one, _stored(noun, cue, one.value.name)) for one in declared]


def apply(cue: Scheduler | Client, changes: Sequence[Change[T]]) -> None:
    """Store what differs. Those of other names stay."""
    for change in changes:
        if change.kind is not Kind.UNCHANGED:
            change.noun.put(cue)(change.name, **change.declared.written)


def _listed(noun: Noun[T], text: bytes, source: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidInput(f"{source}: is not JSON: {str(problem).rstrip('.')}.") from None
    if isinstance(found, Mapping):
        found = next((found[name] for name in (f"{noun.name}s", "items") if name in found), [found])
    if not isinstance(found, list) or not found:
        raise InvalidInput(
            f"{source}: holds no {noun.name}; write one as an object, or several as a list of them."
        )
    return found


def _declared(noun: Noun[T], body: object) -> Declared[T]:
    fields = ", ".join(noun.fields)
    if not isinstance(body, Mapping):
        raise InvalidInput(f"must be an object with {fields}.")
    for name in sorted(body.keys() - {*noun.fields, *noun.shown}):
        raise InvalidInput(f"there is no such field; a {noun.name} has {fields}.", f"/{name}")
    written = {name: body[name] for name in noun.fields[1:] if body.get(name) is not None}
    return Declared(noun.read(body.get("name"), written), written)


def _stored(noun: Noun[T], cue: Scheduler | Client, name: str) -> T | None:
    try:
        return noun.stored(cue, name)
    except NotFound:
        return None


def _rule(name: Any, written: dict[str, Any]) -> Rule:
    return new_rule(
        name,
        written.get("dependencies"),
        written.get("enabled", True),
        written.get("queue"),
        written.get("payload"),
    )


def _rule_settings(rule: Rule) -> dict[str, Any]:
    shown = rule.as_dict()
    return {name: shown[name] for name in RULES.fields[1:]}


def _schedule(name: Any, written: dict[str, Any]) -> Schedule:
    timed = {field: value for field, value in written.items() if field != "paused"}
    return new_schedule(name, timed, paused=written.get("paused", False))


def _schedule_settings(schedule: Schedule) -> dict[str, Any]:
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


RULES: Noun[Rule] = Noun(
    "rule",
    ("name", "dependencies", "enabled", "queue", "payload"),
    ("createdAt", "updatedAt", "lastInstant", "lastJobId"),
    _rule,
    _rule_settings,
    lambda cue, name: cue.rule(name),
    lambda cue: cue.put_rule,
)
SCHEDULES: Noun[Schedule] = Noun(
    "schedule",
    ("name", *_schedule_settings(Schedule(""))),
    (
        *("anchor_at", "next_at", "last_at", "last_job_id", "created_at", "updated_at"),
        *("runs", "outcomes"),
    ),
    _schedule,
    _schedule_settings,
    lambda cue, name: cue.schedule_named(name),
    lambda cue: cue.put_schedule,
    blank=_schedule_settings(Schedule("")),
    kept=("paused",),
)
