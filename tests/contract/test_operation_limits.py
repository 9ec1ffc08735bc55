"""How many operations a job may have, and how they are told in parts."""

from __future__ import annotations

import pytest

from oncue.core.cursor import Cursor
from oncue.core.errors import InvalidInput
from oncue.core.fencing import Refused
from oncue.core.job import Claimed, History, Operation
from oncue.core.lifecycle import State
from oncue.core.operations import PAGE_BYTES, OperationLimits

from .desk import BOTH_IDS, Desk, together

LIMITS = OperationLimits(3, 1000)
TOO_MANY = Refused("too many operations", State.EXECUTING)
TOO_LARGE = Refused("results too large", State.EXECUTING)
LARGE = b"x" * 200_000


def names(*histories: History) -> list[str]:
    return [one.name for history in histories for one in history.operations]


def all_pages(desk: Desk, job_id: str, after: Cursor | None, limit: int) -> list[Operation]:
    """The operations from a cursor on."""
    found: list[Operation] = []
    while True:
        history = desk.store.history(job_id, after, limit)
        found += history.operations
        after = history.operations_cursor
        if after is None:
            return found


def with_operations(desk: Desk, number: int, result: bytes = b"1") -> Claimed:
    claimed = desk.take()
    for n in range(number):
        desk.put_operation(claimed, f"o{n}", result=result, limits=OperationLimits(1000, 10**9))
    return claimed


@BOTH_IDS
def test_a_job_has_no_more_operations_than_it_may(desk: Desk) -> None:
    claimed = desk.take()
    for name in "abc":
        assert isinstance(desk.put_operation(claimed, name, "executing", limits=LIMITS), Operation)
    before = desk.job(claimed.id), desk.store.history(claimed.id)
    desk.clock.advance(1)
    for state in ("executing", "failed", "succeeded"):
        assert desk.put_operation(claimed, "d", state, limits=LIMITS) == TOO_MANY
    assert (desk.job(claimed.id), desk.store.history(claimed.id)) == before

    for _ in range(2):  # those that are there go on, and may be repeated
        assert isinstance(desk.put_operation(claimed, "a", result=b"1", limits=LIMITS), Operation)
    desk.retry(claimed)
    again = desk.retake(claimed.id)
    assert desk.put_operation(again, "d", limits=LIMITS) == TOO_MANY._replace(
        state=State.DISPATCHED
    )


@BOTH_IDS
@pytest.mark.parametrize("size", [400, 600], ids=["within the record", "apart"])
def test_the_results_of_a_job_have_no_more_bytes_than_they_may(desk: Desk, size: int) -> None:
    claimed = desk.take()
    half = b"x" * size
    limits = OperationLimits(10, 2 * size)
    for name in "ab":
        desk.put_operation(claimed, name, "executing", result=half, limits=limits)
    before = desk.job(claimed.id), desk.store.history(claimed.id)
    desk.clock.advance(1)
    assert desk.put_operation(claimed, "c", result=b"1", limits=limits) == TOO_LARGE
    assert desk.put_operation(claimed, "a", result=half + b"1", limits=limits) == TOO_LARGE
    assert (desk.job(claimed.id), desk.store.history(claimed.id)) == before

    # A result that is replaced counts once, and a smaller one makes room.
    for result in (half, b"x" * (size - 1)):
        answer = desk.put_operation(claimed, "a", "executing", result=result, limits=limits)
        assert isinstance(answer, Operation)
    assert isinstance(desk.put_operation(claimed, "c", result=b"1", limits=limits), Operation)
    assert desk.put_operation(claimed, "d", result=b"1", limits=limits) == TOO_LARGE
    desk.retry(claimed)
    again = desk.retake(claimed.id)
    assert isinstance(desk.put_operation(again, "d", "executing", limits=limits), Operation)
    assert desk.put_operation(again, "d", result=b"1", limits=limits) == TOO_LARGE


def test_a_job_that_is_older_than_the_limits_keeps_what_it_has(desk: Desk) -> None:
    claimed = with_operations(desk, 5, result=b"x" * 400)
    desk.put_operation(claimed, "last", "executing", result=b"123")
    assert desk.put_operation(claimed, "new", limits=LIMITS) == TOO_MANY
    assert isinstance(desk.put_operation(claimed, "last", result=b"12", limits=LIMITS), Operation)
    assert len(desk.store.history(claimed.id).operations) == 6


@pytest.mark.parametrize("limits", [OperationLimits(5, 1000), OperationLimits(1000, 5)])
def test_writers_at_the_same_moment_do_not_exceed_the_limits(
    desk: Desk, limits: OperationLimits
) -> None:
    claimed = with_operations(desk, 3)
    answers = together(
        6, lambda n: desk.put_operation(claimed, f"new-{n}", result=b"1", limits=limits)
    )
    assert sum(isinstance(one, Operation) for one in answers) == 2
    assert len(desk.store.history(claimed.id).operations) == 5


@BOTH_IDS
def test_operations_are_told_page_by_page_in_their_order(desk: Desk) -> None:
    claimed = with_operations(desk, 7)
    desk.put_operation(claimed, "o0", result=b"1")  # said again: it keeps its place
    desk.fail(claimed)
    whole = desk.store.history(claimed.id)
    assert whole.operations_cursor is None

    first = desk.store.history(claimed.id, None, 3)
    assert (names(first), first.diagnostics, first.attempts) == (
        ["o0", "o1", "o2"],
        whole.diagnostics,
        whole.attempts,
    )
    second = desk.store.history(claimed.id, first.operations_cursor, 3)
    third = desk.store.history(claimed.id, second.operations_cursor, 3)
    assert (first.operations + second.operations + third.operations) == whole.operations
    assert third.operations_cursor is None
    assert second == History(second.operations, operations_cursor=second.operations_cursor)
    assert desk.store.history(claimed.id, first.operations_cursor, 4).operations_cursor is None
    assert desk.store.history(claimed.id, "100", 3) == History()
    assert desk.store.history("nobody", first.operations_cursor, 3) == History()


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "9" * 30, "WzFd"])
def test_what_is_no_cursor_of_operations_is_refused(desk: Desk, cursor: str) -> None:
    claimed = with_operations(desk, 1)
    with pytest.raises(InvalidInput, match="not a cursor"):
        desk.store.history(claimed.id, cursor, 3)


def test_a_claim_and_a_history_have_as_many_operations_as_an_answer_has_room_for(
    desk: Desk,
) -> None:
    claimed = with_operations(desk, 7, LARGE)
    whole = [(f"o{n}", LARGE) for n in range(7)]
    desk.retry(claimed)
    again = desk.retake(claimed.id)
    history = desk.store.history(claimed.id)
    for told in (again, history):
        assert sum(len(one.result or b"") for one in told.operations) <= PAGE_BYTES
        assert told.operations_cursor is not None
        rest = all_pages(desk, claimed.id, told.operations_cursor, 500)
        assert [(one.name, one.result) for one in [*told.operations, *rest]] == whole


def test_all_claims_of_an_answer_share_its_room(desk: Desk) -> None:
    taken = [with_operations(desk, 3, LARGE) for _ in range(3)]
    for one in taken:
        desk.retry(one)
    claims = desk.claim()
    assert len(claims) == 3
    told = [one for claim in claims for one in claim.operations]
    assert 0 < sum(len(one.result or b"") for one in told) <= PAGE_BYTES
    for claim in claims:
        more = claim.operations_cursor
        rest = all_pages(desk, claim.id, more, 500) if more is not None else []
        assert [one.name for one in [*claim.operations, *rest]] == ["o0", "o1", "o2"]
