"""A rule: when all its dependencies are valid at one instant, create this job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from oncue.core.checks import flag, only, printable
from oncue.core.errors import InvalidInput
from oncue.core.event import (
    Event,
    EventType,
    ancestors,
    check_resource,
    check_type,
    path_key,
    read_path,
)
from oncue.core.moment import HORIZON_MS
from oncue.core.queue import check_queue_name
from oncue.core.stamp import SECOND, Stamp

RULES_QUEUE = "rules"
MOST_DEPENDENCIES = 50
PAYLOAD_LIMIT_BYTES = 128 * 1024  # a job also carries the events that fired it
LONGEST_LIFE_SECONDS = HORIZON_MS // 1000
_NAME_LIMIT = 200
_FIELDS = ("type", "resourceId", "lifeDuration")


@dataclass(frozen=True, slots=True)
class Dependency:
    """Valid at t if an accepted event of it has `stamp ≤ t ≤ stamp + life_seconds`."""

    type: EventType
    resource: str
    """Of a FILE: the path or URL, normalised; with a `/` at its end, only what lies below it."""
    life_seconds: int

    @property
    def life(self) -> Stamp:
        return self.life_seconds * SECOND

    @property
    def key(self) -> str:
        """What an event's `match_keys` must contain."""
        return path_key(self.resource) if self.type is EventType.FILE else self.resource

    @property
    def below(self) -> bool:
        """Whether the key itself is not meant, only what lies below it."""
        return self.type is EventType.FILE and self.resource.endswith("/")

    @property
    def identity(self) -> tuple[EventType, str]:
        """What makes it the same dependency when a rule is changed."""
        return self.type, self.resource

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": str(self.type),
            "resourceId": self.resource,
            "lifeDuration": self.life_seconds,
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """`created_at` tells identities apart: a rule that was deleted and created again is another."""

    name: str
    dependencies: tuple[Dependency, ...]
    enabled: bool = True
    queue: str = RULES_QUEUE
    payload_json: bytes = b"null"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_instant: Stamp | None = None
    """Of its last job: L in the semantics."""
    last_job_id: str | None = None

    @property
    def payload(self) -> Any:
        """What its jobs carry, read from JSON."""
        return json.loads(self.payload_json)

    @property
    def lives(self) -> list[Stamp]:
        return [dependency.life for dependency in self.dependencies]


@dataclass(frozen=True, slots=True)
class MatchKeys:
    """The keys that a dependency must have one of to match an event."""

    exact: str
    above: list[str] = field(default_factory=list)
    """Those of the folders that a FILE lies in."""

    def matches(self, dependency: Dependency) -> bool:
        is_exact = dependency.key == self.exact and not dependency.below
        return is_exact or dependency.key in self.above


def match_keys(event: Event) -> MatchKeys:
    """TABLE and TIME_BASED match exactly; a FILE also matches the folders it lies in."""
    if event.type is not EventType.FILE:
        return MatchKeys(event.resource)
    key = path_key(event.resource)
    return MatchKeys(key, ancestors(key))


def matched(rule: Rule, event: Event) -> list[int]:
    """The positions of the rule's dependencies that the event matches."""
    keys = match_keys(event)
    return [
        position
        for position, dependency in enumerate(rule.dependencies)
        if dependency.type is event.type and keys.matches(dependency)
    ]


def check_rule_name(value: object, pointer: str = "/name") -> str:
    return printable(value, _NAME_LIMIT, pointer)


def read_rule(
    name: object,
    dependencies: object,
    enabled: object = True,
    queue: object = None,
    payload_json: bytes = b"null",
) -> Rule:
    """The rule that these fields describe."""
    return Rule(
        check_rule_name(name),
        read_dependencies(dependencies),
        flag(enabled, "/enabled"),
        RULES_QUEUE if queue is None else check_queue_name(queue),
        payload_json,
    )


def read_dependencies(value: object) -> tuple[Dependency, ...]:
    """At least one, none of them twice."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise InvalidInput("must be a list of dependencies.", "/dependencies")
    if not 1 <= len(value) <= MOST_DEPENDENCIES:
        raise InvalidInput(
            f"a rule has 1 to {MOST_DEPENDENCIES} dependencies; without any, every event would "
            "fire it.",
            "/dependencies",
        )
    found: list[Dependency] = []
    for position, fields in enumerate(value):
        pointer = f"/dependencies/{position}"
        one = _read_dependency(fields, pointer)
        if any(one.identity == other.identity for other in found):
            raise InvalidInput(
                f"{one.type} {one.resource!r} is there already; name each resource once.", pointer
            )
        found.append(one)
    return tuple(found)


def _read_dependency(fields: object, pointer: str) -> Dependency:
    if isinstance(fields, Dependency):
        fields = fields.as_dict()
    if not isinstance(fields, Mapping):
        raise InvalidInput(f"must be an object with {', '.join(_FIELDS)}.", pointer)
    only(fields, _FIELDS, "a dependency has", pointer)
    kind = check_type(fields.get("type"), f"{pointer}/type")
    place = f"{pointer}/resourceId"
    resource = check_resource(fields.get("resourceId"), place)
    if kind is EventType.FILE:
        path = read_path(resource, place)
        resource = path.key + "/" * path.below
    return Dependency(kind, resource, _life(fields.get("lifeDuration"), f"{pointer}/lifeDuration"))


def _life(value: object, pointer: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput("must be a whole number of seconds, 0 or more.", pointer)
    if value > LONGEST_LIFE_SECONDS:
        raise InvalidInput("more than 100 years; choose a shorter life.", pointer)
    return value
