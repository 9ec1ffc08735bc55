"""A Python worker that comes back to life: whatever it still tries, the newer claim goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncue import ClaimLost, HandledJob, NonRetryable, State
from oncue.core.job import Claimed, Operation
from oncue.core.moment import to_datetime
from oncue.testing import HandDriven
from oncue.worker.source import Beat, ClaimEnd, ClaimSource

LEASE = 60.0


def fail(job: HandledJob) -> None:
    raise RuntimeError("late")


def give_up(job: HandledJob) -> None:
    raise NonRetryable("late")


LAST_WORDS: dict[str, Callable[[HandledJob], object]] = {
    "progress": lambda job: job.progress(99, "late"),
    "progress of a step": lambda job: job.progress(99, "late", step="encode"),
    "a step": lambda job: job.step("encode", lambda: "late"),
    "a result": lambda job: "late",
    "a failure": fail,
    "a failure for good": give_up,
}


def lose(cue: HandDriven, again: bool) -> Claimed | None:
    """Let an operator take the claim away, long before the worker could notice it by its own clock;
    perhaps somebody takes the job again."""
    cue.clock.advance(1)
    assert cue.reclaim(reclaim_age_minutes=0.001).reclaimed == 1
    if not again:
        return None
    [claim] = cue.claim("video", "bob")
    cue.heartbeat(claim.id, cue.token(claim), message="at work")
    return claim


@pytest.mark.parametrize("again", [False, True], ids=["reclaimed", "taken again"])
@pytest.mark.parametrize("words", LAST_WORDS)
def test_what_a_handler_says_after_its_claim_was_lost_changes_nothing(
    words: str, again: bool
) -> None:
    cue = HandDriven()
    cue.set_queue("video", lease_seconds=LEASE)
    job = cue.schedule(queue="video")
    seen: dict[str, Any] = {}

    @cue.handler("video")
    def zombie(handled: HandledJob) -> object:
        if handled.attempt > 1:
            return "fresh"
        seen["claim"] = lose(cue, again)
        seen["before"] = cue.job(job.id)
        try:
            return LAST_WORDS[words](handled)
        finally:
            seen["after"] = cue.job(job.id)

    cue.run_due()
    assert seen["after"] == seen["before"]
    attempts = cue.history(job.id).attempts
    assert attempts[0].outcome == "reclaimed"
    if again:
        assert cue.job(job.id) == seen["before"]
        cue.complete(job.id, cue.token(seen["claim"]), "mine")
        assert cue.job(job.id).result == "mine"
    else:
        assert (cue.job(job.id).state, cue.job(job.id).result) == (State.SUCCEEDED, "fresh")
    fenced = [one for one in cue.history(job.id).diagnostics if one.code == "fenced"]
    assert len(fenced) == 1
    assert fenced[0].epoch == 1


def test_a_handler_whose_claim_was_lost_is_told_so() -> None:
    cue = HandDriven()
    job = cue.schedule(queue="video")
    told: list[str] = []

    @cue.handler("video")
    def zombie(handled: HandledJob) -> None:
        if handled.attempt == 1:
            lose(cue, again=False)
            with pytest.raises(ClaimLost, match="the claim was lost") as lost:
                handled.progress(50)
            told.append(str(lost.value))
            assert handled.lost

    cue.run_due()
    assert len(told) == 1
    assert cue.job(job.id).state is State.SUCCEEDED


WRITES: dict[str, Callable[[ClaimSource, Claimed, HandDriven], object]] = {
    "heartbeat": lambda source, claim, cue: source.touch([Beat(claim, LEASE, "late", 99.0)]),
    "operation": lambda source, claim, cue: source.put_operation(
        claim, Operation("encode", "succeeded", to_datetime(cue.clock.now()), result=b'"late"')
    ),
    "complete": lambda source, claim, cue: source.settle(
        cue.queue("video"), [ClaimEnd(claim, "complete", b'"late"')]
    ),
    "fail": lambda source, claim, cue: source.settle(
        cue.queue("video"), [ClaimEnd(claim, "fail", error="late")]
    ),
    "release": lambda source, claim, cue: source.settle(
        cue.queue("video"), [ClaimEnd(claim, "release")]
    ),
}


@pytest.mark.parametrize("again", [False, True], ids=["reclaimed", "taken again"])
@pytest.mark.parametrize("write", WRITES)
def test_no_write_of_a_workers_place_gets_past_the_fence(write: str, again: bool) -> None:
    cue = HandDriven()
    job = cue.schedule(queue="video")
    source = cue.claim_source("ada")
    claimed = source.claim("video", 1, cue.clock.now())
    assert claimed is not None
    [claim] = claimed.claims
    lose(cue, again)
    before = cue.job(job.id)
    for _ in range(2):
        WRITES[write](source, claim, cue)
    assert cue.job(job.id) == before
    assert cue.history(job.id).operations == ()
    codes = [one.code for one in cue.history(job.id).diagnostics]
    assert codes == ["timeout_dispatched", "fenced"]
