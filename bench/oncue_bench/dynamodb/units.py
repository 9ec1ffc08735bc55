"""Read and write units, by the rules that the service publishes.

A unit of writing is 1 KB, a unit of reading 4 KB read consistently; each item is rounded up by
itself, a query as a whole. A transaction takes twice as much, except in indexes, which follow after
it. What a condition refuses is paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import ceil
from typing import Any, NamedTuple

from oncue_bench.dynamodb.requests import Index, Item, Table, Write

WRITE_BYTES = 1024
READ_BYTES = 4096
_OF_COLLECTION = 3
_OF_ELEMENT = 1


class Charge(NamedTuple):
    """Units that one partition key of a table or an index (`table/index`) is charged."""

    place: str
    partition: str
    reads: float = 0
    writes: float = 0


def size(item: Item | None) -> int:
    """Bytes of an item: its names and its values."""
    return sum(_text(name) + _value(value) for name, value in (item or {}).items())


def write_units(most: int) -> int:
    """For an item of so many bytes, before or after the write, whichever is more."""
    return max(1, ceil(most / WRITE_BYTES))


def read_units(total: int, *, consistent: bool) -> float:
    """For what one read has gone through."""
    return max(1, ceil(total / READ_BYTES)) * (1 if consistent else 0.5)


def partition_of(keys: tuple[str, ...], item: Item) -> str:
    [text] = item[keys[0]].values()
    return str(text)


def of_write(
    table: Table, write: Write, before: Item | None, after: Item | None, factor: int = 1
) -> Iterator[Charge]:
    """What a write is charged; one that was refused has the same item before and after."""
    units = write_units(max(size(before), size(after), size(write.item)))
    yield Charge(table.name, partition_of(table.keys, write.key), writes=factor * units)
    for index in table.indexes:
        yield from _of_index(table, index, index.entry(before), index.entry(after))


def of_read(table: Table, key: Item, item: Item | None, factor: float) -> Charge:
    """What reading one item is charged: factor 0.5, 1, or 2 in a transaction."""
    units = factor * read_units(size(item), consistent=True)
    return Charge(table.name, partition_of(table.keys, key), reads=units)


def _of_index(table: Table, index: Index, old: Item | None, new: Item | None) -> Iterator[Charge]:
    """Nothing if the entry stays as it is, one write if it comes, goes or changes, two if it
    moves."""
    if old == new:
        return
    place = f"{table.name}/{index.name}"
    if old and new and all(old[key] == new[key] for key in index.keys):
        units = write_units(max(size(old), size(new)))
        yield Charge(place, partition_of(index.keys, new), writes=units)
        return
    for entry in (old, new):
        if entry:
            units = write_units(size(entry))
            yield Charge(place, partition_of(index.keys, entry), writes=units)


def _text(text: str) -> int:
    return len(text.encode())


def _value(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return _text(content)
        case "N":
            return _number(content)
        case "B":
            return len(content)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return _OF_COLLECTION + sum(_OF_ELEMENT + _value(one) for one in content)
        case "M":
            return _OF_COLLECTION + _OF_ELEMENT * len(content) + size(content)
    return sum(_value({kind.removesuffix("S"): one}) for one in content)  # SS, NS, BS


def _number(text: str) -> int:
    """A byte for two significant digits, and one more; zero has none."""
    digits = Decimal(text).normalize().as_tuple().digits
    significant = 0 if digits == (0,) else len(digits)
    return ceil(significant / 2) + 1
