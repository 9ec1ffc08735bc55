"""Operations, the named steps inside a job: what is stored of a report on one. Pure decisions."""

from __future__ import annotations

from dataclasses import replace

from oncue.core.job import Operation
from oncue.core.moment import Moment, to_datetime


def put(known: Operation | None, report: Operation, now: Moment) -> Operation | None:
    """The operation after this report; `known` itself if the report only repeats it. None: it is
    refused, because the operation has succeeded with another result.

    A percentage and a message stay until others are reported. So does the result of an operation
    that has not succeeded: the next attempt is given it. A success has exactly the result that it
    reports, which is final."""
    if known is None:
        return replace(report, updated_at=to_datetime(now))
    if known.is_final:
        repeated = (known.state, known.result) == (report.state, report.result)
        return known if repeated else None
    keeps_result = report.result is None and not report.is_final
    return replace(
        report,
        updated_at=to_datetime(now),
        percent=known.percent if report.percent is None else report.percent,
        message=known.message if report.message is None else report.message,
        result=known.result if keeps_result else report.result,
    )
