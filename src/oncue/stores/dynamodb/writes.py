"""Writes to the table: what they are, under which conditions, and which of them go together."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from oncue.core.moment import Moment
from oncue.stores.dynamodb.keys import Key

Item = dict[str, Any]

TRANSACT_AT_ONCE = 100
TRANSACT_BYTES = 3 * 1024 * 1024  # the service takes 4 MiB, conditions included


def as_ttl(until: Moment) -> int:
    """The attribute `ttl` of an item that the table may forget then: a moment in whole seconds."""
    return -(-until // 1000)


class If(NamedTuple):
    """A condition on the item that is written: an expression, in which `#x` is the attribute x and
    `:x` the value of that name."""

    expression: str
    values: Mapping[str, Any] = {}


ABSENT = If("attribute_not_exists(#pk)")
PRESENT = If("attribute_exists(#pk)")


def has(name: str, value: str | int) -> If:
    """An attribute has this value. Many writes with such a condition go in one request."""
    return If(f"#{name} = :{name}", {name: value})


def unchanged(ver: int) -> If:
    """The item is as it was read: of this version, or (0) not there."""
    return has("ver", ver) if ver else ABSENT


class Put(NamedTuple):
    item: Item
    only_if: If | None = None

    @property
    def key(self) -> Key:
        return Key(self.item["pk"], self.item["sk"])


class Remove(NamedTuple):
    key: Key
    only_if: If | None = None


class Check(NamedTuple):
    """Nothing is written, but the transaction fails if the condition does not hold. Conditions that
    differ in their values only hold together if the one with the least values does."""

    key: Key
    only_if: If

    def and_also(self, other: Check) -> Check:
        values = {
            name: min(value, other.only_if.values[name])
            for name, value in self.only_if.values.items()
        }
        return Check(self.key, If(self.only_if.expression, values))


class Expire(NamedTuple):
    """The table may forget an item from then on, if it is there."""

    key: Key
    ttl: int
    only_if: If = PRESENT


Single = Put | Remove | Expire
Write = Put | Remove | Check

W = TypeVar("W", Single, Write)


def mark() -> str:
    """A text that nobody else has."""
    return secrets.token_hex(8)


def marked(writes: Sequence[W]) -> list[W]:
    """With the mark of a call in each item that is written under a condition."""
    one = mark()
    return [
        write._replace(item={**write.item, "by": one})
        if isinstance(write, Put) and write.only_if is not None
        else write
        for write in writes
    ]


def packed(groups: Mapping[int, Sequence[Write]]) -> Iterator[dict[int, Sequence[Write]]]:
    """Groups that fit in one transaction together: no two write the same item."""
    packed: dict[int, Sequence[Write]] = {}
    taken: dict[Key, bool] = {}  # whether it is only checked
    size = 0
    for at, group in groups.items():
        more = sum(map(_size, group))
        clash = any(
            write.key in taken and not (taken[write.key] and isinstance(write, Check))
            for write in group
        )
        is_full = sum(map(len, packed.values())) + len(group) > TRANSACT_AT_ONCE
        if packed and (clash or is_full or size + more > TRANSACT_BYTES):
            yield packed
            packed, taken, size = {}, {}, 0
        packed[at] = group
        size += more
        taken |= {write.key: isinstance(write, Check) for write in group}
    if packed:
        yield packed


def _size(write: Write) -> int:
    """How many bytes a write sends, keys aside."""
    item = write.item if isinstance(write, Put) else {}
    seen = {} if write.only_if is None else write.only_if.values
    return _bytes(item) + _bytes(seen)


def _bytes(value: Any) -> int:
    match value:
        case str():
            return len(value) if value.isascii() else len(value.encode())
        case bytes():
            return len(value)
        case Mapping():
            return sum(_bytes(name) + _bytes(one) for name, one in value.items())
        case list() | tuple() | set() | frozenset():
            return sum(map(_bytes, value))
    return 8


def merged(groups: Mapping[int, Sequence[Write]]) -> tuple[list[Write], list[list[int]]]:
    """The writes of all groups, checks of the same item made one; and to whom each belongs."""
    writes: list[Write] = []
    owners: list[list[int]] = []
    checks: dict[tuple[Key, str], int] = {}
    for at, group in groups.items():
        for write in group:
            if isinstance(write, Check):
                place = checks.setdefault((write.key, write.only_if.expression), len(writes))
                if place < len(writes):
                    known = writes[place]
                    assert isinstance(known, Check)
                    writes[place] = known.and_also(write)
                    owners[place].append(at)
                    continue
            writes.append(write)
            owners.append([at])
    return writes, owners


def filled(groups: Sequence[Sequence[Key]]) -> Iterator[list[Key]]:
    """Keys that are read in one transaction, those of a group together."""
    part: list[Key] = []
    for group in groups:
        if part and len(part) + len(group) > TRANSACT_AT_ONCE:
            yield part
            part = []
        part += group
    if part:
        yield part
