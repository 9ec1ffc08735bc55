"""The table as this version of oncue expects it. `creation.py` makes one."""

from __future__ import annotations

from typing import Any

from oncue.core.errors import StoreUnavailable, StoreUnusable
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.table import Table

SCHEMA = 1


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
    state: dict[str, Any] = table.call("describe_table")["Table"]
    if state["TableStatus"] not in ("ACTIVE", "UPDATING"):
        raise StoreUnavailable(f"DynamoDB table {table.name} is {state['TableStatus'].lower()}.")
    return state


def mode_of(state: dict[str, Any]) -> str:
    """How the table is billed: PAY_PER_REQUEST (on demand) or PROVISIONED."""
    return str(state.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"))
