"""What DynamoDB answers instead of doing what it was asked: which of it passes, and how it is told.

No text of a request is repeated: an item may hold a payload, and a request its credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectionError,
    HTTPClientError,
)

from oncue.boto import NOT_ACCEPTED, answer_of, code_of, lacks_credentials, unreached
from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable

_PASSING = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "Throttling",
        "RequestLimitExceeded",
        "InternalServerError",
        "ServiceUnavailable",
        "RequestTimeout",
        "TransactionInProgressException",
    }
)
_CONFLICTS = frozenset({"TransactionConflict", "TransactionConflictException"})
THROTTLES = frozenset(code for code in _PASSING if "hrott" in code or "Exceeded" in code)
_DENIED = "AccessDeniedException"


def reasons(response: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any] | None]]:
    """Why a transaction was cancelled: position, code, the item as it is."""
    for place, reason in enumerate(response.get("CancellationReasons", ())):
        if reason.get("Code") not in (None, "None"):
            yield place, reason["Code"], reason.get("Item")


def is_conflict(problem: Any) -> bool:
    """Whether another request had to do with the same item at the same time."""
    if code_of(problem) in _CONFLICTS:
        return True
    codes = {code for _, code, _ in reasons(answer_of(problem))}
    return bool(codes) and codes <= _CONFLICTS | _PASSING


def is_throttle(problem: Any) -> bool:
    """Whether the service, or a partition of it, was asked for more than it gives."""
    codes = {code for _, code, _ in reasons(answer_of(problem))}
    return not THROTTLES.isdisjoint({code_of(problem), *codes})


def is_unreached(problem: Any) -> bool:
    """Whether there was no connection to the service."""
    return isinstance(problem, ConnectionError)


def may_pass(problem: Any) -> bool:
    """Whether the same request may succeed later."""
    if is_unreached(problem) or isinstance(problem, HTTPClientError | ConnectionClosedError):
        return True
    status = answer_of(problem).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return code_of(problem) in _PASSING or status >= 500


def passes(problem: Any) -> bool:
    """Whether it is worth to ask again."""
    return is_conflict(problem) or may_pass(problem)


def explain(table: str, problem: Any) -> StoreError:
    """The trouble as an error of oncue, with what to do about it."""
    code = code_of(problem)
    if code == "ResourceNotFoundException":
        return StoreUnusable(
            f"DynamoDB table {table} does not exist, or not in this region. Name another one, or "
            "create it: oncue migrate, with the URL of this store. (Emulators also keep tables "
            "apart by access key.)"
        )
    if lacks_credentials(problem):
        return StoreUnusable(
            f"DynamoDB table {table}: boto3 found no usable credentials "
            f"({type(problem).__name__}). Give some in one of its ways: environment, profile or "
            "role. An emulator takes any: AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local"
        )
    if code in NOT_ACCEPTED:
        return StoreUnusable(
            f"DynamoDB table {table}: the credentials were not accepted ({code}). They are wrong "
            "or expired, or the clock of this machine is wrong; 'aws sts get-caller-identity' "
            "tells whether they are good."
        )
    if code == _DENIED:
        return StoreUnusable(
            f"DynamoDB table {table}: access was refused ({code}{_refused_action(problem)}). "
            "docs/dynamodb.md has the policy that the credentials need."
        )
    if passes(problem):
        return StoreUnavailable(f"DynamoDB table {table}: {code or unreached(problem, 'store')}")
    if isinstance(problem, BotoCoreError):
        return StoreUnusable(f"DynamoDB table {table}: {type(problem).__name__}")
    todo = ""
    if code == "ValidationException":  # a table with other keys refuses the first request so
        todo = ". If it is not a table of oncue, 'oncue migrate --dry-run' says what it lacks."
    elif code.isdigit():  # an answer that is not one of DynamoDB has its status as its code
        todo = ". What answers there is not DynamoDB: check the endpoint in the URL of the store."
    return StoreUnusable(f"DynamoDB table {table} refused a request: {code or problem}{todo}")


def too_long(table: str, problem: Exception | None) -> StoreUnavailable:
    """Asking again has not helped. Without a problem, parts of a request were left out."""
    said = f"DynamoDB table {table}: "
    why = "it was throttled" if problem is None else str(explain(table, problem)).removeprefix(said)
    return StoreUnavailable(f"DynamoDB table {table} did not answer in time: {why}")


def _refused_action(problem: Any) -> str:
    """What the policy does not allow. The rest of the message names the caller."""
    message = str(getattr(problem, "response", {}).get("Error", {}).get("Message", ""))
    found = re.search(r"dynamodb:[A-Za-z]+", message)
    return f" for {found[0]}" if found else ""
