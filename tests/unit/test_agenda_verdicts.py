"""What becomes of a progress record of another system: decided without any I/O."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from oncue.core.agenda import (
    AgendaRecord,
    Threshold,
    anomaly,
    is_exempt,
    judge,
    moment_of,
    state_of,
)
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.reclaim import ForeignTable, foreign_table, parameters

NOW = 1_800_000_000_000
HOUR = 3_600_000


def record(state: State | None = State.EXECUTING, age: int = HOUR, **fields: Any) -> AgendaRecord:
    return AgendaRecord("a", state, NOW - age, **fields)


def verdict(one: AgendaRecord, mode: str) -> tuple[Any, ...] | None:
    found = judge(one, Threshold(NOW - HOUR // 2, HOUR // 2, mode), NOW)
    return None if found is None else (found.decision, found.code, found.attempts_completed)


@pytest.mark.parametrize(
    ("state", "message", "meant"),
    [
        ("EXECUTING", None, State.EXECUTING),
        ("Executing", "frame 2", State.EXECUTING),
        ("dequeued", None, State.DISPATCHED),
        (" DEQUEUED ", None, State.DISPATCHED),
        ("COMPLETE", "failed", State.FAILED),
        ("Complete", "Failed", State.FAILED),
        ("FAILED", None, State.FAILED),
        ("COMPLETE", "succeeded", None),
        ("COMPLETE", None, None),
        ("WAITING", None, None),
        (None, None, None),
        (5, None, None),
    ],
)
def test_a_state_is_recognised_in_any_case(
    state: object, message: object, meant: State | None
) -> None:
    assert state_of(state, message) is meant


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (1_700_000_000_000, 1_700_000_000_000),
        (Decimal("1700000000000.25"), 1_700_000_000_001),
        (1.7e12, 1_700_000_000_000),
        ("2026-12-01T09:30:00Z", 1_796_117_400_000),
        ("2026-12-01T10:30:00.0005+01:00", 1_796_117_400_001),
        ("2026-12-01T09:30:00", 1_796_117_400_000),
        ("20261201T093000+0000", 1_796_117_400_000),
        ("1700000000000", None),
        ("", None),
        ("soon", None),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("NaN"), None),
        (10**20, None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_a_time_is_a_number_of_milliseconds_or_iso_text(value: object, moment: int | None) -> None:
    assert moment_of(value) == moment


def test_in_the_mode_fail_attempts_stay_as_they_are() -> None:
    assert verdict(record(), "fail") == ("fail", "timeout_executing", None)
    claimed = record(State.DISPATCHED, attempts_completed=1)
    assert verdict(claimed, "fail") == ("fail", "timeout_dispatched", None)


@pytest.mark.parametrize(
    ("completed", "most", "wanted"),
    [(None, None, ("retry", 1)), (1, 3, ("retry", 2)), (2, 3, ("fail", 3)), (2, None, ("fail", 3))],
)
def test_in_the_mode_retry_the_lost_attempt_is_counted(
    completed: int | None, most: int | None, wanted: tuple[str, int]
) -> None:
    one = record(attempts_completed=completed, maximum_attempts=most)
    assert verdict(one, "retry") == (wanted[0], "timeout_executing", wanted[1])


@pytest.mark.parametrize(
    ("completed", "retryable", "is_retried"),
    [(2, True, True), (3, True, False), (0, False, False), (0, None, False)],
)
def test_a_failed_record_is_retried_if_attempts_are_left_and_it_is_said_to_be_retryable(
    completed: int, retryable: bool | None, is_retried: bool
) -> None:
    one = record(State.FAILED, attempts_completed=completed, retryable=retryable)
    wanted = ("retry", "failure", completed + 1) if is_retried else None
    assert verdict(one, "retry") == wanted
    assert is_exempt(one) is (completed == 3 or retryable is False)


def test_a_run_that_fails_records_is_not_concerned_with_failed_ones() -> None:
    states = [None, *State]
    for mode, failed in (("fail", False), ("retry", True)):
        concerned = {state for state in states if Threshold(0, 0, mode).concerns(state)}
        wanted = {State.DISPATCHED, State.EXECUTING} | ({State.FAILED} if failed else set())
        assert concerned == wanted


def test_a_time_ahead_and_none_at_all_are_anomalies() -> None:
    assert anomaly(record(), NOW) is None
    assert anomaly(record(age=0), NOW) is None
    assert anomaly(record(age=-5_000), NOW) == "was last updated 5 s in the future"
    assert anomaly(AgendaRecord("a", State.EXECUTING, None), NOW) is not None


def test_the_names_of_a_table() -> None:
    given = {"table_name": "t-1", "id_field_name": "id", "time_field_name": "at"}
    assert foreign_table(parameters(given)) == ForeignTable("t-1", "id", "at", "ProcessingState")
    arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/agenda"
    more = {"table_name": arn, "state_field_name": "state", "claim_time_field_name": "taken"}
    found = foreign_table(parameters({**given, **more}))
    assert found == ForeignTable(arn, "id", "at", "state", "taken")
    assert not parameters({"agenda_progress_endpoint_url": "https://example.com"}).is_foreign
    with pytest.raises(InvalidInput, match="^/table_name: is required"):
        foreign_table(parameters({"id_field_name": "id"}))
