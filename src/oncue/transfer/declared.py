"""Rules and schedules that are declared in a file of JSON, and how they differ from the stored."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from oncue.core.errors import InvalidInput, NotFound
from oncue.core.rule import Rule
from oncue.core.schedule import Schedule
from oncue.core.text import why_not_json
from oncue.usecases.rules import new_rule
from oncue.usecases.schedules import new_schedule
from oncue.wire import rules as wire_rules
from oncue.wire import schedules as wire_schedules
from oncue.wire.converting import written as wire_written

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

T = TypeVar("T", Rule, Schedule)


class Kind(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Noun(Generic[T]):
    """What a file may declare."""

    name: str
    settings: type[Struct]
    """The shape of its settings: these fields are read."""
    shape: type[Struct]
    """The shape of a stored one. Its other fields may stand in the file and are ignored."""
    shown: Callable[[T], Struct]
    """A stored one in that shape."""
    blank: T
    read: Callable[[Any, dict[str, Any]], T]
    """From its name and the fields that are written, checked."""
    stored: Callable[[Scheduler | Client, str], T]
    """The one of that name; `NotFound` if there is none."""
    kept: tuple[str, ...] = ()
    """Fields that stay as they are stored unless they are written."""
    more: tuple[str, ...] = ()
    """Further fields that `oncue … show --json` has, to be ignored, too."""

    @property
    def fields(self) -> tuple[str, ...]:
        """In the file; `name` is the first."""
        known = ("name", *self.settings.__struct_encode_fields__)
        return tuple(name for name in self.shape.__struct_encode_fields__ if name in known)

    def values(self, one: T) -> dict[str, Any]:
        """All its fields but the name, as JSON has them."""
        shown = msgspec.json.decode(msgspec.json.encode(self.shown(one)))
        return {name: shown[name] for name in self.fields[1:]}


@dataclass(frozen=True, slots=True)
class Declared(Generic[T]):
    """One rule or schedule of a file, and what applying it would do."""

    noun: Noun[T]
    value: T
    written: Mapping[str, Any]
    """The fields that the file has, the name aside; null means the default."""
    before: T | None = None
    """The stored one of that name."""

    @property
    def name(self) -> str:
        return self.value.name

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return Kind.NEW
        return Kind.CHANGED if self.changes else Kind.UNCHANGED

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Fields that differ, from and to; of a new one from the defaults."""
        old = self.noun.values(self.noun.blank if self.before is None else self.before)
        new = self.noun.values(self.value)
        if self.before is not None:
            for name in self.noun.kept:
                new[name] = self.written.get(name, old[name])
        return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def read(noun: Noun[T], text: bytes, source: str) -> list[Declared[T]]:
    """What a text declares: one, a list of them, or an object that has the list. All of them are
    read before it is refused; the refusal names the source and the places."""
    found = _listed(noun, text, source)
    declared: dict[str, Declared[T]] = {}
    wrong: list[str] = []
    for number, body in enumerate(found, 1):
        try:
            one = _declared(noun, body)
            if one.name in declared:
                raise InvalidInput(f"another {noun.name} before it has this name.", "/name")
            declared[one.name] = one
        except InvalidInput as problem:
            name = body.get("name") if isinstance(body, Mapping) else None
            named = f" {name!r}" if isinstance(name, str) else ""
            wrong.append(f"  {noun.name} {number}{named}: {problem}")
    if wrong:
        share = f"{len(wrong)} of {len(found)} {noun.name}s {'is' if len(wrong) == 1 else 'are'}"
        raise InvalidInput("\n".join([f"{source}: {share} wrong; nothing was stored.", *wrong]))
    return list(declared.values())


def compare(cue: Scheduler | Client, declared: Iterable[Declared[T]]) -> list[Declared[T]]:
    """The same, each with the stored one of its name."""
    return [replace(one, before=_stored(one.noun, cue, one.name)) for one in declared]


def apply(cue: Scheduler | Client, declared: Iterable[Declared[T]]) -> None:
    """Store what differs. Those of other names stay."""
    for one in declared:
        if one.kind is not Kind.UNCHANGED:
            getattr(cue, f"put_{one.noun.name}")(one.name, **one.written)


def _listed(noun: Noun[T], text: bytes, source: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidInput(f"{source}: is not JSON: {why_not_json(problem)}.") from None
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
    for name in sorted(body.keys() - {*noun.shape.__struct_encode_fields__, *noun.more}):
        raise InvalidInput(f"there is no such field; a {noun.name} has {fields}.", f"/{name}")
    written = {name: body[name] for name in noun.fields[1:] if body.get(name) is not None}
    return Declared(noun, noun.read(body.get("name"), written), written)


def _stored(noun: Noun[T], cue: Scheduler | Client, name: str) -> T | None:
    try:
        return noun.stored(cue, name)
    except NotFound:
        return None


def _rule(name: Any, written: dict[str, Any]) -> Rule:
    fields = {"dependencies": None, "enabled": True, "queue": None, "payload": None}
    return new_rule(name, **(fields | written))


RULES: Noun[Rule] = Noun(
    "rule",
    wire_rules.NewRule,
    wire_rules.Rule,
    partial(wire_written, wire_rules.Rule),
    Rule("", ()),
    _rule,
    lambda cue, name: cue.rule(name),
)
SCHEDULES: Noun[Schedule] = Noun(
    "schedule",
    wire_schedules.ScheduleSettings,
    wire_schedules.Schedule,
    wire_schedules.Schedule.of,
    Schedule(""),
    new_schedule,
    lambda cue, name: cue.schedule_named(name),
    kept=("paused",),
    more=("runs", "outcomes"),
)
