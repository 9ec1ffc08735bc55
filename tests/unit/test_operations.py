"""What is stored of a report on an operation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncue.core.job import Operation
from oncue.core.moment import to_datetime
from oncue.core.operations import put

NOW = 1_000
KNOWN = Operation("a", "executing", to_datetime(1), 40.0, "half", b"1")


def report(state: str, **fields: object) -> Operation:
    return Operation("a", state, to_datetime(0), **fields)  # type: ignore[arg-type]


def test_the_first_report_is_stored_as_it_is_with_the_time_of_the_store() -> None:
    stored = put(None, report("failed", percent=1.0, message="m", result=b"r"), NOW)
    assert stored == Operation("a", "failed", to_datetime(NOW), 1.0, "m", b"r")


@pytest.mark.parametrize("state", ["executing", "failed"])
def test_an_unfinished_operation_keeps_what_a_report_leaves_out(state: str) -> None:
    assert put(KNOWN, report(state), NOW) == replace(
        KNOWN, state=state, updated_at=to_datetime(NOW)
    )
    stored = put(KNOWN, report(state, percent=50.0, message="more", result=b"2"), NOW)
    assert stored == Operation("a", state, to_datetime(NOW), 50.0, "more", b"2")


@pytest.mark.parametrize("result", [None, b"null", b"2"])
def test_a_success_has_exactly_the_result_that_it_reports(result: bytes | None) -> None:
    stored = put(KNOWN, report("succeeded", result=result), NOW)
    assert stored == Operation("a", "succeeded", to_datetime(NOW), 40.0, "half", result)


def test_after_a_success_only_a_repetition_is_accepted_and_changes_nothing() -> None:
    known = replace(KNOWN, state="succeeded")
    assert put(known, report("succeeded", result=b"1", percent=99.0, message="x"), NOW) is known
    for other in (report("succeeded", result=b"2"), report("failed", result=b"1")):
        assert put(known, other, NOW) is None
