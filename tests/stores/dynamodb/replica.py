"""A copy of a table that lags behind: what indexes and eventually consistent reads may show."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from oncue_bench.dynamodb.requests import Item, Tables, name_of
from oncue_bench.dynamodb.wrapped import Call, bare, changed

Some = Callable[[list[str]], list[str]]
"""Chooses some of several names."""

_DEFINITION = ("AttributeDefinitions", "KeySchema")
_OF_INDEX = ("IndexName", "KeySchema", "Projection")


class Replica:
    """A second table on the server. Changes reach it when it is told to catch up: those of one item
    in their order, those of different items in any."""

    def __init__(self, client: Any, table: str) -> None:
        self.table = table
        self.name = f"{table}-replica"
        self._client = bare(client)
        self._tables = Tables(client)
        self._lock = threading.RLock()
        self._pending: dict[str, tuple[Item, deque[Item | None]]] = {}
        self._client.create_table(TableName=self.name, **self._definition())
        self._copy()

    @property
    def behind(self) -> bool:
        return bool(self._pending)

    def note(self, key: Item) -> None:
        """The item with that key has just been written."""
        with self._lock:
            _, images = self._pending.setdefault(name_of(key), (key, deque()))
            images.append(self._tables.item(self.table, key))

    def catch_up(self) -> None:
        """Apply every change."""
        while self._pending:
            self.advance(lambda names: names)

    def advance(self, some: Some) -> None:
        """Apply the oldest change of some of the items that have changed."""
        with self._lock:
            for name in some(list(self._pending)):
                key, images = self._pending[name]
                self._apply(key, images.popleft())
                if not images:
                    del self._pending[name]

    def serves(self, call: Call) -> bool:
        """Whether the service may answer this from a while ago."""
        asked = call.kwargs
        match call.method:
            case "query" | "scan" | "get_item" if asked["TableName"] == self.table:
                return "IndexName" in asked or not asked.get("ConsistentRead")
            case "batch_get_item" if set(asked["RequestItems"]) == {self.table}:
                return not asked["RequestItems"][self.table].get("ConsistentRead")
        return False

    def answer(self, call: Call) -> Any:
        """What the service may answer to a call that this serves."""
        send = getattr(self._client, call.method)
        if call.method != "batch_get_item":
            return send(**changed(call, TableName=self.name).kwargs)
        [asked] = call.kwargs["RequestItems"].values()
        answer = send(**changed(call, RequestItems={self.name: asked}).kwargs)
        return {**answer, "Responses": {self.table: answer["Responses"][self.name]}}

    def drop(self) -> None:
        self._client.delete_table(TableName=self.name)

    def _apply(self, key: Item, item: Item | None) -> None:
        if item is None:
            self._client.delete_item(TableName=self.name, Key=key)
        else:
            self._client.put_item(TableName=self.name, Item=item)

    def _copy(self) -> None:
        for page in self._client.get_paginator("scan").paginate(TableName=self.table):
            for item in page["Items"]:
                self._client.put_item(TableName=self.name, Item=item)

    def _definition(self) -> Mapping[str, Any]:
        described = self._client.describe_table(TableName=self.table)["Table"]
        wanted = {name: described[name] for name in _DEFINITION}
        indexes = [
            {name: index[name] for name in _OF_INDEX}
            for index in described.get("GlobalSecondaryIndexes", ())
        ]
        if indexes:
            wanted["GlobalSecondaryIndexes"] = indexes
        return {**wanted, "BillingMode": "PAY_PER_REQUEST"}
