"""What an emulator of DynamoDB does not understand, said in its own words."""

from __future__ import annotations

import re
from typing import Any

# Of DynamoDB's UPDATE … SET a=? SET b=? REMOVE c REMOVE d, dynoxide 1.2 knows only one SET and one
# REMOVE, each with a list.
_REPEATED = re.compile(r'(?<=[?"]) (SET|REMOVE) (?=")')


def speak_dynoxide(client: Any) -> Any:
    """Let a client of boto3 say what dynoxide understands. The client."""
    event = "provide-client-params.dynamodb.BatchExecuteStatement"
    client.meta.events.register(event, _with_lists)
    return client


def _with_lists(params: dict[str, Any], **_: Any) -> dict[str, Any]:
    statements = [{**one, "Statement": listed(one["Statement"])} for one in params["Statements"]]
    return {**params, "Statements": statements}


def listed(statement: str) -> str:
    """The statement with one SET and one REMOVE."""
    seen: set[str] = set()

    def join(found: re.Match[str]) -> str:
        first = found[1] not in seen
        seen.add(found[1])
        return found[0] if first else ", "

    return _REPEATED.sub(join, statement) if statement.startswith("UPDATE") else statement
