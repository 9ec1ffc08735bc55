"""A table for tests of the wrappers, and short words for what they do with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue_bench.dynamodb.requests import Item

KEYS = ("pk", "sk")
INDEX = "look"
INDEX_KEYS = ("lpk", "lsk")


def create(client: Any, name: str) -> None:
    """A table with one sparse index of keys only."""
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": key, "AttributeType": "S"} for key in KEYS + INDEX_KEYS
        ],
        KeySchema=_schema(KEYS),
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX,
                "KeySchema": _schema(INDEX_KEYS),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )


def item(pk: str, sk: str = "s", **texts: str) -> Item:
    return {name: {"S": text} for name, text in {"pk": pk, "sk": sk, **texts}.items()}


class Shelf:
    """Requests to one table."""

    def __init__(self, client: Any, table: str) -> None:
        self.client = client
        self.table = table

    def put(self, wanted: Item, **more: Any) -> Any:
        return self.client.put_item(TableName=self.table, Item=wanted, **more)

    def get(self, pk: str, sk: str = "s", *, consistent: bool = True) -> Item | None:
        asked = {"TableName": self.table, "Key": item(pk, sk), "ConsistentRead": consistent}
        found: Item | None = self.client.get_item(**asked).get("Item")
        return found

    def delete(self, pk: str, sk: str = "s", **more: Any) -> Any:
        return self.client.delete_item(TableName=self.table, Key=item(pk, sk), **more)

    def update(self, pk: str, sk: str = "s", **texts: str) -> Any:
        """Set attributes."""
        return self.client.update_item(TableName=self.table, Key=item(pk, sk), **_setting(texts))

    def put_all(self, *items: Item) -> Any:
        requests = [{"PutRequest": {"Item": one}} for one in items]
        return self.client.batch_write_item(RequestItems={self.table: requests})

    def get_all(self, *pks: str, consistent: bool = True) -> Any:
        asked = {"Keys": [item(pk) for pk in pks], "ConsistentRead": consistent}
        return self.client.batch_get_item(RequestItems={self.table: asked})

    def transact(self, *actions: Mapping[str, Any], **more: Any) -> Any:
        """Each action is `{"Put": …}` and the like, without the name of the table."""
        entries = [
            {verb: {"TableName": self.table, **asked}}
            for action in actions
            for verb, asked in action.items()
        ]
        return self.client.transact_write_items(TransactItems=entries, **more)

    def execute(self, *asked: Mapping[str, Any]) -> list[Any]:
        """Statements, in which `%s` is the name of the table; the answer to each."""
        named = [{**one, "Statement": one["Statement"] % f'"{self.table}"'} for one in asked]
        answers: list[Any] = self.client.batch_execute_statement(Statements=named)["Responses"]
        return answers

    def query(self, pk: str, *, index: bool = False, **more: Any) -> Any:
        name = INDEX_KEYS[0] if index else "pk"
        return self.client.query(
            TableName=self.table,
            KeyConditionExpression=f"{name} = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
            **({"IndexName": INDEX} if index else {}),
            **more,
        )


def put(wanted: Item, **more: Any) -> Mapping[str, Any]:
    """A put of a transaction."""
    return {"Put": {"Item": wanted, **more}}


def absent(pk: str) -> Mapping[str, Any]:
    """A check of a transaction."""
    return {"ConditionCheck": {"Key": item(pk), "ConditionExpression": "attribute_not_exists(pk)"}}


def insert(wanted: Item) -> Mapping[str, Any]:
    names = ", ".join(f"'{name}': ?" for name in wanted)
    return {"Statement": f"INSERT INTO %s VALUE {{{names}}}", "Parameters": [*wanted.values()]}


def set_if(pk: str, v: str, was: str, sk: str = "s") -> Mapping[str, Any]:
    """Set the attribute `v`, if it has that value."""
    text = 'UPDATE %s SET "v"=? REMOVE "d" WHERE "pk"=? AND "sk"=? AND "v"=?'
    return {"Statement": text, "Parameters": [{"S": one} for one in (v, pk, sk, was)]}


def delete_if(pk: str, was: str, sk: str = "s") -> Mapping[str, Any]:
    """Delete an item, if its attribute `v` has that value."""
    text = 'DELETE FROM %s WHERE "pk"=? AND "sk"=? AND "v"=?'
    return {"Statement": text, "Parameters": [{"S": one} for one in (pk, sk, was)]}


def _schema(keys: tuple[str, ...]) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, kinds, strict=True)]


def _setting(texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in texts),
        "ExpressionAttributeNames": {f"#{name}": name for name in texts},
        "ExpressionAttributeValues": {f":{name}": {"S": text} for name, text in texts.items()},
    }
