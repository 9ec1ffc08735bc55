"""A rule as the table has it: its settings, and what changes with its decisions."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from oncue.core.event import EventType
from oncue.core.ids import REMEMBERED_MS
from oncue.core.moment import Moment, from_datetime, maybe_datetime
from oncue.core.pair import Pair, kept_pair
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sightings
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, to_text
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import Item, as_ttl


class FiledWait(NamedTuple):
    """One dependency of a rule."""

    token: str
    """Tells it from one of the same type and resource that the rule had before."""
    dependency: Dependency
    newest: Stamp | None = None
    """Of the newest event that was ever accepted."""
    kept: Stamp | None = None
    """Of the newest accepted event that the table still has."""
    stale: bool = False

    def accept(self, stamp: Stamp) -> FiledWait:
        newest = stamp if self.newest is None else max(self.newest, stamp)
        kept = stamp if self.kept is None else max(self.kept, stamp)
        return self._replace(newest=newest, kept=kept)

    def prune(self, before: Stamp | None) -> FiledWait:
        """What was accepted with stamps before this one is no longer kept."""
        gone = before is not None and self.kept is not None and self.kept < before
        return self._replace(kept=None) if gone else self

    def match(self, rule: str) -> Key:
        """The item by which events find the rule."""
        its = self.dependency
        return keys.match(its.type, its.key, rule, self.token)

    def as_row(self) -> list[Any]:
        return [self.token, self.newest, self.kept, self.stale]


def new_wait(dependency: Dependency) -> FiledWait:
    return FiledWait(secrets.token_hex(6), dependency)


def former_wait(dependency: Dependency) -> FiledWait:
    """A dependency that a rule had in the store from which it comes. The same whenever it is
    met."""
    name = f"{dependency.type}#{dependency.key}".encode()
    return FiledWait(blake2b(name, digest_size=6).hexdigest(), dependency)


class FiledPair(NamedTuple):
    pair: Pair
    newest: tuple[Stamp | None, Stamp | None] = (None, None)
    """The newest marker of each of the two."""

    def newest_of(self, place: int) -> Stamp | None:
        return self.newest[self.pair.places.index(place)]

    def mark(self, place: int, stamp: Stamp) -> FiledPair:
        known = zip(self.pair.places, self.newest, strict=True)
        first, second = (
            stamp if its == place and (was is None or was < stamp) else was for its, was in known
        )
        return self._replace(newest=(first, second))

    def as_row(self) -> list[Any]:
        return [*self.pair, self.newest]


class FiledRule(NamedTuple):
    """`rule` has the last instant too."""

    rule: Rule
    identity: str
    waits: tuple[FiledWait, ...]
    """In the order of the dependencies."""
    ver: int = 0
    """Of its head. 0: it is new."""
    settings_ver: int = 0
    touched: bool = False
    """Something happened to it since it was last pruned."""
    pair: FiledPair | None = None
    marked: tuple[str, ...] = ()
    """Dependencies that may have markers."""

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def newest(self) -> Stamp | None:
        return max((wait.newest for wait in self.waits if wait.newest is not None), default=None)

    def set(self, rule: Rule, at: datetime) -> FiledRule:
        """With other settings. A dependency that stays keeps what it accepted."""
        known = {wait.dependency.identity: wait for wait in self.waits}
        waits = tuple(
            new_wait(one) if (wait := known.get(one.identity)) is None else _given(wait, one)
            for one in rule.dependencies
        )
        was = self.rule
        now_is = replace(
            rule,
            created_at=was.created_at,
            updated_at=at,
            last_instant=was.last_instant,
            last_job_id=was.last_job_id,
        )
        pair = self.pair if rule.dependencies == was.dependencies else None
        return self._replace(rule=now_is, waits=waits, pair=pair)

    def keep_pair(self) -> FiledRule:
        """With its pair brought up to date."""
        known = None if self.pair is None else self.pair.pair
        pair = kept_pair(known, self.rule.lives, self.newest)
        if pair == known:
            return self
        if pair is None:
            return self._replace(pair=None)
        tokens = (self.waits[place].token for place in pair.places)
        marked = tuple(dict.fromkeys((*self.marked, *tokens)))
        return self._replace(pair=FiledPair(pair), marked=marked)

    def mark(self, place: int, stamp: Stamp) -> FiledRule:
        return self if self.pair is None else self._replace(pair=self.pair.mark(place, stamp))

    def accept(self, places: Iterable[int], stamp: Stamp) -> FiledRule:
        return self._with({place: self.waits[place].accept(stamp) for place in places})

    def note_stale(self, places: Iterable[int]) -> FiledRule:
        return self._with({place: self.waits[place]._replace(stale=True) for place in places})

    def _with(self, changed: dict[int, FiledWait]) -> FiledRule:
        waits = tuple(changed.get(place, wait) for place, wait in enumerate(self.waits))
        return self._replace(waits=waits)

    def fire(self, instant: Stamp, job_id: str) -> FiledRule:
        return self._replace(rule=replace(self.rule, last_instant=instant, last_job_id=job_id))

    def prune(self, accepted_before: Sequence[Stamp | None]) -> FiledRule:
        """As it is when it was pruned up to these stamps."""
        pairs = zip(self.waits, accepted_before, strict=True)
        waits = tuple(w.prune(at) for w, at in pairs)
        return self._replace(waits=waits, touched=False, marked=self.paired)

    @property
    def paired(self) -> tuple[str, ...]:
        """The dependencies of the pair."""
        places = () if self.pair is None else self.pair.pair.places
        return tuple(self.waits[place].token for place in places)

    def next_ver(self, now: Moment) -> int:
        return max(now, self.ver + 1)

    def as_head(self) -> Item:
        shown = {
            "identity": self.identity,
            "settings": self.settings_ver,
            "last_instant": self.rule.last_instant,
            "last_job_id": self.rule.last_job_id,
            "waits": [wait.as_row() for wait in self.waits],
        }
        # A program that knows nothing of markers leaves both out whenever it writes.
        if self.pair is not None:
            shown["pair"] = self.pair.as_row()
        if self.marked:
            shown["marked"] = self.marked
        item = {**keys.rule(self.name)._asdict(), "ver": self.ver, "rec": to_text(shown)}
        if self.touched:
            look = keys.touched(keys.look_shard(self.name))
            item |= {"look": look, "at": self.name}
        return item

    def as_deleted_head(self, now: Moment) -> Item:
        """The version stays for a day, so that a late request does not bring the rule back."""
        ttl = as_ttl(now + REMEMBERED_MS)
        return {**keys.rule(self.name)._asdict(), "ver": self.next_ver(now), "ttl": ttl}

    def as_settings(self) -> Item:
        rule = self.rule
        shown = {
            "dependencies": [_row(one) for one in rule.dependencies],
            "enabled": rule.enabled,
            "queue": rule.queue,
            "created_at": _ms(rule.created_at),
            "updated_at": _ms(rule.updated_at),
        }
        key = keys.settings(self.name)._asdict()
        return {
            **key,
            "ver": self.settings_ver,
            "rec": to_text(shown),
            "payload": rule.payload_json,
        }


def new_rule(rule: Rule) -> FiledRule:
    """One that the table does not have."""
    waits = tuple(new_wait(one) for one in rule.dependencies)
    return FiledRule(rule, secrets.token_hex(6), waits)


def restored(seen: Sightings) -> FiledRule:
    """One from a dump. What it accepted comes with the events."""
    made = new_rule(seen.rule)
    waits = tuple(
        wait._replace(newest=one.newest_stamp, stale=one.stale)
        for wait, one in zip(made.waits, seen.of, strict=True)
    )
    return made._replace(waits=waits)


def read_rule(name: str, head: Item | None, settings: Item | None) -> FiledRule | None:
    """None: there is no such rule. Raises `Torn` if the two do not belong together."""
    if head is None or is_deleted(head):
        return None
    state = from_text(head["rec"])
    if settings is None or settings["ver"] != state["settings"]:
        raise Torn
    shown = from_text(settings["rec"])
    dependencies = tuple(read_dependency(row) for row in shown["dependencies"])
    rule = Rule(
        name,
        dependencies,
        shown["enabled"],
        shown["queue"],
        settings["payload"],
        maybe_datetime(shown["created_at"]),
        maybe_datetime(shown["updated_at"]),
        state["last_instant"],
        state["last_job_id"],
    )
    waits = tuple(
        FiledWait(token, its, *rest)
        for its, (token, *rest) in zip(dependencies, state["waits"], strict=True)
    )
    touched = "look" in head
    rest = touched, _read_pair(state.get("pair")), tuple(state.get("marked", ()))
    return FiledRule(rule, state["identity"], waits, head["ver"], settings["ver"], *rest)


def _read_pair(row: Sequence[Any] | None) -> FiledPair | None:
    if row is None:
        return None
    places, lives, since, newest = row
    return FiledPair(Pair(tuple(places), tuple(lives), since), tuple(newest))


def is_deleted(head: Item) -> bool:
    return "rec" not in head


class Torn(Exception):
    """Head and settings were read while the rule was changed."""


def read_dependency(row: Sequence[Any]) -> Dependency:
    kind, resource, life_seconds = row
    return Dependency(EventType(kind), resource, life_seconds)


def _row(one: Dependency) -> list[Any]:
    return [one.type, one.resource, one.life_seconds]


def _given(wait: FiledWait, dependency: Dependency) -> FiledWait:
    return wait._replace(dependency=dependency)


def _ms(at: datetime | None) -> Moment | None:
    return None if at is None else from_datetime(at)
