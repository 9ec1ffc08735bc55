"""Items, conditions and statements as the service wants them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import ABSENT, Expire, If, Item, Remove, Single

_TAGS = {str: "S", int: "N", bytes: "B"}

_MISSING = re.compile(r"attribute_not_exists\(#(\w+)\)").findall


def query_of(pk: str, names: tuple[str, str], above: str, upto: str) -> dict[str, Any]:
    values = {":pk": pk, ":above": above + "\x00" if above else " ", ":upto": upto}
    return {
        "KeyConditionExpression": "#pk = :pk AND #sk BETWEEN :above AND :upto",
        "ExpressionAttributeNames": {"#pk": names[0], "#sk": names[1]},
        "ExpressionAttributeValues": to_wire(values),
    }


def wire_key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def to_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the service wants it. A dictionary is a value of another kind, as read."""
    return {
        name: value
        if type(value) is dict
        else {_TAGS[type(value)]: str(value) if type(value) is int else value}
        for name, value in item.items()
    }


def from_wire(item: Mapping[str, Any]) -> Item:
    """An item as the service gives it. Values of other kinds stay as they are: this store writes
    none, and whoever reads foreign items knows them."""
    return {
        name: _whole(value) if "N" in value else value.get("S", value.get("B", value))
        for name, value in item.items()
    }


def _whole(value: Mapping[str, Any]) -> Any:
    try:
        return int(value["N"])
    except ValueError:
        return value


def condition(only_if: If | None) -> dict[str, Any]:
    if only_if is None:
        return {}
    asked: dict[str, Any] = {
        "ConditionExpression": only_if.expression,
        "ExpressionAttributeNames": {
            word: word[1:] for word in _words(only_if.expression) if word.startswith("#")
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if only_if.values:
        values = {f":{name}": value for name, value in only_if.values.items()}
        asked["ExpressionAttributeValues"] = to_wire(values)
    return asked


def _words(expression: str) -> list[str]:
    for mark in "(),=<>":
        expression = expression.replace(mark, " ")
    return expression.split()


def statement(table: str, write: Single) -> dict[str, Any]:
    """A write with its condition as a statement, of which many are sent together."""
    only_if = write.only_if
    assert only_if is not None, "without a condition it belongs into `write`"
    where = "".join(f' AND "{name}"=?' for name in only_if.values)
    if isinstance(write, Remove):
        where += "".join(f' AND "{name}" IS MISSING' for name in _MISSING(only_if.expression))
    seen = list(to_wire(only_if.values).values())
    key = list(wire_key(write.key).values())
    if isinstance(write, Remove):
        text = f'DELETE FROM "{table}" WHERE "pk"=? AND "sk"=?{where}'
        values = [*key, *seen]
    elif isinstance(write, Expire):
        text = f'UPDATE "{table}" SET "ttl"=? WHERE "pk"=? AND "sk"=?'
        values = [{"N": str(write.ttl)}, *key]
    elif only_if == ABSENT:
        item = to_wire(write.item)
        names = ", ".join(f"'{name}': ?" for name in item)
        text, values = f'INSERT INTO "{table}" VALUE {{{names}}}', list(item.values())
    else:
        item = to_wire(write.item)
        changed = {name: value for name, value in item.items() if name not in ("pk", "sk")}
        sets = "".join(f' SET "{name}"=?' for name in changed)
        removes = "".join(f' REMOVE "{name}"' for name in OPTIONAL if name not in changed)
        text = f'UPDATE "{table}"{sets}{removes} WHERE "pk"=? AND "sk"=?{where}'
        values = [*changed.values(), *key, *seen]
    returned = {} if only_if == ABSENT else {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return {"Statement": text, "Parameters": values, **returned}


OPTIONAL = ("look", "at", "ttl", "payload", "result", "past")
"""Attributes that a record may have or not."""
