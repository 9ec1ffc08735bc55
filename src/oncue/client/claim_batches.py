"""Reports on many jobs in one request, and the answer to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from oncue.client.asking import encode, read
from oncue.client.connection import Connection, Request
from oncue.wire.claims import BeatenItems, SettledItems

ITEMS_LIMIT = 1000
ITEMS_BYTES = 1024 * 1024
_FRAME = 300  # bytes of a report beside its result and error
A = TypeVar("A", SettledItems, BeatenItems)


class Report(NamedTuple):
    """How a claim ended: `outcome` is complete, fail or release."""

    id: str
    token: str
    outcome: str
    result: bytes | None = None
    error: str | None = None
    retryable: bool | None = None

    @property
    def size(self) -> int:
        return _FRAME + len(self.result or b"") + len(msgspec.json.encode(self.error))

    def fields(self) -> dict[str, Any]:
        body = self._asdict()
        body["result"] = None if self.result is None else msgspec.Raw(self.result)
        return {name: value for name, value in body.items() if value is not None}


def reports_request(path: str, items: Sequence[dict[str, Any]]) -> Request:
    """Many reports at once. Repeating it is harmless."""
    return Request("POST", path, encode({"items": items}))


def answers_to(connection: Connection, body: bytes, shape: type[A], count: int) -> A:
    """The answers to so many reports, in their order."""
    answer = read(connection, body, shape)
    if len(answer.items) != count:
        raise connection.not_ours("answered for more or fewer jobs than it was told of")
    return answer


def parts(reports: Sequence[Report]) -> Iterator[list[Report]]:
    """As many as fit in one request at a time."""
    part: list[Report] = []
    size = 0
    for report in reports:
        if part and (len(part) == ITEMS_LIMIT or size + report.size > ITEMS_BYTES):
            yield part
            part, size = [], 0
        part.append(report)
        size += report.size
    if part:
        yield part
