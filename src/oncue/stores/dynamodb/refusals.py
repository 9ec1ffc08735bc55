"""Writes that were refused because their condition does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue.boto import answer_of
from oncue.stores.dynamodb.trouble import reasons
from oncue.stores.dynamodb.wire import from_wire
from oncue.stores.dynamodb.writes import Item


class ConditionFailed(Exception):
    """The condition of a write does not hold. `old` is the item as it is."""

    def __init__(self, old: Item | None) -> None:
        super().__init__()
        self.old = old


class TransactionFailed(Exception):
    """Conditions of a transaction do not hold: by position, the item as it is."""

    def __init__(self, old: Mapping[int, Mapping[str, Any] | None]) -> None:
        super().__init__()
        self.old = old


def raise_failed_condition(problem: Exception) -> None:
    """Raise one of the two, if that is what the service says."""
    response = answer_of(problem)
    code = response.get("Error", {}).get("Code")
    if code == "ConditionalCheckFailedException":
        old = response.get("Item")
        raise ConditionFailed(from_wire(old) if old else None) from None
    failed = {at: item for at, why, item in reasons(response) if why == "ConditionalCheckFailed"}
    if failed:
        raise TransactionFailed(failed) from None
