"""Making a table that this version can use: the table, its index, its time to live.

Nothing that a table has is changed or removed.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

from oncue.boto import code_of
from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.schema import SCHEMA, mode_of
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import ABSENT
from oncue.stores.migration import MigrationStep

READY_SECONDS = 120
LOOK_SECONDS = 1.0
TTL = "ttl"
_INDEX = {"pk": "look", "sk": "at"}
_TEXTS = ("pk", "sk", *_INDEX.values())


def create(table: Table) -> None:
    """Create the table if it is not there, and what it lacks."""
    for step in steps(table):
        step.apply()


def steps(table: Table, *, recovery: bool = False) -> list[MigrationStep]:
    """What the table lacks. `recovery`: also point-in-time recovery."""
    state = _described(table)
    if state is None:
        text = f"create table {table.name}, on demand, with index {keys.INDEX}"
        found = [MigrationStep(text, lambda: _create(table))]
    else:
        _require_keys(table, state)
        found = _missing_index(table, state)
    if state is None or not _expires_items(table):
        text = f"set the time to live of its items: attribute '{TTL}'"
        found.append(MigrationStep(text, lambda: _expire_items(table)))
    if state is None or len(table.read([keys.SCHEMA, keys.SECRET])) < 2:
        text = f"store the version of the schema ({SCHEMA}) and the secret of claim tokens"
        found.append(MigrationStep(text, lambda: _begin(table)))
    if recovery and (state is None or not _recovers(table)):
        found.append(MigrationStep("turn on point-in-time recovery", lambda: _recover(table)))
    return found


# The table.


def _described(table: Table) -> dict[str, Any] | None:
    """What the service says of the table; None: there is none."""
    try:
        state: dict[str, Any] = table.call("describe_table")["Table"]
    except StoreUnusable as error:
        if _code(error) == "ResourceNotFoundException":
            return None
        raise
    return state


def _create(table: Table) -> None:
    asked = {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(_TEXTS),
        "KeySchema": _key_schema("pk", "sk"),
        "GlobalSecondaryIndexes": [_index()],
    }
    try:
        table.call("create_table", **asked)
    except StoreUnusable as error:
        if _code(error) != "ResourceInUseException":  # another process may have done it
            raise
    _wait(table)


def _require_keys(table: Table, state: dict[str, Any]) -> None:
    """Refuse a table that has other keys: those cannot be changed."""
    kinds = {one["AttributeName"]: one["AttributeType"] for one in state["AttributeDefinitions"]}
    has = [(one["AttributeName"], kinds[one["AttributeName"]]) for one in state["KeySchema"]]
    if has != [("pk", "S"), ("sk", "S")]:
        named = ", ".join(f"{name} ({kind})" for name, kind in has)
        raise StoreUnusable(
            f"DynamoDB table {table.name} has other keys than a store: {named} instead of pk (S), "
            "sk (S). Name a table of its own."
        )


def _missing_index(table: Table, state: dict[str, Any]) -> list[MigrationStep]:
    index = keys.INDEX
    for one in state.get("GlobalSecondaryIndexes", ()):
        if one["IndexName"] == index:
            if one["KeySchema"] != _key_schema(*_INDEX.values()):
                raise StoreUnusable(
                    f"DynamoDB table {table.name} has an index {index} with other keys than a "
                    "store. Name a table of its own."
                )
            if one["IndexStatus"] == "ACTIVE":
                return []
            return [MigrationStep(f"wait for index {index}", lambda: _wait(table))]
    if state["TableStatus"] == "CREATING":
        return [MigrationStep(f"wait for table {table.name}", lambda: _wait(table))]
    return [MigrationStep(f"add index {index}", lambda: _add_index(table, state))]


def _add_index(table: Table, state: dict[str, Any]) -> None:
    index = _index()
    if mode_of(state) == "PROVISIONED":
        given = state["ProvisionedThroughput"]
        units = ("ReadCapacityUnits", "WriteCapacityUnits")
        index["ProvisionedThroughput"] = {name: given[name] for name in units}
    table.call(
        "update_table",
        AttributeDefinitions=_attributes(_TEXTS),
        GlobalSecondaryIndexUpdates=[{"Create": index}],
    )
    _wait(table)


def _index() -> dict[str, Any]:
    return {
        "IndexName": keys.INDEX,
        "KeySchema": _key_schema(*_INDEX.values()),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _attributes(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def _key_schema(hashed: str, sorted_by: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hashed, "KeyType": "HASH"},
        {"AttributeName": sorted_by, "KeyType": "RANGE"},
    ]


def _wait(table: Table) -> None:
    """Wait until the table and its index can be used."""

    def is_ready() -> bool:
        state = _described(table)
        if state is None or state["TableStatus"] not in ("ACTIVE", "UPDATING"):
            return False
        return all(one["IndexStatus"] == "ACTIVE" for one in state["GlobalSecondaryIndexes"])

    _patiently(is_ready, f"DynamoDB table {table.name} is not ready")


# What it does by itself.


def _expires_items(table: Table) -> bool:
    """Whether items that have expired are removed. Refuses a table that does so by another
    attribute: there can be only one."""
    ttl = table.call("describe_time_to_live")["TimeToLiveDescription"]
    if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        return False
    if ttl.get("AttributeName") != TTL:
        raise StoreUnusable(
            f"DynamoDB table {table.name} has its time to live in the attribute "
            f"{ttl.get('AttributeName')!r}; a store needs it in '{TTL}'. Name a table of its own."
        )
    return True


def _expire_items(table: Table) -> None:
    wanted = {"Enabled": True, "AttributeName": TTL}
    try:
        table.call("update_time_to_live", TimeToLiveSpecification=wanted)
    except StoreUnusable:
        if not _expires_items(table):  # another process may have done it
            raise


def _recovers(table: Table) -> bool:
    try:
        backups = table.call("describe_continuous_backups")["ContinuousBackupsDescription"]
    except StoreUnusable as error:
        raise _without_recovery(table, error) from None
    recovery = backups.get("PointInTimeRecoveryDescription", {})
    return bool(recovery.get("PointInTimeRecoveryStatus") == "ENABLED")


def _recover(table: Table) -> None:
    """Backups cannot be had in the first moments of a table."""
    wanted = {"PointInTimeRecoveryEnabled": True}

    def ask() -> bool:
        try:
            table.call("update_continuous_backups", PointInTimeRecoverySpecification=wanted)
        except StoreUnusable as error:
            if _code(error) == "ContinuousBackupsUnavailableException":
                return False
            raise _without_recovery(table, error) from None
        return True

    _patiently(ask, f"DynamoDB table {table.name} has no backups yet")


def _without_recovery(table: Table, error: StoreError) -> StoreError:
    if _code(error) != "UnknownOperationException":
        return error
    return StoreUnusable(
        f"DynamoDB table {table.name}: this emulator has no point-in-time recovery. Leave out "
        "--point-in-time-recovery."
    )


def _begin(table: Table) -> None:
    """The items that every store has."""
    table.put({**keys.SCHEMA._asdict(), "ver": SCHEMA}, ABSENT)
    table.put({**keys.SECRET._asdict(), "secret": secrets.token_bytes(32)}, ABSENT)


# Asking.


def _patiently(ask: Callable[[], bool], trouble: str) -> None:
    for _ in range(round(READY_SECONDS / LOOK_SECONDS)):
        if ask():
            return
        threading.Event().wait(LOOK_SECONDS)
    raise StoreUnavailable(
        f"{trouble} after {READY_SECONDS} s. Repeat 'oncue migrate': it goes on where it was."
    )


def _code(error: StoreError) -> str:
    """What the service answered."""
    return code_of(error.__cause__)
