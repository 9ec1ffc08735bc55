"""The errors of a boto3 client, as the service and the network make it raise them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

THROTTLES = {
    "ProvisionedThroughputExceededException": "The level of configured provisioned throughput for "
    "the table was exceeded.",
    "ThrottlingException": "Throughput exceeds the current capacity of your table or index.",
    "RequestLimitExceeded": "Throughput exceeds the current throughput limit for your account.",
}
UNREACHED = (ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError)
UNANSWERED = (ReadTimeoutError, ConnectionClosedError)
REASONS = {
    "None": None,
    "TransactionConflict": "Transaction is ongoing for the item",
    "ThrottlingError": THROTTLES["ThrottlingException"],
}


def refusal(
    client: Any, method: str, code: str, message: str, status: int = 400, **more: Any
) -> ClientError:
    """An error that the service answers with."""
    response = {
        "Error": {"Message": message, "Code": code},
        "ResponseMetadata": {
            "RequestId": "injected",
            "HTTPStatusCode": status,
            "HTTPHeaders": {},
            "RetryAttempts": 0,
        },
        **more,
    }
    kind: type[ClientError] = client.exceptions.from_code(code)
    return kind(response, client.meta.method_to_api_mapping[method])  # type: ignore[arg-type]


def throttled(client: Any, method: str, code: str = "ThrottlingException") -> ClientError:
    return refusal(client, method, code, THROTTLES[code])


def broken(client: Any, method: str) -> ClientError:
    return refusal(client, method, "InternalServerError", "Internal server error", 500)


def conflict(client: Any, method: str) -> ClientError:
    """A plain write that met a transaction."""
    message = "Transaction is ongoing for the item"
    return refusal(client, method, "TransactionConflictException", message)


def cancelled(client: Any, method: str, codes: Sequence[str]) -> ClientError:
    """A cancelled transaction, with the code of each of its items ("None" for the innocent)."""
    message = (
        "Transaction cancelled, please refer cancellation reasons for specific reasons "
        f"[{', '.join(codes)}]"
    )
    reasons = [
        {"Code": code, **({"Message": REASONS[code]} if REASONS[code] else {})} for code in codes
    ]
    code = "TransactionCanceledException"
    return refusal(client, method, code, message, Message=message, CancellationReasons=reasons)


def no_answer(client: Any, kind: type[BotoCoreError] = ReadTimeoutError) -> BotoCoreError:
    """An error of the network."""
    return kind(endpoint_url=client.meta.endpoint_url, error="injected")
