"""Every verb in every state, by the one table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncue.core.job import Claimed
from oncue.core.lease import Touched
from oncue.core.lifecycle import TRANSITIONS, State, Verb
from tests.contract.changing import Amendment

from .desk import Desk, lapse_of, verdict

LIFE_SECONDS = 30.0


def bring_to(desk: Desk, state: State) -> Claimed:
    """A job in that state that a worker has claimed before, so that its writes are of substance.
    What ended the claim is never what the tests below write."""
    claimed = desk.take("job", expires_at=desk.now + round(LIFE_SECONDS * 1000))
    match state:
        case State.SCHEDULED:
            desk.retry(claimed, "how it came here")
        case State.EXECUTING:
            desk.touch(claimed)
        case State.SUCCEEDED:
            desk.complete(claimed, b"how it came here")
        case State.FAILED:
            desk.fail(claimed, "how it came here")
        case State.CANCELLED:
            desk.retry(claimed, "how it came here")
            desk.cancel("job")
        case State.DISPATCHED:
            pass
    assert desk.state("job") is state
    return claimed


def amend(desk: Desk, _: Claimed) -> bool:
    return desk.amend("job", Amendment(priority=5)).refused is None


def claim(desk: Desk, _: Claimed) -> bool:
    return desk.claimed_ids() == ["job"]


def start(desk: Desk, claimed: Claimed) -> bool:
    return isinstance(desk.touch(claimed), Touched)


def settle(verb: Verb) -> Callable[[Desk, Claimed], bool]:
    def attempt(desk: Desk, claimed: Claimed) -> bool:
        result = b"done" if verb is Verb.COMPLETE else None
        return desk.settle(claimed, verb, result=result, error="x", due_at=desk.now) is None

    return attempt


def reclaim(verb: Verb) -> Callable[[Desk, Claimed], bool]:
    def attempt(desk: Desk, _: Claimed) -> bool:
        lapse = lapse_of(desk.job("job"))
        answer = desk.store.reclaim([(lapse, verdict(verb, desk.now))], desk.now)
        return answer == {}

    return attempt


def cancel(desk: Desk, _: Claimed) -> bool:
    return desk.cancel("job").refused is None


def expire(desk: Desk, _: Claimed) -> bool:
    desk.clock.advance(LIFE_SECONDS)
    return desk.store.expire(desk.now, 10) == 1


def revive(desk: Desk, _: Claimed) -> bool:
    return desk.revive("job").refused is None


WAYS: list[tuple[Verb, Callable[[Desk, Claimed], bool]]] = [
    (Verb.AMEND, amend),
    (Verb.CLAIM, claim),
    (Verb.START, start),
    (Verb.HAND_OVER, settle(Verb.HAND_OVER)),
    (Verb.COMPLETE, settle(Verb.COMPLETE)),
    (Verb.FAIL, settle(Verb.FAIL)),
    (Verb.RETRY, settle(Verb.RETRY)),
    (Verb.RELEASE, settle(Verb.RELEASE)),
    (Verb.DROP, settle(Verb.DROP)),
    (Verb.RECLAIM, reclaim(Verb.RECLAIM)),
    (Verb.GIVE_UP, reclaim(Verb.GIVE_UP)),
    (Verb.DROP, reclaim(Verb.DROP)),
    (Verb.CANCEL, cancel),
    (Verb.EXPIRE, expire),
    (Verb.REVIVE, revive),
]


def test_every_verb_is_tried() -> None:
    assert {verb for verb, _ in WAYS} == set(Verb)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(("verb", "attempt"), WAYS, ids=lambda way: getattr(way, "__name__", way))
def test_a_verb_moves_a_job_as_the_table_says_or_not_at_all(
    desk: Desk, state: State, verb: Verb, attempt: Callable[[Desk, Claimed], bool]
) -> None:
    claimed = bring_to(desk, state)
    before = desk.job("job")
    expected = TRANSITIONS.get((state, verb))
    assert attempt(desk, claimed) is (expected is not None)
    if expected is None:
        assert desk.job("job") == before
    else:
        assert desk.state("job") is expected


@pytest.mark.parametrize("state", State)
def test_a_finished_job_has_a_moment_of_its_end_and_no_other_has(desk: Desk, state: State) -> None:
    bring_to(desk, state)
    finished = state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    assert (desk.job("job").finished_at is not None) is finished
    assert (desk.job("job").lease_until is not None) is (
        state in (State.DISPATCHED, State.EXECUTING)
    )
