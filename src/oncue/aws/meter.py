"""What requests are charged, by the rules of AWS. Emulators report it wrongly or not at all.

A write unit is 1 KB of an item, a read unit is 4 KB read consistently. A transaction takes twice
the units; an entry of the index that comes, goes or changes is one more write.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from oncue.aws.cost import CHUNK_BYTES
from oncue.aws.units import READ_BYTES, WRITE_BYTES

CHARGED = ("ConditionalCheckFailedException", "TransactionCanceledException")
_PARAMETER = re.compile(r"""["'](\w+)["']\s*[=:]\s*\?""")

Item = Mapping[str, Any]
"""As it is on the wire: values with their types."""


class Units(NamedTuple):
    writes: float = 0.0
    reads: float = 0.0
    requests: int = 0
    """Of SQS."""

    def __sub__(self, other: Units) -> Units:
        requests = self.requests - other.requests
        return Units(self.writes - other.writes, self.reads - other.reads, requests)


class StoredItem(NamedTuple):
    """What is known of an item in the table."""

    size: int = 0
    entry: tuple[Any, ...] = ()
    """Its keys in the index; none if it is not in there."""


class Meter:
    """Counts the requests of clients. It must see every write to the table: a delete is charged by
    the size of what it removes. Safe to use from many threads."""

    def __init__(self) -> None:
        self._writes = self._reads = 0.0
        self._requests = 0
        self._items: dict[tuple[Any, ...], StoredItem] = {}
        self._lock = threading.Lock()

    @property
    def units(self) -> Units:
        return Units(self._writes, self._reads, self._requests)

    def sent(self, size: int) -> None:
        """A request of SQS with so many bytes."""
        with self._lock:
            self._requests += max(1, -(-size // CHUNK_BYTES))

    def request(self, method: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """A request of DynamoDB. An answer without content: it was refused by a condition."""
        with self._lock:
            self._reads += _reads(method, asked, answer)
            factor = 2 if method == "transact_write_items" else 1
            refused = method != "batch_execute_statement" and not answer
            for at, (key, item) in enumerate(_writes(method, asked)):
                old = self._items.get(key, StoredItem())
                new = old if item is _SAME else _kept(item)
                self._writes += factor * _units(max(old.size, new.size), WRITE_BYTES)
                if not refused and not _failed(answer, at):
                    self._writes += len({old.entry, new.entry} - {()}) * (old.entry != new.entry)
                    self._items[key] = new


class MeteredClient:
    """A client of DynamoDB whose requests are counted."""

    def __init__(self, client: Any, meter: Meter) -> None:
        self._client = client
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self._client.meta.method_to_api_mapping:
            return found
        return lambda **asked: self._counted(name, found, asked)

    def _counted(self, name: str, call: Callable[..., Any], asked: dict[str, Any]) -> Any:
        from botocore.exceptions import ClientError

        try:
            answer = call(**asked)
        except ClientError as error:
            if error.response["Error"]["Code"] in CHARGED:
                self._meter.request(name, asked, {})
            raise
        self._meter.request(name, asked, answer)
        return answer


# Writes.

_SAME: Item = {"": None}
"""An item that stays as it was, but for its time to live."""


def _writes(method: str, asked: Mapping[str, Any]) -> Iterator[tuple[tuple[Any, ...], Item]]:
    """The key of each item that is written, and the item as it is then; empty: removed."""
    match method:
        case "put_item":
            yield _key(asked["Item"]), asked["Item"]
        case "delete_item":
            yield _key(asked["Key"]), {}
        case "batch_write_item":
            for one in (one for many in asked["RequestItems"].values() for one in many):
                put, delete = one.get("PutRequest"), one.get("DeleteRequest")
                yield (_key(put["Item"]), put["Item"]) if put else (_key(delete["Key"]), {})
        case "transact_write_items":
            for one in asked["TransactItems"]:
                [(kind, write)] = one.items()
                item = {"Delete": {}, "ConditionCheck": _SAME}.get(kind) or write.get("Item", {})
                yield _key(write.get("Item") or write["Key"]), item
        case "batch_execute_statement":
            yield from map(_stated, asked["Statements"])


def _stated(one: Mapping[str, Any]) -> tuple[tuple[Any, ...], Item]:
    """What a statement writes."""
    text, values = one["Statement"], one["Parameters"]
    names = _PARAMETER.findall(text)
    if text.startswith("INSERT"):
        item = dict(zip(names, values, strict=True))
        return _key(item), item
    at = names.index("pk")
    key = {"pk": values[at], "sk": values[at + 1]}
    if text.startswith("DELETE"):
        return _key(key), {}
    changed = dict(zip(names[:at], values[:at], strict=True))
    return _key(key), _SAME if changed.keys() == {"ttl"} else {**key, **changed}


def _failed(answer: Mapping[str, Any], at: int) -> bool:
    responses = answer.get("Responses")
    return isinstance(responses, list) and "Error" in responses[at]


def _kept(item: Item) -> StoredItem:
    entry = (*_key(item), *map(_plain, (item["look"], item.get("at")))) if "look" in item else ()
    return StoredItem(_size(item), entry)


def _key(item: Item) -> tuple[Any, ...]:
    return _plain(item.get("pk")), _plain(item.get("sk"))


def _plain(value: Any) -> Any:
    return next(iter(value.values())) if value else None


# Reads.


def _reads(method: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    match method:
        case "get_item":
            return _factor(asked) * _units(_size(answer.get("Item", {})), READ_BYTES)
        case "batch_get_item":
            keys = [len(one["Keys"]) for one in asked["RequestItems"].values()]
            items = [one for many in answer["Responses"].values() for one in many]
            missing = sum(keys) - len(items)
            return missing + sum(_units(_size(one), READ_BYTES) for one in items)
        case "query" | "scan":
            return _factor(asked) * _units(sum(map(_size, answer["Items"])), READ_BYTES)
    return 0.0


def _factor(asked: Mapping[str, Any]) -> float:
    return 1.0 if asked.get("ConsistentRead") else 0.5


def _units(size: int, each: int) -> int:
    return max(1, -(-size // each))


def _size(item: Item) -> int:
    """Bytes of an item: its names and its values."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    if kind == "N":
        return len(content) // 2 + 2
    return len(content.encode() if isinstance(content, str) else content)
