"""A rulebook: rules written down as JSON, and how they differ from those that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from oncue.core.errors import InvalidInput, NotFound
from oncue.core.rule import Rule
from oncue.rules import new_rule

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

MEMBERS = ("name", "dependencies", "enabled", "queue", "payload")
_TOLD = ("createdAt", "updatedAt", "lastInstant", "lastJobId")  # of a rule that was shown, not told
_LISTS = ("rules", "items")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Kind(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Change(NamedTuple):
    """What applying a rule would do."""

    rule: Rule
    before: Rule | None
    """The rule of that name that there is."""

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return Kind.NEW
        return Kind.CHANGED if self.members else Kind.UNCHANGED

    @property
    def members(self) -> dict[str, tuple[Any, Any]]:
        """What differs, from and to; of a new rule everything."""
        old = {} if self.before is None else self.before.as_dict()
        new = self.rule.as_dict()
        return {
            name: (old.get(name), new[name])
            for name in MEMBERS[1:]
            if not old or old[name] != new[name]
        }


def read(text: bytes, source: str) -> list[Rule]:
    """The rules of a text: one, a list of them, or an object that has the list as `rules`. All of
    them are read before it is refused; the refusal names the source, the rules and the places."""
    found = _listed(text, source)
    rules: list[Rule] = []
    wrong: list[str] = []
    for number, members in enumerate(found, 1):
        try:
            rule = _rule(members)
            if any(rule.name == other.name for other in rules):
                raise InvalidInput("another rule before it has this name.", "/name")
            rules.append(rule)
        except InvalidInput as problem:
            wrong.append(f"  rule {number}{_named(members)}: {problem}")
    if wrong:
        share = f"{len(wrong)} of {len(found)} rules {'is' if len(wrong) == 1 else 'are'} wrong"
        raise InvalidInput("\n".join([f"{source}: {share}; nothing was stored.", *wrong]))
    return rules


def compare(cue: Scheduler | Client, rules: Sequence[Rule]) -> list[Change]:
    """What `apply` would do, in the order of the rules."""
    return [Change(rule, _kept(cue, rule.name)) for rule in rules]


def apply(cue: Scheduler | Client, changes: Sequence[Change]) -> None:
    """Make the rules so. What is so already is left alone. Rules of other names stay."""
    for change in changes:
        rule = change.rule
        if change.kind is not Kind.UNCHANGED:
            cue.put_rule(
                rule.name,
                rule.dependencies,
                enabled=rule.enabled,
                queue=rule.queue,
                payload=rule.payload,
            )


def _listed(text: bytes, source: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidInput(f"{source}: is not JSON: {str(problem).rstrip('.')}.") from None
    if isinstance(found, Mapping) and "dependencies" not in found:
        found = next((found[name] for name in _LISTS if name in found), [found])
    rules = [found] if isinstance(found, Mapping) else found
    if not isinstance(rules, list) or not rules:
        raise InvalidInput(
            f"{source}: holds no rule; write one as an object, or several as a list of them."
        )
    return rules


def _rule(members: object) -> Rule:
    if not isinstance(members, Mapping):
        raise InvalidInput(f"must be an object with {', '.join(MEMBERS)}.")
    for name in sorted(members.keys() - {*MEMBERS, *_TOLD}):
        raise InvalidInput(f"there is no such member; a rule has {', '.join(MEMBERS)}.", f"/{name}")
    return new_rule(
        members.get("name"),
        members.get("dependencies"),
        members.get("enabled", True),
        members.get("queue"),
        members.get("payload"),
    )


def _named(members: object) -> str:
    name = members.get("name") if isinstance(members, Mapping) else None
    return f" {name!r}" if isinstance(name, str) else ""


def _kept(cue: Scheduler | Client, name: str) -> Rule | None:
    try:
        return cue.rule(name)
    except NotFound:
        return None
