"""The checker itself: each of its verdicts can fail, and only for its own reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from oncue.core.lifecycle import State
from tests.proof.checker import Card, verdict
from tests.proof.ends import GONE, End
from tests.proof.entries import Declined, Entry, Received, Reclaimed, Struck, Taken, Wrote
from tests.proof.history import History

DUE = 10_000
DONE = End(State.SUCCEEDED)


def a_history(*job_ids: str, due_at: int = DUE) -> History:
    history = History()
    for job_id in job_ids:
        history.invoked(job_id, at=0, due_at=due_at)
        history.acknowledged(job_id)
    return history


def completed(job_id: str, epoch: int = 1, *, accepted: bool | None = True) -> list[Entry]:
    """A worker says that it is done, and is answered."""
    write = Wrote(job_id, epoch, "complete", None, 0.0)
    return [write] if accepted is None else [write, write._replace(accepted=accepted)]


def done(job_id: str, attempt: int = 1, at: int = DUE) -> list[Entry]:
    """A job that was received and completed."""
    return [Received(job_id, attempt, at), *completed(job_id)]


def lost_claim(job_id: str, epoch: int, *, started: bool, together: int = 1) -> list[Entry]:
    """A claim that was taken away when its lease was over."""
    claim = Taken(job_id, epoch, epoch, "ada", 0.0, 10.0, None, together)
    start = Wrote(job_id, epoch, "start", True, 0.0)
    begun = [start._replace(accepted=None), start] if started else []
    return [claim, *begun, Reclaimed(job_id, epoch, "", 10.0)]


def judge(history: History, *entries: Entry, **ends: End) -> Card:
    """What was received ended succeeded, unless it is said otherwise."""
    received = {one.id: DONE for one in entries if isinstance(one, Received)}
    return verdict(history, entries, {**received, **ends})


def why_lost(card: Card) -> list[str]:
    return [one.why for one in card.found["lost"]]  # type: ignore[attr-defined]


def test_all_that_was_acknowledged_and_done_once_is_green() -> None:
    card = judge(a_history("a", "b"), *done("a"), *done("b", at=DUE + 7))
    assert card.green
    assert not card.void
    assert (card.asked, card.acknowledged, card.delivered) == (2, 2, 2)
    assert str(card).startswith("GREEN: asked 2, acknowledged 2, delivered 2, faults 0")


# Lost


def test_an_acknowledged_job_that_never_arrives_is_lost() -> None:
    card = judge(a_history("a", "b"), *done("a"))
    assert card.violated == {"lost"}
    assert not card.green
    assert "  lost: Lost(id='b', why='gone, and nobody reported an end')" in str(card).splitlines()


@pytest.mark.parametrize("state", [State.SCHEDULED, State.DISPATCHED, State.EXECUTING])
def test_a_job_that_was_begun_and_has_not_ended_is_lost(state: State) -> None:
    card = judge(a_history("a"), Received("a", 1, DUE), a=End(state))
    assert why_lost(card) == [f"still {state}"]


def test_a_success_that_nobody_received_or_reported_is_lost() -> None:
    assert why_lost(judge(a_history("a"), *completed("a"), a=DONE)) == [
        "succeeded, but nobody received it"
    ]
    assert why_lost(judge(a_history("a"), Received("a", 1, DUE))) == [
        "succeeded, but nobody reported so"
    ]


def test_a_completion_without_an_answer_may_have_been_stored() -> None:
    assert judge(a_history("a"), Received("a", 1, DUE), *completed("a", accepted=None)).green


def test_a_job_of_which_nothing_is_kept_is_gone_once_it_was_completed() -> None:
    assert judge(a_history("a"), *done("a"), a=GONE).green
    card = judge(a_history("a"), Received("a", 1, DUE), a=GONE)
    assert why_lost(card) == ["gone, and nobody reported an end"]


def failed(*entries: Entry, codes: tuple[str, ...] = ("failure",), most: int = 3) -> list[str]:
    end = End(State.FAILED, codes=codes, max_attempts=most)
    return why_lost(judge(a_history("a"), *entries, a=end))


def test_a_failure_is_justified_by_a_final_refusal() -> None:
    assert failed() == ["failed, but only 0 of 3 attempts were used"]
    assert failed(Declined("a")) == []


def test_a_failure_is_justified_by_attempts_that_were_used_up() -> None:
    lost = [entry for epoch in (1, 2, 3) for entry in lost_claim("a", epoch, started=False)]
    assert failed(*lost[:4]) == ["failed, but only 2 of 3 attempts were used"]
    assert failed(*lost) == []


def test_claims_that_were_fetched_with_others_and_never_started_use_no_attempt() -> None:
    lost = [entry for n in (1, 2, 3) for entry in lost_claim("a", n, started=False, together=2)]
    assert failed(*lost) == ["failed, but only 0 of 3 attempts were used"]


def test_poison_is_justified_by_started_claims_that_were_lost() -> None:
    started = [entry for epoch in (1, 2, 3) for entry in lost_claim("a", epoch, started=True)]
    fetched = [entry for epoch in (1, 2, 3) for entry in lost_claim("a", epoch, started=False)]
    assert failed(*started, codes=("poison",), most=20) == []
    assert failed(*fetched, codes=("poison",), most=20) == [
        "failed as poison after 0 started claims were lost"
    ]


def test_a_failure_must_be_recorded() -> None:
    assert failed(Declined("a"), codes=()) == ["failed, and nothing is recorded about it"]


def test_a_cancellation_is_justified_by_somebody_who_asked_or_by_its_expiry() -> None:
    off = End(State.CANCELLED)
    assert why_lost(judge(a_history("a"), a=off)) == ["cancelled, but nobody asked for that"]
    history = History()
    history.invoked("a", at=0, due_at=DUE, expires_at=DUE + 1)
    history.acknowledged("a")
    assert why_lost(judge(history, a=off)) == ["expired, and nothing is recorded about it"]
    assert judge(history, a=off._replace(codes=("expired",))).green


@pytest.mark.parametrize("answer", ["none", "unknown", "refused"])
def test_a_job_that_was_not_acknowledged_need_not_arrive(answer: str) -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    if answer == "unknown":
        history.unknown("b")
    if answer == "refused":
        history.failed("b")
    assert judge(history, *done("a")).green


def test_a_repeated_request_that_was_acknowledged_in_the_end_must_arrive() -> None:
    history = History()
    history.invoked("a", at=0, due_at=DUE)
    history.unknown("a")
    history.invoked("a", at=5, due_at=DUE)
    history.acknowledged("a")
    assert judge(history).violated == {"lost"}


# Unkept words


def test_an_acknowledged_completion_whose_job_did_not_succeed_is_unkept() -> None:
    card = judge(a_history("a"), *done("a"), a=End(State.FAILED, codes=("failure",)))
    assert "unkept" in card.violated


def test_an_acknowledged_cancel_whose_job_was_not_cancelled_is_unkept() -> None:
    history = a_history("a")
    history.cancelled("a")
    card = judge(history, a=End(State.SCHEDULED))
    assert card.violated == {"lost", "unkept"}


def test_two_claims_of_one_job_cannot_both_have_been_completed() -> None:
    card = judge(a_history("a"), *done("a"), *completed("a", epoch=2))
    assert card.found["twice"] == ["a"]


# Unexpected


def test_a_job_with_an_unknown_outcome_may_arrive() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.unknown("b")
    assert judge(history, *done("a"), *done("b")).green


def why_unexpected(card: Card) -> list[str]:
    return [one.why for one in card.found["unexpected"]]  # type: ignore[attr-defined]


def test_a_delivery_nobody_asked_for_is_unexpected() -> None:
    card = judge(a_history("a"), *done("a"), *done("ghost"))
    assert why_unexpected(card) == ["never asked for"]
    assert not card.green


def test_a_delivery_of_a_refused_job_is_unexpected() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.failed("b")
    assert why_unexpected(judge(history, *done("a"), *done("b"))) == ["it was refused"]


def test_a_refusal_does_not_undo_an_earlier_request_without_an_answer() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.invoked("b", at=1, due_at=DUE)
    history.failed("b")
    assert judge(history, *done("a"), *done("b")).green


def test_a_delivery_after_an_acknowledged_cancel_is_unexpected() -> None:
    history = a_history("a")
    history.cancelled("a")
    assert why_unexpected(judge(history, *done("a"))) == ["its cancel was acknowledged"]


def test_a_delivery_that_a_fault_hid_before_the_cancel_is_forgiven_and_a_later_one_is_not() -> None:
    history = a_history("a")
    history.cancelled("a", at=DUE + 10)
    off = End(State.CANCELLED)
    assert judge(history, Received("a", 1, DUE + 10), a=off).green
    assert judge(history, Received("a", 1, DUE + 11), a=off).violated == {"unexpected"}


def test_a_cancelled_job_is_not_lost() -> None:
    history = a_history("a", "b")
    history.cancelled("b")
    assert judge(history, *done("a"), b=End(State.CANCELLED)).green


@pytest.mark.parametrize("arrives", [True, False])
def test_a_cancel_without_an_answer_allows_either_outcome(arrives: bool) -> None:
    history = a_history("a", "b")
    history.cancel_unknown("b")
    entries = [*done("a"), *(done("b") if arrives else [])]
    assert judge(history, *entries, b=DONE if arrives else End(State.CANCELLED)).green


# Early


def test_a_delivery_a_millisecond_before_its_due_time_is_early() -> None:
    assert judge(a_history("a"), *done("a", at=DUE - 1)).violated == {"early"}


def test_earliness_within_the_tolerance_of_the_store_is_allowed() -> None:
    early = done("a", at=DUE - 1000)
    assert verdict(a_history("a"), early, {"a": DONE}, early_tolerance_ms=1000).green
    assert not verdict(a_history("a"), early, {"a": DONE}, early_tolerance_ms=999).green


def test_earliness_is_judged_by_the_due_time_a_job_was_moved_to() -> None:
    history = a_history("a")
    history.moved("a", DUE + 500)
    assert judge(history, *done("a")).violated == {"early"}
    assert judge(history, *done("a", at=DUE + 500)).green


def test_a_move_without_an_answer_allows_either_due_time() -> None:
    history = a_history("a")
    history.move_unknown("a", DUE - 500)
    assert judge(history, *done("a", at=DUE - 500)).green
    assert judge(history, *done("a", at=DUE - 501)).violated == {"early"}


# Duplicates


def twice(first: int, second: int) -> list[Entry]:
    """A job that was received, lost, and received again."""
    lost = lost_claim("a", 1, started=True)
    again = Taken("a", 3, 2, "bob", 10.0, 10.0, None, 1)
    last = Received("a", second, DUE)
    return [lost[0], Received("a", first, DUE), *lost[1:], again, last, *completed("a", 3)]


@pytest.mark.parametrize("second", [1, 2])
def test_duplicates_with_the_same_or_a_higher_attempt_are_identifiable(second: int) -> None:
    card = judge(a_history("a"), *twice(1, second))
    assert len(card.duplicates) == 1
    assert card.green


def test_a_duplicate_whose_attempt_fell_is_not_identifiable() -> None:
    assert "unidentifiable" in judge(a_history("a"), *twice(2, 1)).violated


def test_an_attempt_that_fell_once_is_measured_against_the_highest() -> None:
    card = judge(a_history("a"), *(Received("a", attempt, DUE) for attempt in (3, 1, 2)))
    assert len(card.found["unidentifiable"]) == 2


def test_a_duplicate_that_no_fault_explains_is_not_green() -> None:
    again = judge(a_history("a"), Received("a", 1, DUE), *done("a"))
    assert again.violated == {"repeated"}


def test_more_duplicates_than_the_bound_are_not_green() -> None:
    history, ends = a_history("a"), {"a": DONE}
    assert verdict(history, twice(1, 2), ends, max_duplicates=1).green
    card = verdict(history, twice(1, 2), ends, max_duplicates=0)
    assert card.violated == {"too many"}
    assert "duplicates 1 (0 allowed)" in str(card)


@pytest.mark.parametrize(("killed", "allowed"), [("ada", 1), ("eve", 0)])
def test_as_many_duplicates_are_allowed_as_the_killed_had_in_flight(
    killed: str, allowed: int
) -> None:
    claim = Taken("a", 1, 1, "ada", 0.0, 10.0, None, 1)
    release = Wrote("a", 1, "release", None, 0.0)  # without an answer: it may have been given back
    again = claim._replace(epoch=2, holder="bob")
    first, second = Received("a", 1, DUE, "ada"), Received("a", 1, DUE, "bob")
    entries: list[Entry] = [claim, first, release, Struck(killed, "kill"), again, second]
    card = judge(a_history("a"), *entries, *completed("a", 2))
    assert card.max_duplicates == allowed
    assert card.green is (allowed == 1)


# The card


def test_a_run_in_which_too_little_succeeded_is_void_not_green() -> None:
    card = verdict(a_history("a"), done("a"), {"a": DONE}, min_acknowledged=2)
    assert card.void
    assert not card.green
    assert not card.broken
    assert str(card).startswith("VOID")


def test_a_run_in_which_nothing_was_asked_is_void() -> None:
    assert judge(History()).void


def test_a_run_in_which_too_few_faults_fired_is_void_not_green() -> None:
    def card(fired: int) -> Card:
        return verdict(a_history("a"), done("a"), {"a": DONE}, min_faults=3, faults_fired=fired)

    assert card(2).void
    assert card(3).green


def test_a_void_run_that_broke_a_promise_says_so() -> None:
    card = verdict(a_history("a"), [], {}, min_acknowledged=5)
    assert card.void
    assert str(card).startswith("BROKEN")


def test_lateness_counts_first_deliveries_from_the_moment_they_were_possible() -> None:
    history = a_history(*(f"j{n}" for n in range(100)))
    history.invoked("asked-late", at=DUE + 50, due_at=0)
    history.acknowledged("asked-late")
    received = [Received(f"j{n}", 1, DUE + n) for n in range(100)]
    received += [Received("asked-late", 1, DUE + 51), Received("j0", 1, DUE + 9_999)]
    lateness = judge(history, *received).lateness
    assert lateness is not None
    assert (lateness.p50, lateness.p99, lateness.max) == (49, 98, 99)


def test_a_run_without_deliveries_has_no_lateness() -> None:
    assert judge(a_history("a")).lateness is None


def test_the_card_shows_the_first_few_of_many_violations() -> None:
    lines = str(judge(a_history(*(f"j{n}" for n in range(9))))).splitlines()
    assert sum(line.startswith("  lost: Lost") for line in lines) == 5
    assert "  lost: … 4 more" in lines


@pytest.mark.slow
def test_a_hundred_thousand_jobs_are_judged() -> None:
    job_ids = [f"j{n}" for n in range(100_000)]
    entries = [entry for job_id in job_ids for entry in done(job_id)]
    ends: Mapping[str, End] = dict.fromkeys(job_ids, DONE)
    card = verdict(a_history(*job_ids), entries, ends)
    assert card.green
    assert card.delivered == 100_000
