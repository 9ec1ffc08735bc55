"""What a worker has to stop: told for all of its claims by one look that leaves no trace."""

from __future__ import annotations

import pytest

from oncue.core.job import Claimed
from oncue.core.lifecycle import State

from .desk import FLEETING, Desk
from .test_fencing import LOST


def interruptions(desk: Desk, *claims: Claimed) -> dict[int, str]:
    found = desk.store.interruptions([(one.id, one.epoch) for one in claims])
    return {position: refused.reason for position, refused in found.items()}


def test_a_claim_that_stands_is_not_interrupted(desk: Desk) -> None:
    claimed = desk.take()
    assert interruptions(desk, claimed) == {}
    desk.touch(claimed)
    assert interruptions(desk, claimed) == {}


def test_without_claims_there_is_nothing_to_tell(desk: Desk) -> None:
    assert interruptions(desk) == {}


def test_a_request_to_cancel_is_told(desk: Desk) -> None:
    claimed = desk.take()
    desk.request_cancel(claimed.id)
    [found] = desk.store.interruptions([(claimed.id, claimed.epoch)]).values()
    assert (found.reason, found.state) == ("cancel requested", State.DISPATCHED)


@pytest.mark.parametrize("end", LOST)
def test_how_a_claim_ended_is_told_and_leaves_no_trace(desk: Desk, end: str) -> None:
    ending, reason = LOST[end]
    claimed = desk.take()
    assert ending(desk, claimed) is None
    before, explained = desk.job(claimed.id), desk.diagnostics(claimed.id)
    for _ in range(2):
        assert interruptions(desk, claimed) == {0: reason}
    assert (desk.job(claimed.id), desk.diagnostics(claimed.id)) == (before, explained)


def test_a_claim_of_somebody_else_interrupts_the_one_before(desk: Desk) -> None:
    first = desk.take()
    desk.reclaim(desk.lapse())
    [second] = desk.claim()
    assert interruptions(desk, first, second) == {0: "reclaimed"}


def test_each_of_many_claims_is_answered_by_its_position(desk: Desk) -> None:
    desk.add_many(5)
    claims = desk.claim()
    desk.request_cancel(claims[1].id)
    desk.complete(claims[3])
    assert interruptions(desk, *claims) == {1: "cancel requested", 3: "completed"}


def test_a_job_that_is_gone_interrupts_its_claim(desk: Desk) -> None:
    claimed = desk.take(queue=FLEETING)
    desk.complete(claimed)
    assert interruptions(desk, claimed) == {0: "unknown"}
    assert [one.reason for one in desk.store.interruptions([("nobody", 1)]).values()] == ["unknown"]
