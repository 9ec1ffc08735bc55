"""Jobs that come to wait behind the back of a dispatcher with an open range."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncue.core.lifecycle import State
from tests.contract.changing import Amendment

from .desk import LEASE, Desk, ids


def add(desk: Desk, job_id: str | None = None, **fields: object) -> str:
    return desk.add(job_id, queue="d", **fields)


def arrive_with_a_smaller_id(desk: Desk) -> str:
    return add(desk, "a-newcomer")


def arrive_due_earlier(desk: Desk) -> str:
    return add(desk, due_in=-30)


def arrive_with_a_higher_priority(desk: Desk) -> str:
    return add(desk, priority=9)


def run_an_old_job_now(desk: Desk) -> str:
    desk.amend("m-waiting", Amendment(due_at=desk.now))
    return "m-waiting"


def prefer_a_waiting_job(desk: Desk) -> str:
    desk.amend("z-due", Amendment(priority=9))
    return "z-due"


def revive_an_old_job(desk: Desk) -> str:
    desk.revive("b-cancelled")
    return "b-cancelled"


def replace_by_key(desk: Desk) -> str:
    new = desk.new(queue="d", key="k", replace=True, payload=b"new", due_in=-5)
    desk.store.insert([new], desk.now)
    return "n-keyed"


ARRIVALS = [
    arrive_with_a_smaller_id,
    arrive_due_earlier,
    arrive_with_a_higher_priority,
    run_an_old_job_now,
    prefer_a_waiting_job,
    revive_an_old_job,
    replace_by_key,
]


@pytest.mark.one_shard
@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("arrive", ARRIVALS)
def test_a_job_that_arrives_behind_an_open_range_is_neither_lost_nor_settled_unseen(
    desk: Desk, arrive: Callable[[Desk], str], seconds: float
) -> None:
    add(desk, "b-cancelled")
    desk.cancel("b-cancelled")
    for job_id in ("k1", "k2", "k3"):
        add(desk, job_id)
    add(desk, "m-waiting", due_in=600)
    add(desk, "n-keyed", due_in=600, key="k")
    add(desk, "z-due")
    claim = desk.claim_range(limit=3)
    assert ids(claim.jobs) == ["k1", "k2", "k3"]
    desk.clock.advance(seconds)
    newcomer = arrive(desk)
    assert desk.settle_range(claim, ["k1", "k2"])
    assert desk.state(newcomer) is State.SCHEDULED
    assert desk.attempts(newcomer) == ()
    rest = ids(desk.claim_range().jobs)
    assert sorted(rest) == sorted({newcomer, "k3", "z-due"})


@pytest.mark.one_shard
@pytest.mark.parametrize("arrive", ARRIVALS)
def test_a_job_that_arrives_behind_a_range_that_is_taken_over_is_not_lost(
    desk: Desk, arrive: Callable[[Desk], str]
) -> None:
    add(desk, "b-cancelled")
    desk.cancel("b-cancelled")
    add(desk, "k1")
    add(desk, "m-waiting", due_in=600)
    add(desk, "n-keyed", due_in=600, key="k")
    add(desk, "z-due")
    old = desk.claim_range(limit=1)
    newcomer = arrive(desk)
    desk.clock.advance(LEASE)
    new = desk.claim_range(dispatcher="dave")
    assert set(ids(new.jobs)) == {"k1", "z-due", newcomer}
    assert not desk.settle_range(old)
    assert desk.settle_range(new)
    assert desk.outcomes(newcomer) == [(1, "succeeded")]


@pytest.mark.one_shard
def test_what_falls_due_before_the_end_of_a_range_that_goes_on_counts_as_dispatched(
    desk: Desk,
) -> None:
    """The first of them is taken. The other is left, and lies inside the range as well."""
    last = add(desk)
    first = desk.claim_range()
    taken, left = add(desk, priority=9, due_in=1), add(desk, priority=3, due_in=1)
    desk.clock.advance(1)
    second = desk.claim_range(limit=1, in_flight=[first])
    assert ids(second.jobs) == [taken]
    assert {desk.state(job_id) for job_id in (last, taken, left)} == {State.DISPATCHED}
    assert ids(desk.claim_range(in_flight=[first, second]).jobs) == [left]
