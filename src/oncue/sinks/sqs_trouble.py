"""Errors of SQS: which of them are about the messages, and what the user reads. They never quote a
request: it holds payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue.boto import NOT_ACCEPTED, answer_of, code_of, lacks_credentials, unreached
from oncue.core.errors import InvalidInput, SinkDown

_OF_MESSAGES = (
    "BatchRequestTooLong",
    "InvalidMessageContents",
    "InvalidParameterValue",
    "InvalidAttributeValue",
    "MessageTooLong",
)
_MISSING = ("NonExistentQueue", "QueueDoesNotExist")
_PASSING = (
    *("Throttl", "OverLimit", "Kms", "KMS", "Access", "InvalidSecurity"),
    *("Unavailable", "Internal", "Timeout", *_MISSING, *NOT_ACCEPTED),
)
"""What a message is refused for although there is nothing wrong with it."""


class Unnamed(Exception):
    """An answer that names some messages neither as taken nor as failed."""


def is_of_messages(problem: Exception) -> bool:
    """Whether a call was refused for what is in it."""
    return _names(code_of(problem), _OF_MESSAGES)


def is_for_good(failure: Mapping[str, Any]) -> bool:
    """Whether a single message of a call can never be taken."""
    return bool(failure.get("SenderFault")) and not _names(code_of(failure), _PASSING)


def is_denied(problem: Exception) -> bool:
    """Whether the credentials are good and the right is missing."""
    return _names(code_of(problem), ("AccessDenied",))


def explain(queue: str, problem: Exception) -> SinkDown:
    """The trouble of the sink, with what to do about it."""
    code = code_of(problem)
    if isinstance(problem, InvalidInput):  # no client can be made: no region, say
        return SinkDown(problem.detail)
    if isinstance(problem, Unnamed):
        return SinkDown(
            f"SQS queue {queue}: the answer does not say what became of the messages, as SQS does. "
            "Check the endpoint in the URL of the sink, and what lies between."
        )
    if _names(code, _MISSING):
        return SinkDown(
            f"SQS queue {queue} does not exist, or not in this region and account. Create it, or "
            "give the queue another sink."
        )
    if lacks_credentials(problem):
        return SinkDown(
            f"SQS queue {queue}: boto3 found no usable credentials ({type(problem).__name__}). "
            "Give some in one of its ways: environment, profile or role. An emulator takes any: "
            "AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local"
        )
    if code in NOT_ACCEPTED:
        return SinkDown(
            f"SQS queue {queue}: the credentials were not accepted ({code}). They are wrong or "
            "expired, or the clock of this machine is wrong."
        )
    if _names(code, ("KmsAccessDenied", "KMS.AccessDenied")):
        return SinkDown(
            f"SQS queue {queue}: access to its key was refused ({code}). The credentials need "
            "kms:GenerateDataKey and kms:Decrypt with the key that encrypts the queue."
        )
    if is_denied(problem):
        return SinkDown(
            f"SQS queue {queue}: access was refused ({code}). The credentials need sqs:SendMessage "
            "and, for a sink by name, sqs:GetQueueUrl: see docs/sqs.md."
        )
    status = answer_of(problem).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return SinkDown(f"SQS queue {queue}: {code or status or unreached(problem, 'sink')}")


def _names(code: str, parts: tuple[str, ...]) -> bool:
    return any(part in code for part in parts)
