"""Which items a request writes, and what the tables look like."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oncue_bench.dynamodb import statements
from oncue_bench.dynamodb.wrapped import Call, bare

Item = Mapping[str, Any]
"""Attributes as the client takes them: `{"pk": {"S": "…"}}`; a key is one, too."""


BATCH = 100  # keys in a request


class Index(NamedTuple):
    name: str
    keys: tuple[str, ...]
    projected: frozenset[str] | None  # None: all attributes

    def entry(self, item: Item | None) -> Item | None:
        """What the index holds of an item; None if the item is not in it."""
        if item is None or not all(key in item for key in self.keys):
            return None
        if self.projected is None:
            return item
        return {name: value for name, value in item.items() if name in self.projected}


class Table(NamedTuple):
    name: str
    keys: tuple[str, ...]
    indexes: tuple[Index, ...]

    def key(self, item: Item) -> Item:
        return {name: item[name] for name in self.keys}


class Write(NamedTuple):
    """An item that a request puts, updates, deletes or checks; `item` is what a put brings."""

    verb: str
    table: str
    key: Item
    item: Item | None = None


class Tables:
    """The tables behind a client, each described once."""

    def __init__(self, client: Any) -> None:
        self._client = bare(client)
        self._known: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self._known:
            self._known[name] = _table(self._client.describe_table(TableName=name)["Table"])
        return self._known[name]

    def item(self, table: str, key: Item) -> Item | None:
        """The item as it is now."""
        found = self._client.get_item(TableName=table, Key=key, ConsistentRead=True)
        item: Item | None = found.get("Item")
        return item

    def items(self, asked: Sequence[tuple[str, Item]]) -> list[Item | None]:
        """Several items as they are now, given by table and key."""
        found: dict[tuple[str, str], Item] = {}
        for start in range(0, len(asked), BATCH):
            self._collect(asked[start : start + BATCH], found)
        return [found.get((table, name_of(key))) for table, key in asked]

    def _collect(
        self, asked: Sequence[tuple[str, Item]], found: dict[tuple[str, str], Item]
    ) -> None:
        wanted: dict[str, Any] = {}
        for table, key in asked:
            wanted.setdefault(table, {"Keys": [], "ConsistentRead": True})["Keys"].append(key)
        while wanted:
            answer = self._client.batch_get_item(RequestItems=wanted)
            for table, items in answer["Responses"].items():
                found |= {(table, name_of(self[table].key(item))): item for item in items}
            wanted = answer["UnprocessedKeys"]

    def writes(self, call: Call) -> list[Write]:
        """What the request writes or checks, in its order."""
        return [
            Write(verb, table, self[table].key(item), item if verb == "put" else None)
            for verb, table, item in _named(call)
        ]


def name_of(key: Item) -> str:
    """A text that tells this key from every other."""
    return json.dumps(key, sort_keys=True, default=repr)


def _named(call: Call) -> Iterator[tuple[str, str, Item]]:
    asked = call.kwargs
    match call.method:
        case "put_item":
            yield "put", asked["TableName"], asked["Item"]
        case "update_item" | "delete_item":
            yield call.method.removesuffix("_item"), asked["TableName"], asked["Key"]
        case "batch_write_item":
            for table, requests in asked["RequestItems"].items():
                for request in requests:
                    yield _of_batch(table, request)
        case "transact_write_items":
            for entry in asked["TransactItems"]:
                yield _of_transaction(entry)
        case statements.METHOD:
            yield from map(statements.read, asked["Statements"])


def _of_batch(table: str, request: Mapping[str, Any]) -> tuple[str, str, Item]:
    if "PutRequest" in request:
        return "put", table, request["PutRequest"]["Item"]
    return "delete", table, request["DeleteRequest"]["Key"]


def _of_transaction(entry: Mapping[str, Any]) -> tuple[str, str, Item]:
    [(action, asked)] = entry.items()
    verb = {"Put": "put", "Update": "update", "Delete": "delete"}.get(action, "check")
    return verb, asked["TableName"], asked["Item" if verb == "put" else "Key"]


def _table(described: Mapping[str, Any]) -> Table:
    keys = _keys(described)
    found = described.get("GlobalSecondaryIndexes", ())
    return Table(described["TableName"], keys, tuple(_index(one, keys) for one in found))


def _index(described: Mapping[str, Any], table_keys: tuple[str, ...]) -> Index:
    keys, projection = _keys(described), described["Projection"]
    if projection["ProjectionType"] == "ALL":
        return Index(described["IndexName"], keys, None)
    more = projection.get("NonKeyAttributes", ())
    return Index(described["IndexName"], keys, frozenset({*keys, *table_keys, *more}))


def _keys(described: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["AttributeName"] for one in described["KeySchema"])
