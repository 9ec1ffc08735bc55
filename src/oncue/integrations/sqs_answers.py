"""Answers in the form that boto3 gives those of SQS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oncue.integrations.sqs_message_checks import SqsRefusal


def merged(
    order: Sequence[str],
    captured: Mapping[str, dict[str, str] | SqsRefusal],
    sent: Mapping[str, Any],
) -> dict[str, Any]:
    """One answer for all entries of a batch, by their `Id`s, in the order of the caller."""
    taken = {one["Id"]: one for one in sent.get("Successful", ())}
    failed = {one["Id"]: one for one in sent.get("Failed", ())}
    for entry_id, answer in captured.items():
        if isinstance(answer, SqsRefusal):
            reason = {"SenderFault": True, "Code": answer.code, "Message": answer.text}
            failed[entry_id] = {"Id": entry_id, **reason}
        else:
            taken[entry_id] = {"Id": entry_id, **answer}
    parts = {"Successful": taken, "Failed": failed}
    listed = {name: [part[one] for one in order if one in part] for name, part in parts.items()}
    lists = {name: part for name, part in listed.items() if part}
    return {**lists, "ResponseMetadata": sent.get("ResponseMetadata") or metadata("")}


def metadata(request_id: str, status: int = 200) -> dict[str, Any]:
    return {
        "RequestId": request_id,
        "HTTPStatusCode": status,
        "HTTPHeaders": {},
        "RetryAttempts": 0,
    }
