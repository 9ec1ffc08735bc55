"""What is stored of a report on an operation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.job import Operation
from oncue.core.moment import to_datetime
from oncue.core.operations import DEFAULT_LIMITS, Had, OperationLimits, OperationPages
from oncue.core.operations import put as put_within

NOW = 1_000
KNOWN = Operation("a", "executing", to_datetime(1), 40.0, "half", b"1")


def put(known: Operation | None, reported: Operation, now: int) -> Operation | str:
    return put_within(known, reported, now, Had(1, 1), DEFAULT_LIMITS)


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
        assert put(known, other, NOW) == "different result"


def test_what_adds_to_a_job_beyond_its_limits_is_refused() -> None:
    few, small = OperationLimits(2, 1000), OperationLimits(1000, 10)
    assert put_within(None, report("failed"), NOW, Had(2, 0), few) == "too many operations"
    assert put_within(None, report("failed", result=b"12"), NOW, Had(0, 9), small) == (
        "results too large"
    )
    assert isinstance(put_within(None, report("failed"), NOW, Had(1, 1000), few), Operation)
    assert isinstance(put_within(KNOWN, report("failed"), NOW, Had(2, 0), few), Operation)


@pytest.mark.parametrize("had", [Had(3, 11), Had(3, 10)])
def test_a_job_at_its_limits_or_beyond_keeps_what_it_has(had: Had) -> None:
    limits = OperationLimits(2, 10)
    for result in (None, b"2", b""):
        assert isinstance(
            put_within(KNOWN, report("succeeded", result=result), NOW, had, limits), Operation
        )
    grown = report("succeeded", result=b"22")
    assert put_within(KNOWN, grown, NOW, had, limits) == "results too large"
    final = replace(KNOWN, state="succeeded")
    assert put_within(final, replace(final), NOW, had, limits) is final


@pytest.mark.parametrize(
    ("reason", "kind", "pointer"),
    [
        ("too many operations", InvalidInput, "/name"),
        ("results too large", TooLarge, "/result"),
    ],
)
def test_a_refused_worker_is_told_the_limit_and_what_to_do(
    reason: str, kind: type[InvalidInput], pointer: str
) -> None:
    problem = OperationLimits(1234, 1234).problem("a", reason)
    assert type(problem) is kind
    assert problem.pointer == pointer
    assert "1,234" in problem.detail
    assert OperationLimits().problem("a", "reclaimed") is None


def test_all_lists_of_an_answer_share_its_room() -> None:
    large = [replace(KNOWN, name=f"o{n}", result=b"x" * 300_000) for n in range(5)]
    pages = OperationPages()
    first, second, third = pages.page(large), pages.page(large[:1]), pages.page(large[:1], 7)
    assert (first.items, first.next) == (large[:3], "3")
    assert (second.items, second.next) == ([], "0")
    assert (third.items, third.next) == ([], "7")
    assert pages.page([KNOWN]).items == [KNOWN]
    assert OperationPages().page(large[:2], 5, limit=1) == (large[:1], "6")
    assert OperationPages().page(large[:2], 5, limit=2) == (large[:2], None)
