"""A DynamoDB table of another system, whose items are taken over while that system runs.

An item is taken by one transaction: it is deleted if it is still as it was read, and a copy of it
is put aside in the same table, under a key at which the other system does not look. So exactly one
of both systems has an item at any moment, and what was taken is in the table until it is a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec

from oncue import boto
from oncue.boto import code_of
from oncue.core.errors import InvalidInput, StoreError, StoreUnusable
from oncue.stores.dynamodb.address import CONNECTIONS, READ_SECONDS
from oncue.stores.dynamodb.refusals import TransactionFailed
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.trouble import explain
from oncue.stores.dynamodb.writes import mark
from oncue.usecases.jobs import chunks

P = ParamSpec("P")
T = TypeVar("T")
WireItem = Mapping[str, Mapping[str, Any]]
"""An item as the service gives it."""
ASIDE = "oncue-adopting#"
"""Before the partition key of an item, in that of its copy."""
LARGEST_BYTES = 390_000  # an item may have 400 KB; a copy has a little more than the item
DEEPEST = 31  # maps and lists inside each other, the item itself included; its copy has one more
PAGE = 500
TAKEN_AT_ONCE = 20  # two writes for each; a transaction may have 100, and 4 MB
TAKEN_BYTES = 1_000_000
COMPARED = 100  # attributes; a condition may have 300 operators


def connect(name: str, region: str | None, endpoint: str | None) -> Table:
    """The table of that name. Credentials are found by boto3, in its usual places."""
    boto.require_boto3("a DynamoDB table", "")
    client = partial(
        boto.connect,
        *("dynamodb", region, endpoint),
        name=f"table {name}",
        pointer="",
        region_hint="give --region eu-central-1 (or yours)",
        read_timeout=READ_SECONDS,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    return Table(name, client)


def size_of(item: WireItem) -> int:
    return len(msgspec.json.encode(item))


def depth_of(value: Mapping[str, Any]) -> int:
    """How many maps and lists are inside each other, in a value as the service gives it."""
    if "M" in value:
        return 1 + max(map(depth_of, value["M"].values()), default=0)
    return 1 + max(map(depth_of, value["L"]), default=0) if "L" in value else 0


class OthersTable:
    """Its keys are texts: that of the partition, and that of the order in it."""

    def __init__(self, table: Table, keys: tuple[str, str]) -> None:
        self.name = table.name
        self._table = table
        self._partition, self._order = keys

    def close(self) -> None:
        self._table.close()

    def check_keys(self, system: str) -> str:
        """The ARN of the table; refused if it cannot be one of this system."""
        described = self._call("describe_table")["Table"]
        defined = described["AttributeDefinitions"]
        kinds = {one["AttributeName"]: one["AttributeType"] for one in defined}
        found = {
            (one["AttributeName"], one["KeyType"], kinds[one["AttributeName"]])
            for one in described["KeySchema"]
        }
        if found != {(self._partition, "HASH", "S"), (self._order, "RANGE", "S")}:
            shown = ", ".join(f"{name} ({kind}, {of})" for name, kind, of in sorted(found))
            raise InvalidInput(
                f"table {self.name} is not one of {system}: its keys are {shown}, and those of "
                f"{system} are {self._partition} (HASH, S) and {self._order} (RANGE, S). Name the "
                "table of that system."
            )
        return str(described.get("TableArn", self.name))

    def pages(self, method: str, **asked: Any) -> Iterator[list[WireItem]]:
        """What a query or a scan finds, read consistently. At most `PAGE` items, or 1 MB, are in
        memory."""
        asked |= {"Limit": PAGE, "ConsistentRead": True}
        while True:
            answer = self._call(method, **asked)
            if answer["Items"]:
                yield answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def partition(self, value: str) -> dict[str, Any]:
        """What a query asks for, to find the items of a partition."""
        return {
            "KeyConditionExpression": "#p = :p",
            "ExpressionAttributeNames": {"#p": self._partition},
            "ExpressionAttributeValues": {":p": {"S": value}},
        }

    def original_of(self, item: WireItem) -> WireItem | None:
        """The item of which this is the copy; None: it is none."""
        if not item[self._partition]["S"].startswith(ASIDE):
            return None
        content: WireItem = item["item"]["M"]
        return content

    def take(self, items: Sequence[WireItem]) -> list[bool]:
        """Take items; whether each was taken. False: it is gone or has changed since it was read,
        or an earlier item of its key is still aside."""
        parts = chunks(items, size_of, TAKEN_AT_ONCE, TAKEN_BYTES)
        return [taken for part in self._table.each(self._take, parts) for taken in part]

    def _take(self, items: Sequence[WireItem]) -> list[bool]:
        """One transaction; without the items that made it fail, another one."""
        left = list(range(len(items)))
        while left:
            writes = [write for place in left for write in self._moved(items[place])]
            try:
                # With the same token for every repetition, the service does it once.
                self._call("transact_write_items", TransactItems=writes, ClientRequestToken=mark())
                break
            except TransactionFailed as failed:
                lost = {left[position // 2] for position in failed.old}
                left = [place for place in left if place not in lost]
        return [place in left for place in range(len(items))]

    def _moved(self, item: WireItem) -> list[dict[str, Any]]:
        """The item goes, if it is as it was; its copy comes. Nothing of it is at the top of the
        copy, so it is in no index."""
        names = [name for name in item if name not in (self._partition, self._order)][:COMPARED]
        same = [f"#a{at} = :a{at}" for at in range(len(names))]
        condition: dict[str, Any] = {
            "ConditionExpression": " AND ".join(["attribute_exists(#key)", *same]),
            "ExpressionAttributeNames": {
                "#key": self._order,
                **{f"#a{at}": name for at, name in enumerate(names)},
            },
        }
        if names:
            values = {f":a{at}": item[name] for at, name in enumerate(names)}
            condition["ExpressionAttributeValues"] = values
        put = {
            "Item": {**self._copy_key(item), "item": {"M": item}},
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": self._order},
        }
        delete = {"Key": self._key(item), **condition}
        return [
            {"Delete": {"TableName": self.name, **delete}},
            {"Put": {"TableName": self.name, **put}},
        ]

    def _key(self, item: WireItem) -> dict[str, Any]:
        return {name: item[name] for name in (self._partition, self._order)}

    def _copy_key(self, item: WireItem) -> dict[str, Any]:
        aside = {"S": ASIDE + item[self._partition]["S"]}
        return {self._partition: aside, self._order: item[self._order]}

    def forget(self, items: Sequence[WireItem]) -> None:
        """Remove the copies of these items."""
        removed = [{"DeleteRequest": {"Key": self._copy_key(item)}} for item in items]
        self._told(self._table.write_requests, removed)

    def _call(self, method: str, **asked: Any) -> Any:
        return self._told(self._table.call, method, **asked)

    def _told(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Trouble says what to do about it where the table is not oncue's."""
        try:
            return ask(*args, **kwargs)
        except StoreError as trouble:
            raise _of_others(self.name, trouble) from None


def _of_others(table: str, trouble: StoreError) -> StoreError:
    """The same trouble, with what to do about it where the table is not oncue's."""
    problem = trouble.__cause__
    code = code_of(problem)
    if code == "ResourceNotFoundException":
        return StoreUnusable(
            f"DynamoDB table {table} does not exist, or not in this region and account. Check the "
            "name, --region and --endpoint. (Emulators also keep tables apart by access key.)"
        )
    if code == "AccessDeniedException":
        text = str(explain(table, problem)).partition(" docs/")[0]
        return StoreUnusable(f"{text} docs/settings.md has the policy that the command needs.")
    text = str(trouble).replace("in the URL of the store", "(--region, --endpoint)")
    return type(trouble)(text)
