"""Operations: progress inside a job, results written once."""

from __future__ import annotations

import pytest

from oncue.core.fencing import Refused
from oncue.core.job import Operation
from oncue.core.lifecycle import State, Verb

from .desk import Desk, at


def test_an_operation_is_stored_and_starts_the_job(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(2)
    answer = desk.put_operation(claimed, "download", "executing", percent=25.0, message="a")
    stored = Operation("download", "executing", at(desk.now), 25.0, "a")
    assert answer == stored
    assert desk.store.history(claimed.id).operations == (stored,)
    job = desk.job(claimed.id)
    assert (job.state, job.updated_at) == (State.EXECUTING, at(desk.now))


def test_progress_replaces_progress_and_the_order_of_operations_stays(desk: Desk) -> None:
    claimed = desk.take()
    for name in ("b", "a", "c"):
        desk.put_operation(claimed, name, "executing")
    desk.put_operation(claimed, "a", "failed", message="boom", percent=50.0)
    desk.put_operation(claimed, "b", result=b"r", percent=100.0, message="done")
    found = [(one.name, one.state) for one in desk.store.history(claimed.id).operations]
    assert found == [("b", "succeeded"), ("a", "failed"), ("c", "executing")]


def test_the_last_message_and_percentage_stay_unless_new_ones_are_told(desk: Desk) -> None:
    claimed = desk.take()
    desk.put_operation(claimed, "a", "executing", percent=50.0, message="half")
    answer = desk.put_operation(claimed, "a", "failed")
    assert isinstance(answer, Operation)
    assert (answer.state, answer.percent, answer.message) == ("failed", 50.0, "half")


@pytest.mark.parametrize("state", ["executing", "failed"])
def test_the_result_of_an_unfinished_operation_is_kept_until_another_is_told(
    desk: Desk, state: str
) -> None:
    claimed = desk.take()
    results = []
    for result in (b"1", None, b"2", None):
        answer = desk.put_operation(claimed, "a", state, result=result)
        assert isinstance(answer, Operation)
        assert desk.store.history(claimed.id).operations == (answer,)
        results.append(answer.result)
    assert results == [b"1", b"1", b"2", b"2"]
    desk.retry(claimed)
    again = desk.retake(claimed.id)
    assert [one.result for one in again.operations] == [b"2"]
    done = desk.put_operation(again, "a", result=None)
    assert isinstance(done, Operation)
    assert done.result is None


def test_a_failed_operation_can_be_run_again(desk: Desk) -> None:
    claimed = desk.take()
    desk.put_operation(claimed, "a", "failed", result=b"half")
    answer = desk.put_operation(claimed, "a", result=b"whole")
    assert isinstance(answer, Operation)
    assert (answer.state, answer.result) == ("succeeded", b"whole")


@pytest.mark.parametrize("result", [b"r", None])
def test_the_same_result_again_is_answered_with_the_stored_operation(
    desk: Desk, result: bytes | None
) -> None:
    claimed = desk.take()
    stored = desk.put_operation(claimed, "a", result=result, message="first")
    desk.clock.advance(1)
    assert desk.put_operation(claimed, "a", result=result, message="second") == stored
    assert desk.store.history(claimed.id).operations == (stored,)


@pytest.mark.parametrize(("first", "second"), [(b"r", b"s"), (b"r", None), (None, b"s")])
def test_a_different_result_is_refused_and_changes_nothing(
    desk: Desk, first: bytes | None, second: bytes | None
) -> None:
    claimed = desk.take()
    stored = desk.put_operation(claimed, "a", result=first)
    before = desk.job(claimed.id)
    desk.clock.advance(1)
    refused = desk.put_operation(claimed, "a", result=second)
    assert refused == Refused("different result", State.EXECUTING)
    assert desk.store.history(claimed.id).operations == (stored,)
    assert desk.job(claimed.id) == before
    assert desk.codes(claimed.id) == []


def test_progress_cannot_undo_a_result(desk: Desk) -> None:
    claimed = desk.take()
    stored = desk.put_operation(claimed, "a", result=b"r")
    for state in ("executing", "failed"):
        refused = desk.put_operation(claimed, "a", state, percent=10.0)
        assert refused == Refused("different result", State.EXECUTING)
    assert desk.store.history(claimed.id).operations == (stored,)


@pytest.mark.parametrize("end", ["retry", "release", "reclaim"])
def test_the_next_claim_brings_the_operations_along(desk: Desk, end: str) -> None:
    claimed = desk.take()
    desk.put_operation(claimed, "done", result=b"r")
    desk.put_operation(claimed, "half", "executing", percent=50.0, message="m", result=b"7")
    operations = desk.store.history(claimed.id).operations
    if end == "reclaim":
        desk.reclaim(desk.lapse())
    else:
        desk.settle(claimed, Verb(end), due_at=desk.now)
    again = desk.retake(claimed.id)
    assert again.operations == operations
    refused = desk.put_operation(again, "done", result=b"other")
    assert isinstance(refused, Refused)
    assert refused.reason == "different result"


def test_operations_belong_to_their_own_job(desk: Desk) -> None:
    first, second = desk.take(), desk.take()
    desk.put_operation(first, "a", result=b"1")
    desk.put_operation(second, "a", result=b"2")
    desk.retry(first)
    desk.retry(second)
    found = {one.id: [op.result for op in one.operations] for one in desk.claim()}
    assert found == {first.id: [b"1"], second.id: [b"2"]}
