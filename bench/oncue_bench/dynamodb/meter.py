"""What a request to DynamoDB costs, found out by looking at the items before and after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from oncue_bench.dynamodb import statements, units
from oncue_bench.dynamodb.requests import Item, Tables, Write, name_of
from oncue_bench.dynamodb.units import Charge
from oncue_bench.dynamodb.wrapped import PARTIQL, WRITES, Call, bare

CHARGED = {"ConditionalCheckFailedException", "TransactionCanceledException"}
_NARROWING = {
    "FilterExpression",
    "ProjectionExpression",
    "Select",
    "AttributesToGet",
    "ReturnConsumedCapacity",
}
_EQUALS = re.compile(r"([#\w]+)\s*=\s*(:\w+)")


class Meter:
    """Asks the client itself about items, past all wrappers: that is neither counted nor
    disturbed. Somebody else's write at the same time makes it wrong."""

    def __init__(self, client: Any) -> None:
        self.tables = Tables(client)
        self._client = bare(client)
        self._done: set[str] = set()  # client tokens

    def measured(self, call: Call, send: Callable[[], Any]) -> tuple[list[Charge], Any]:
        """Make the call; its charges, and its answer or its error."""
        if call.method in PARTIQL:
            raise NotImplementedError(f"nobody has written down what {call.method} costs")
        if call.method not in WRITES:
            answer = send()
            return list(self._reads(call, answer)), answer
        writes = self.tables.writes(call)
        before = self.tables.items([(write.table, write.key) for write in writes])
        try:
            answer = send()
        except ClientError as error:
            is_charged = error.response["Error"]["Code"] in CHARGED
            kept = zip(writes, before, before, strict=True)
            return (self._written(call, kept) if is_charged else []), error
        return self._accepted(call, answer, writes, before), answer

    def expected(self, call: Call) -> list[list[Charge]]:
        """What each item of the request will be charged, as far as that is known before: an update
        may move an entry of an index, and nobody knows what a query will find."""
        if call.method in {"query", "scan"}:
            return [[self._page(call.kwargs, 0)]]
        if call.method not in WRITES:
            return [[charge] for charge in self._reads(call, {})]
        writes = self.tables.writes(call)
        before = self.tables.items([(write.table, write.key) for write in writes])
        return [
            self._written(call, iter([(write, old, _expected(write, old))]))
            for write, old in zip(writes, before, strict=True)
        ]

    def _accepted(
        self, call: Call, answer: Any, writes: list[Write], before: list[Item | None]
    ) -> list[Charge]:
        token = call.kwargs.get("ClientRequestToken")
        if token in self._done:  # the answer of the first is read again
            return [
                units.of_read(self.tables[write.table], write.key, item, 2)
                for write, item in zip(writes, before, strict=True)
            ]
        if token:
            self._done.add(token)
        if call.method == statements.METHOD:
            return self._of_statements(call, answer, writes, before)
        left = _unprocessed(self.tables, answer)
        images = zip(writes, before, self._after(writes, before), strict=True)
        return self._written(
            call, (one for one in images if (one[0].table, name_of(one[0].key)) not in left)
        )

    def _of_statements(
        self, call: Call, answer: Any, writes: list[Write], before: list[Item | None]
    ) -> list[Charge]:
        """A condition that fails is paid for, as in a single write; other errors cost nothing."""
        failed, unpaid = statements.failed(answer), statements.unpaid(answer)
        after = self._after(writes, before)
        images = (
            (write, old, old if at in failed else new)
            for at, (write, old, new) in enumerate(zip(writes, before, after, strict=True))
            if at not in unpaid
        )
        return self._written(call, images)

    def _after(self, writes: list[Write], before: list[Item | None]) -> list[Item | None]:
        updated = [(write.table, write.key) for write in writes if write.verb == "update"]
        found = iter(self.tables.items(updated))
        known = zip(writes, before, strict=True)
        return [
            next(found) if write.verb == "update" else _told(write, old) for write, old in known
        ]

    def _written(
        self, call: Call, images: Iterator[tuple[Write, Item | None, Item | None]]
    ) -> list[Charge]:
        factor = 2 if call.method == "transact_write_items" else 1
        return [
            charge
            for write, old, new in images
            for charge in units.of_write(self.tables[write.table], write, old, new, factor)
        ]

    def _reads(self, call: Call, answer: Any) -> Iterator[Charge]:
        asked = call.kwargs
        match call.method:
            case "get_item":
                yield from self._items(asked["TableName"], [asked["Key"]], _factor(asked))
            case "batch_get_item":
                for table, wanted in asked["RequestItems"].items():
                    left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
                    keys = [key for key in wanted["Keys"] if key not in left]
                    yield from self._items(table, keys, _factor(wanted))
            case "transact_get_items":
                for entry in asked["TransactItems"]:
                    yield from self._items(entry["Get"]["TableName"], [entry["Get"]["Key"]], 2)
            case "query" | "scan":
                gone_through = self._gone_through(call, answer)
                yield self._page(asked, sum(units.size(item) for item in gone_through))

    def _items(self, table: str, keys: list[Item], factor: float) -> Iterator[Charge]:
        found = self.tables.items([(table, key) for key in keys])
        for key, item in zip(keys, found, strict=True):
            yield units.of_read(self.tables[table], key, item, factor)

    def _page(self, asked: Mapping[str, Any], total: int) -> Charge:
        index = asked.get("IndexName")
        place = f"{asked['TableName']}/{index}" if index else asked["TableName"]
        reads = units.read_units(total, consistent=bool(asked.get("ConsistentRead")))
        return Charge(place, self._partition(asked), reads=reads)

    def _gone_through(self, call: Call, answer: Any) -> list[Item]:
        """Whole items, also those that a filter left out."""
        if not _NARROWING & set(call.kwargs):
            return list(answer["Items"])
        wide = {name: value for name, value in call.kwargs.items() if name not in _NARROWING}
        condition = wide.get("KeyConditionExpression", "")
        for part in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            used = {name: one for name, one in wide.pop(part, {}).items() if name in condition}
            if used:
                wide[part] = used
        return list(getattr(self._client, call.method)(**wide)["Items"])

    def _partition(self, asked: Mapping[str, Any]) -> str:
        """The value of the partition key that a query is for; a scan has none."""
        table = self.tables[asked["TableName"]]
        keys = {index.name: index.keys for index in table.indexes}
        wanted = keys.get(asked.get("IndexName", ""), table.keys)[0]
        names = asked.get("ExpressionAttributeNames", {})
        for name, value in _EQUALS.findall(asked.get("KeyConditionExpression", "")):
            if names.get(name, name) == wanted:
                [text] = asked["ExpressionAttributeValues"][value].values()
                return str(text)
        return ""


def _told(write: Write, before: Item | None) -> Item | None:
    """The item after a put, a check or a delete."""
    return before if write.verb == "check" else write.item


def _expected(write: Write, before: Item | None) -> Item | None:
    return before if write.verb == "update" else _told(write, before)


def _factor(asked: Mapping[str, Any]) -> float:
    return 1 if asked.get("ConsistentRead") else 0.5


def _unprocessed(tables: Tables, answer: Mapping[str, Any]) -> set[tuple[str, str]]:
    left = answer.get("UnprocessedItems", {})
    writes = tables.writes(Call("batch_write_item", {"RequestItems": left}))
    return {(write.table, name_of(write.key)) for write in writes}
