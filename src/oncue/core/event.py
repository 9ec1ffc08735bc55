"""An event: an immutable fact from outside. Something happened to a resource at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from oncue.core import stamp as stamps
from oncue.core.checks import only, printable, whole
from oncue.core.errors import EventIdTaken, InvalidInput
from oncue.core.moment import HORIZON_MS
from oncue.core.stamp import SECOND, Stamp

RESOURCE_LIMIT = 1024  # bytes of a resource
MOST_IDS = 100  # that belong to one event; further ids are accepted, but not remembered
_ID_LIMIT = 200
_DAY = 86_400


class EventType(StrEnum):
    FILE = "FILE"
    TABLE = "TABLE"
    TIME_BASED = "TIME_BASED"


SPELLINGS = {
    **{str(known): known for known in EventType},
    "TIME BASED": EventType.TIME_BASED,
    "TIME_BASED_CRON": EventType.TIME_BASED,
}
Fact = tuple[EventType, str, Stamp]
"""Type, resource and stamp: what an event says."""


@dataclass(frozen=True, slots=True)
class Event:
    """A fact is its type, resource and stamp. The id is chosen by the sender or made from the fact.
    In one store an id belongs to one event only; if the same fact comes with another id, that
    belongs to it too."""

    id: str
    type: EventType
    resource: str
    """Of a FILE: the path or URL, normalised."""
    stamp: Stamp

    @property
    def timestamp(self) -> datetime:
        """When it happened, to the microsecond."""
        return stamps.to_datetime(self.stamp)

    @property
    def fact(self) -> Fact:
        return self.type, self.resource, self.stamp

    def as_dict(self) -> dict[str, str]:
        """As the event's sender would write it."""
        return {
            "eventId": self.id,
            "eventType": str(self.type),
            "eventTimestamp": stamps.render(self.stamp),
            "eventResourceId": self.resource,
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far off an event's time may lie, and how long one that matters to no rule is kept."""

    ahead_seconds: int = 7 * _DAY
    """An event later than this after now is refused: it would block its rules until then."""
    late_seconds: int = 30 * _DAY
    """An event older than this, and the longest life, before the newest one is too late."""
    loose_seconds: int = 7 * _DAY
    """How long an event that no rule decided on is kept."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            whole(getattr(self, name), 0, HORIZON_MS // 1000, f"/{name}", " (seconds)")


DEFAULT_BOUNDS = Bounds()


class Path(NamedTuple):
    """A FILE's resource, by segments. `below` means that it ended in `/`."""

    key: str
    below: bool


def read_event(fields: object, latest: Stamp, pointer: str = "") -> Event:
    """The event that these fields describe, stamped no later than `latest`."""
    if not isinstance(fields, Mapping):
        raise InvalidInput("must be an object with the fields of an event.", pointer)
    only(fields, _FIELDS, "the fields of an event are", pointer)
    kind = check_type(_required(fields, "eventType", pointer), f"{pointer}/eventType")
    stamp = stamps.parse(_required(fields, "eventTimestamp", pointer), f"{pointer}/eventTimestamp")
    if stamp > latest:
        raise InvalidInput(
            f"lies after {stamps.render(latest)}, which is as far ahead as an event may lie: one "
            "stray event would block its rules until then. Correct the time, or the clock that it "
            "was read from; or raise events_ahead_seconds.",
            f"{pointer}/eventTimestamp",
        )
    named = _required(fields, "eventResourceId", pointer)
    resource = event_resource(kind, named, f"{pointer}/eventResourceId")
    chosen = fields.get("eventId")
    if chosen is None:
        chosen = made_id(kind, resource, stamp)
    return Event(printable(chosen, _ID_LIMIT, f"{pointer}/eventId"), kind, resource, stamp)


def made_id(kind: EventType, resource: str, stamp: Stamp) -> str:
    """The id of an event whose sender chose none: the same for the same fact."""
    fact = f"{kind}\0{resource}\0{stamp}".encode()
    return hashlib.blake2b(fact, digest_size=16).hexdigest()


def id_taken(event: Event) -> EventIdTaken:
    """The refusal of an event whose id belongs to another."""
    return EventIdTaken(
        f"the event id {event.id!r} belongs to another event, with another type, resource or "
        "timestamp. Choose another id, or none; nothing was stored."
    )


def refuse_taken(events: Iterable[Event], known: dict[str, Fact]) -> None:
    """Raise if the id of an event belongs to another event: one of the `known`, whose facts are by
    id, or one of these. Adds these to the known."""
    for event in events:
        if known.setdefault(event.id, event.fact) != event.fact:
            raise id_taken(event)


def latest_stamp(now: Stamp, bounds: Bounds) -> Stamp:
    """How late an event may be stamped."""
    return now + bounds.ahead_seconds * SECOND


def check_type(value: object, pointer: str) -> EventType:
    known = SPELLINGS.get(value) if isinstance(value, str) else None
    if known is None:
        raise InvalidInput(f"must be one of {', '.join(EventType)}.", pointer)
    return known


def check_resource(value: object, pointer: str) -> str:
    """Text without control characters that every store can keep and index."""
    if not isinstance(value, str) or not value:
        raise InvalidInput("must be text that names the resource.", pointer)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput("contains half a character; send plain text.", pointer) from None
    if size > RESOURCE_LIMIT:
        raise InvalidInput(f"must be at most {RESOURCE_LIMIT} bytes long.", pointer)
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InvalidInput("must not contain control characters.", pointer)
    return value


def event_resource(kind: EventType, value: object, pointer: str) -> str:
    """The resource of an event in the form in which it is stored: a path is normalised."""
    resource = check_resource(value, pointer)
    return (read_path(resource, pointer).key or "/") if kind is EventType.FILE else resource


def read_path(text: str, pointer: str) -> Path:
    """The path without empty segments, `.` and the last `/`. The root's key is empty. The scheme
    of a URL, `gs://`, stays."""
    found = _SCHEME.match(text) if "://" in text else None
    scheme = "" if found is None else found[0]
    rest = text.removeprefix(scheme)
    segments = [segment for segment in rest.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise InvalidInput("must not contain '..'; send the path it leads to.", pointer)
    rooted = rest.startswith("/")
    if not rooted and not segments:
        raise InvalidInput("names no path.", pointer)
    key = "/".join(["", *segments] if rooted and segments else segments)
    return Path(scheme + key, text.endswith(("/", "/.")))


def path_key(resource: str) -> str:
    """The key by which a FILE's resource is found: without the last `/`, and with one `/` after
    the scheme of a URL, as the stores have it."""
    if "//" in resource:  # the expression takes 2 µs, and most resources are plain paths
        resource = _SLASHES.sub("/", resource)
    return resource.rstrip("/")


def ancestors(path: str) -> list[str]:
    """The keys of the folders that a path lies in, the nearest first; the root's is empty."""
    folder, slash, rest = path.rpartition("/")
    if not slash or not (folder or rest):
        return []
    return [folder, *ancestors(folder)]


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?=.*[^/.])", re.ASCII)
_SLASHES = re.compile("/{2,}")
_FIELDS = ("eventType", "eventTimestamp", "eventResourceId", "eventId")


def _required(fields: Mapping[str, Any], name: str, pointer: str) -> Any:
    if fields.get(name) is None:
        raise InvalidInput("is missing; every event needs it.", f"{pointer}/{name}")
    return fields[name]
