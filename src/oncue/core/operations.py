"""Operations, the named steps inside a job: what is stored of a report on one, how many a job may
have, and how they are listed. Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from oncue.core.cursor import MOST_ITEMS, Cursor, Page, number_at
from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.job import Claimed, History, Operation
from oncue.core.moment import Moment, to_datetime

PAGE_BYTES = 1024 * 1024  # of operations in one answer
_FRAME = 100  # bytes of an operation beside its name, message and result
_NOTHING = History()
TOO_MANY, TOO_LARGE = "too many operations", "results too large"


class OperationLimits(NamedTuple):
    """What a job may have of operations."""

    operations: int = 1000
    result_bytes: int = 1024 * 1024
    """Of their results together."""

    def problem(self, job_id: str, reason: str) -> InvalidInput | None:
        """The error that tells a worker why its report was refused; None: for another reason."""
        if reason == TOO_MANY:
            return InvalidInput(
                f"job {job_id} has {self.operations:,} operations, and may have no more; do "
                "several steps in one operation, or use several jobs.",
                "/name",
            )
        if reason == TOO_LARGE:
            return TooLarge(
                f"the operations of job {job_id} may have {self.result_bytes:,} bytes of results "
                "together; store large results elsewhere, and report where.",
                "/result",
            )
        return None


DEFAULT_LIMITS = OperationLimits()


class Had(NamedTuple):
    """What a job has of operations."""

    operations: int
    result_bytes: int


def put(
    known: Operation | None, report: Operation, now: Moment, had: Had, limits: OperationLimits
) -> Operation | str:
    """The operation after this report; `known` itself if the report only repeats it. A text: it is
    refused for this reason. `different result`: the operation has succeeded with another one.

    A percentage and a message stay until others are reported. So does the result of an operation
    that has not succeeded: the next attempt is given it. A success has exactly the result that it
    reports, which is final.

    A job that is beyond the limits already, because it is older than they are, keeps what it has:
    only what adds to it is refused."""
    if known is not None and known.is_final:
        repeated = (known.state, known.result) == (report.state, report.result)
        return known if repeated else "different result"
    stored = _after(known, report, now)
    if known is None and had.operations >= limits.operations:
        return TOO_MANY
    more = added(known, stored)
    if more > 0 and had.result_bytes + more > limits.result_bytes:
        return TOO_LARGE
    return stored


def _after(known: Operation | None, report: Operation, now: Moment) -> Operation:
    if known is None:
        return replace(report, updated_at=to_datetime(now))
    keeps_result = report.result is None and not report.is_final
    return replace(
        report,
        updated_at=to_datetime(now),
        percent=known.percent if report.percent is None else report.percent,
        message=known.message if report.message is None else report.message,
        result=known.result if keeps_result else report.result,
    )


def added(known: Operation | None, stored: Operation) -> int:
    """By how many bytes the results of a job grow."""
    return result_bytes([stored]) - result_bytes([known] if known else [])


def result_bytes(operations: Iterable[Operation]) -> int:
    return sum(len(one.result or b"") for one in operations)


class OperationPages:
    """The lists of operations in one answer, which have `PAGE_BYTES` together at most."""

    def __init__(self) -> None:
        self._room = PAGE_BYTES

    def page(
        self, found: Iterable[Operation], start: int = 0, limit: int = MOST_ITEMS
    ) -> Page[Operation]:
        """As many of the operations as there is room for, `limit` at most. `found` are those from
        the position `start` on, at least one more than `limit` if there are so many."""
        items: list[Operation] = []
        for one in found:
            size = _FRAME + len(one.name) + len(one.message or "") + len(one.result or b"")
            if len(items) == limit or size > self._room:
                return Page(items, str(start + len(items)))
            self._room -= size
            items.append(one)
        return Page(items)


def start_of(after: Cursor | None) -> int:
    """The position from which a cursor goes on."""
    return 0 if after is None else number_at(after)


def part_of(whole: History, after: Cursor | None, limit: int) -> History:
    """As much of a history as a store answers with (`ports/jobs.py: history`)."""
    start = start_of(after)
    page = OperationPages().page(whole.operations[start:], start, limit)
    return history_with(page, _NOTHING if after else whole)


def history_with(page: Page[Operation], rest: History = _NOTHING) -> History:
    return replace(rest, operations=tuple(page.items), operations_cursor=page.next)


def paged(claims: Sequence[Claimed]) -> list[Claimed]:
    """Claims of one answer that have all their operations, with as many as there is room for."""
    pages = OperationPages()
    return [_paged(one, pages) if one.operations else one for one in claims]


def _paged(claim: Claimed, pages: OperationPages) -> Claimed:
    page = pages.page(claim.operations)
    return claim._replace(operations=tuple(page.items), operations_cursor=page.next)
