"""The rows of a DynamoDB table of another system, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from oncue.aws.clients import client
from oncue.core.agenda import AgendaRecord, last_update, state_of
from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable
from oncue.core.reclaim import ForeignTable

HINTS = ("attemptsCompleted", "maximumAttempts", "retryable")
"""What a row may tell so that a failed record need not be asked for: each also with a capital."""
_NO_PATHS = (".", "..")  # a server takes them for another path

Key = Mapping[str, Any]


class RowPage(NamedTuple):
    rows: list[AgendaRecord]
    """Without an id (''), if that cannot be read."""
    next: Key | None


class ForeignRows:
    def __init__(self, table: ForeignTable) -> None:
        self._table = table
        message = f"{table.state}Message"
        wanted = (table.id, table.time, table.state, message, table.claim_time)
        hints = [name for hint in HINTS for name in (hint, hint[0].upper() + hint[1:])]
        names = dict.fromkeys(name for name in (*wanted, *hints) if name)
        # DynamoDB refuses an expression that names a field twice, and one with reserved words.
        self._names = {f"#f{place}": name for place, name in enumerate(names)}

    def page(self, after: Key | None, limit: int) -> RowPage:
        """So many rows, read consistently, and the key from which to go on. No row is filtered out
        by the service, so a page without stuck rows ends nothing."""
        from botocore.exceptions import BotoCoreError, ClientError

        start = {} if after is None else {"ExclusiveStartKey": after}
        try:
            answer = client("dynamodb").scan(
                TableName=self._table.name,
                Limit=limit,
                ConsistentRead=True,
                ProjectionExpression=", ".join(self._names),
                ExpressionAttributeNames=self._names,
                **start,
            )
        except (ClientError, BotoCoreError) as problem:
            raise _trouble(self._table.name, problem) from None
        return RowPage(
            [self._row(item) for item in answer["Items"]], answer.get("LastEvaluatedKey")
        )

    def _row(self, item: Mapping[str, Any]) -> AgendaRecord:
        values = {name: _value(attribute) for name, attribute in item.items()}
        table = self._table
        claimed = values.get(table.claim_time) if table.claim_time else None
        completed, most, retryable = (_hint(values, hint) for hint in HINTS)
        return AgendaRecord(
            _id(values.get(table.id)),
            state_of(values.get(table.state), values.get(f"{table.state}Message")),
            last_update(values.get(table.time), claimed),
            int(completed) if isinstance(completed, Decimal) else None,
            int(most) if isinstance(most, Decimal) else None,
            retryable if isinstance(retryable, bool) else None,
        )


def _value(attribute: Mapping[str, Any]) -> object:
    """A text, a number, a truth value or None; what is none of these stays as it is."""
    if "N" in attribute:
        try:
            return Decimal(attribute["N"])
        except InvalidOperation:
            return attribute
    return None if "NULL" in attribute else attribute.get("S", attribute.get("BOOL", attribute))


def _hint(values: Mapping[str, object], name: str) -> object:
    return values.get(name, values.get(name[0].upper() + name[1:]))


def _id(value: object) -> str:
    """The id as a path has it; '' for what cannot be one."""
    text = f"{value:f}" if isinstance(value, Decimal) else value
    return text if isinstance(text, str) and text not in _NO_PATHS else ""


def _trouble(table: str, problem: Exception) -> StoreError:
    from oncue.boto import code_of
    from oncue.stores.dynamodb.trouble import explain, may_pass

    if may_pass(problem):
        kind = code_of(problem) or type(problem).__name__
        return StoreUnavailable(f"DynamoDB table {table} did not answer: {kind}")
    if code_of(problem) == "ResourceNotFoundException":
        return StoreUnusable(f"DynamoDB table {table} does not exist, or not in this region.")
    if code_of(problem) == "AccessDeniedException":
        return StoreUnusable(f"DynamoDB table {table}: the function may not dynamodb:Scan it.")
    if code_of(problem) == "ValidationException":
        return StoreUnusable(f"DynamoDB table {table} refused the scan (ValidationException).")
    return explain(table, problem)
