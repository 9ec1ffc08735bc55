"""A claim that is over can change nothing, whoever holds the job now."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from oncue.core.fencing import Refused
from oncue.core.job import Claimed
from oncue.core.lifecycle import State, Verb

from .desk import BOTH_IDS, DELIVERY, Desk, at, ids

pytestmark = BOTH_IDS

Write = Callable[[Desk, Claimed], object]


def hand_over(desk: Desk, claimed: Claimed) -> object:
    return desk.hand_over(claimed)


WRITES: dict[str, Write] = {
    "touch": lambda desk, claimed: desk.touch(claimed, message="zombie", lease_seconds=999),
    "operation": lambda desk, claimed: desk.put_operation(claimed, "step", result=b"zombie"),
    "complete": lambda desk, claimed: desk.complete(claimed, b"zombie"),
    "fail": lambda desk, claimed: desk.fail(claimed, "zombie"),
    "retry": lambda desk, claimed: desk.retry(claimed, "zombie"),
    "release": lambda desk, claimed: desk.release(claimed),
    "drop": lambda desk, claimed: desk.drop(claimed),
}
LOST: dict[str, tuple[Write, str]] = {
    "reclaimed": (lambda desk, _: desk.reclaim(desk.lapse()), "reclaimed"),
    "given up": (lambda desk, _: desk.reclaim(desk.lapse(), Verb.GIVE_UP), "reclaimed"),
    "dropped by the reclaimer": (
        lambda desk, _: desk.reclaim(desk.lapse(), Verb.DROP),
        "reclaimed",
    ),
    "completed": (lambda desk, claimed: desk.complete(claimed, b"won"), "completed"),
    "failed": (lambda desk, claimed: desk.fail(claimed, "lost"), "failed"),
    "retried": (lambda desk, claimed: desk.retry(claimed, "lost"), "failed"),
    "released": (lambda desk, claimed: desk.release(claimed), "released"),
    "dropped": (lambda desk, claimed: desk.drop(claimed), "cancelled"),
}
# A drop without an error is what becomes of a release once a cancel was requested.
REPETITIONS = {(end, write) for end in ("released", "dropped") for write in ("release", "drop")}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("end", LOST)
def test_a_write_after_the_end_of_the_claim_is_refused_and_recorded_once(
    desk: Desk, end: str, write: str
) -> None:
    if (end, write) in REPETITIONS:
        return
    ending, reason = LOST[end]
    claimed = desk.take()
    assert ending(desk, claimed) is None
    explained = desk.diagnostics(claimed.id)
    before, attempts = desk.job(claimed.id), desk.attempts(claimed.id)
    for _ in range(3):
        desk.clock.advance(1)
        refused = WRITES[write](desk, claimed)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.state) == (reason, before.state)
        *earlier, fenced = desk.diagnostics(claimed.id)
        assert tuple(earlier) == explained
        assert fenced.code == "fenced"
        assert (fenced.attempt, fenced.epoch) == (1, 1)
        assert refused.diagnostic == (explained[0] if explained else fenced)
    assert (desk.job(claimed.id), desk.attempts(claimed.id)) == (before, attempts)
    assert desk.store.history(claimed.id).operations == ()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("end", ["reclaimed", "retried", "released"])
def test_a_zombie_cannot_disturb_the_next_attempt(desk: Desk, end: str, write: str) -> None:
    if (end, write) in REPETITIONS:
        return
    ending, reason = LOST[end]
    zombie = desk.take()
    ending(desk, zombie)
    current = desk.retake(zombie.id, worker="bob")
    desk.touch(current, message="at work")
    before, attempts = desk.job(current.id), desk.attempts(current.id)
    desk.clock.advance(1)
    refused = WRITES[write](desk, zombie)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.state) == (reason, State.EXECUTING)
    assert (desk.job(current.id), desk.attempts(current.id)) == (before, attempts)
    fenced = desk.diagnostics(current.id)[-1]
    assert (fenced.code, fenced.attempt, fenced.epoch) == ("fenced", zombie.attempt, zombie.epoch)
    assert desk.complete(current, b"mine") is None
    assert desk.job(current.id).result_json == b"mine"


def test_what_a_dispatcher_writes_too_late_is_refused_without_a_trace(desk: Desk) -> None:
    claimed = desk.take()
    desk.reclaim(desk.lapse())
    for refused in (hand_over(desk, claimed), desk.touch(claimed, lease_seconds=9, start=False)):
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.state) == ("reclaimed", State.SCHEDULED)
    assert desk.codes(claimed.id) == ["timeout_dispatched"]


def test_every_kind_of_write_is_recorded_and_each_of_them_once(desk: Desk) -> None:
    claimed = desk.take()
    desk.reclaim(desk.lapse())
    kinds = ["touch", "operation", "complete", "fail", "release"]
    for _ in range(2):
        for kind in [*kinds, "drop"]:  # which is a release of the worker, too
            WRITES[kind](desk, claimed)
    assert desk.codes(claimed.id) == ["timeout_dispatched"] + ["fenced"] * len(kinds)


def test_every_epoch_is_recorded_by_itself(desk: Desk) -> None:
    job_id = desk.add()
    zombies = []
    for _ in range(3):
        zombies.append(desk.retake(job_id))
        desk.reclaim(desk.lapse())
    assert [zombie.epoch for zombie in zombies] == [1, 3, 5]
    for zombie in zombies * 2:
        desk.complete(zombie)
    fenced = [one for one in desk.diagnostics(job_id) if one.code == "fenced"]
    assert [(one.attempt, one.epoch) for one in fenced] == [(1, 1), (2, 3), (3, 5)]


def test_a_refusal_explains_itself_by_the_diagnostic_of_its_own_claim(desk: Desk) -> None:
    first = desk.take()
    desk.retry(first, "boom", detail="The first failure.")
    second = desk.retake(first.id)
    desk.reclaim(desk.lapse())
    refused = desk.complete(first)
    assert refused is not None
    assert refused.diagnostic is not None
    assert refused.diagnostic.detail == "The first failure."
    refused = desk.complete(second)
    assert refused is not None
    assert refused.diagnostic is not None
    assert refused.diagnostic.code == "timeout_dispatched"


def test_a_refusal_is_not_explained_by_what_befell_the_job_later(desk: Desk) -> None:
    claimed = desk.take(expires_at=desk.now + 1_000)
    desk.release(claimed)
    desk.clock.advance(1)
    assert desk.store.expire(desk.now, 10) == 1
    refused = desk.complete(claimed)
    assert refused is not None
    assert refused.diagnostic is not None
    assert (refused.reason, refused.diagnostic.code) == ("released", "fenced")


@pytest.mark.parametrize("write", WRITES)
def test_an_epoch_that_was_never_given_out_is_unknown_and_leaves_no_trace(
    desk: Desk, write: str
) -> None:
    claimed = desk.take()
    desk.reclaim(desk.lapse())  # epoch 2 belongs to nobody
    history = desk.store.history(claimed.id)
    for epoch in (-1, 0, 2, 3, 1_000_000):
        refused = WRITES[write](desk, claimed._replace(epoch=epoch))
        assert refused == Refused("unknown", State.SCHEDULED), epoch
    assert desk.store.history(claimed.id) == history
    assert WRITES[write](desk, claimed._replace(id="nothing")) == Refused("unknown", None)


@pytest.mark.parametrize("write", WRITES)
def test_a_job_that_was_never_claimed_knows_no_epoch(desk: Desk, write: str) -> None:
    claimed = desk.take()
    fresh = desk.add(due_in=60)
    before = desk.job(fresh)
    for epoch in (0, 1):
        refused = WRITES[write](desk, claimed._replace(id=fresh, epoch=epoch))
        assert refused == Refused("unknown", State.SCHEDULED)
    assert desk.job(fresh) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_refusal_tells_that_a_dispatcher_has_the_job_by_a_range(desk: Desk, write: str) -> None:
    claimed = desk.take(queue=DELIVERY)
    desk.release(claimed)
    assert ids(desk.claim_range().jobs) == [claimed.id]
    refused = WRITES[write](desk, claimed._replace(epoch=2))
    assert refused == Refused("unknown", State.DISPATCHED)
    if ("released", write) not in REPETITIONS:
        refused = WRITES[write](desk, claimed)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.state) == ("released", State.DISPATCHED)


def test_a_cancelled_job_refuses_its_former_worker(desk: Desk) -> None:
    claimed = desk.take()
    desk.retry(claimed)
    desk.cancel(claimed.id)
    refused = desk.complete(claimed)
    assert refused is not None
    assert (refused.reason, refused.state) == ("failed", State.CANCELLED)
    assert desk.state(claimed.id) is State.CANCELLED


def test_of_two_writes_that_settle_differently_the_first_wins(desk: Desk) -> None:
    pairs = set(combinations(["complete", "fail", "release", "drop"], 2)) - {("release", "drop")}
    for first, second in sorted(pairs):
        claimed = desk.take()
        assert WRITES[first](desk, claimed) is None
        settled = desk.job(claimed.id)
        assert isinstance(WRITES[second](desk, claimed), Refused)
        assert desk.job(claimed.id) == settled
        desk.cancel(claimed.id)


def test_the_first_and_the_last_fifty_diagnostics_are_kept(desk: Desk) -> None:
    job_id = desk.add()
    for number in range(120):
        desk.retry(desk.retake(job_id), "boom", detail=f"failure {number}")
        desk.clock.advance(1)
    details = [diagnostic.detail for diagnostic in desk.diagnostics(job_id)]
    assert details == [f"failure {number}" for number in (*range(50), *range(70, 120))]


def test_a_refusal_is_recorded_at_the_moment_of_the_write(desk: Desk) -> None:
    claimed = desk.take()
    desk.complete(claimed)
    desk.clock.advance(33)
    desk.release(claimed)
    (fenced,) = desk.diagnostics(claimed.id)
    assert fenced.at == at(desk.now)
    assert fenced.detail.endswith(".")
