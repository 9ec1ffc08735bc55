"""The table: creating it, and looking whether it is as it should be."""

from __future__ import annotations

import secrets
from typing import Any

from botocore.exceptions import ClientError

from oncue.core.errors import StoreUnavailable, StoreUnusable
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.table import ABSENT, Table
from oncue.stores.dynamodb.trouble import code_of, explain

SCHEMA = 1
READY_SECONDS = 120
_TEXTS = ("pk", "sk", "look", "at")


def create(table: Table, *, recovery: bool = False) -> bool:
    """Create the table if it is not there, with its index and its time to live, and the few items
    that it begins with. `recovery`: with point-in-time recovery. Whether it was created now."""
    made = _create_table(table)
    _wait(table)
    _expire_items(table)
    if recovery:
        table.client.update_continuous_backups(
            TableName=table.name,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )
    table.put({**keys.SCHEMA._asdict(), "ver": SCHEMA}, ABSENT)
    table.put({**keys.SECRET._asdict(), "secret": secrets.token_bytes(32)}, ABSENT)
    return made


def _create_table(table: Table) -> bool:
    try:
        table.client.create_table(
            TableName=table.name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in _TEXTS],
            KeySchema=_keys("pk", "sk"),
            GlobalSecondaryIndexes=[
                {
                    "IndexName": keys.INDEX,
                    "KeySchema": _keys("look", "at"),
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
    except ClientError as error:
        if code_of(error) == "ResourceInUseException":
            return False
        raise explain(table.name, error) from error
    return True


def _keys(hashed: str, sorted_by: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hashed, "KeyType": "HASH"},
        {"AttributeName": sorted_by, "KeyType": "RANGE"},
    ]


def _wait(table: Table) -> None:
    waiter = table.client.get_waiter("table_exists")
    waiter.wait(TableName=table.name, WaiterConfig={"Delay": 1, "MaxAttempts": READY_SECONDS})


def _expire_items(table: Table) -> None:
    status = table.client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    if status.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        return
    table.client.update_time_to_live(
        TableName=table.name,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"},
    )


def open_table(table: Table) -> bytes:
    """Look whether the table can be used by this version; the secret of the store."""
    found = table.read([keys.SCHEMA, keys.SECRET])
    if keys.SCHEMA not in found or keys.SECRET not in found:
        raise StoreUnusable(
            f"DynamoDB table {table.name} is not a store of oncue. 'oncue migrate' makes it one; "
            "what is in the table stays."
        )
    schema = found[keys.SCHEMA]["ver"]
    if schema > SCHEMA:
        raise StoreUnusable(
            f"DynamoDB table {table.name} has schema {schema}; this version of oncue knows "
            f"{SCHEMA}. Use a newer version."
        )
    secret: bytes = found[keys.SECRET]["secret"]
    return secret


def describe(table: Table) -> dict[str, Any]:
    """What the service says of the table."""
    try:
        told: dict[str, Any] = table.client.describe_table(TableName=table.name)["Table"]
    except ClientError as error:
        raise explain(table.name, error) from error
    if told["TableStatus"] not in ("ACTIVE", "UPDATING"):
        raise StoreUnavailable(f"DynamoDB table {table.name} is {told['TableStatus'].lower()}.")
    return told
