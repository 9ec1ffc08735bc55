"""Which permissions of IAM requests need, and which the page about DynamoDB gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.acceptance.documents import blocks

PAGE = "docs/dynamodb.md"
TRANSACTED = {
    "Put": "PutItem",
    "Delete": "DeleteItem",
    "Update": "UpdateItem",
    "ConditionCheck": "ConditionCheckItem",
}
PARTIQL = {"INSERT": "PartiQLInsert", "UPDATE": "PartiQLUpdate", "DELETE": "PartiQLDelete"}
OF_THE_ACCOUNT = {"DescribeLimits"}  # IAM knows it for all resources only


class Permission(NamedTuple):
    action: str
    resource: str
    """`table`, `index`, or `*`."""


def needed(call: Call) -> set[Permission]:
    """The permissions that one request needs."""
    return {Permission(f"dynamodb:{action}", _resource(action, call)) for action in _actions(call)}


def _actions(call: Call) -> Iterator[str]:
    match call.method:
        case "transact_write_items":
            yield from (TRANSACTED[kind] for one in call.kwargs["TransactItems"] for kind in one)
        case "transact_get_items":
            yield "GetItem"
        case "batch_execute_statement":
            for one in call.kwargs["Statements"]:
                yield PARTIQL[one["Statement"].split()[0]]
        case method:
            yield "".join(word.capitalize() for word in method.split("_"))


def _resource(action: str, call: Call) -> str:
    if action in OF_THE_ACCOUNT:
        return "*"
    return "index" if "IndexName" in call.kwargs else "table"


@cache
def granted(*sids: str) -> frozenset[Permission]:
    """What the statements of these names allow."""
    return frozenset(one for sid in sids for one in statements()[sid])


@cache
def statements() -> dict[str, frozenset[Permission]]:
    """Every statement of the policies on the page, by its name."""
    found: dict[str, frozenset[Permission]] = {}
    for block in blocks(PAGE, "json"):
        for statement in json.loads(block.text)["Statement"]:
            assert statement["Effect"] == "Allow"
            kind = _kind(statement["Resource"])
            found[statement["Sid"]] = frozenset(Permission(a, kind) for a in statement["Action"])
    return found


def _kind(resource: str) -> str:
    return "*" if resource == "*" else "index" if resource.endswith("/index/look") else "table"


class Recording(WrappedClient):
    """Knows the methods that were called, and the permissions that they needed."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.methods: set[str] = set()
        self.needed: set[Permission] = set()

    def during(self, call: Call) -> Any:
        self.methods.add(call.method)
        self.needed |= needed(call)
        return self.send(call)


class Permitted(WrappedClient):
    """Refuses what the policies of the page do not allow a process to do."""

    def during(self, call: Call) -> Any:
        missing = needed(call) - granted("OncueRun", "OncueRunIndex", "OncueDump", "OncueDoctor")
        assert not missing, f"{PAGE} does not allow {sorted(missing)}"
        return self.send(call)
