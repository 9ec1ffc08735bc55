"""The checker itself: each of its verdicts can fail, and only for its own reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.proof.checker import Card, verdict
from tests.proof.history import History, Received, StaleWrite
from tests.proof.logs import AskLog, ReceiverLog

DUE = 10_000


def a_history(*job_ids: str, due_at: int = DUE) -> History:
    history = History()
    for job_id in job_ids:
        history.invoked(job_id, at=0, due_at=due_at)
        history.acknowledged(job_id)
    return history


def judge(history: History, *received: Received | StaleWrite) -> Card:
    return verdict(history, received)


def test_all_that_was_acknowledged_and_delivered_once_is_green() -> None:
    card = judge(a_history("a", "b"), Received("a", 1, DUE), Received("b", 1, DUE + 7))
    assert card.green
    assert not card.void
    assert (card.asked, card.acknowledged, card.delivered) == (2, 2, 2)
    assert str(card).startswith("GREEN: asked 2, acknowledged 2, delivered 2, faults 0")


def test_an_acknowledged_job_that_never_arrives_is_lost() -> None:
    card = judge(a_history("a", "b"), Received("a", 1, DUE))
    assert card.lost == ("b",)
    assert not card.green
    assert "  lost: b" in str(card).splitlines()


@pytest.mark.parametrize("answer", ["none", "unknown", "refused"])
def test_a_job_that_was_not_acknowledged_need_not_arrive(answer: str) -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    if answer == "unknown":
        history.unknown("b")
    if answer == "refused":
        history.failed("b")
    assert judge(history, Received("a", 1, DUE)).green


def test_a_job_with_an_unknown_outcome_may_arrive() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.unknown("b")
    assert judge(history, Received("a", 1, DUE), Received("b", 1, DUE)).green


def test_a_delivery_nobody_asked_for_is_unexpected() -> None:
    card = judge(a_history("a"), Received("a", 1, DUE), Received("ghost", 1, DUE))
    assert [found.why for found in card.unexpected] == ["never asked for"]
    assert not card.green


def test_a_delivery_of_a_refused_job_is_unexpected() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.failed("b")
    card = judge(history, Received("a", 1, DUE), Received("b", 1, DUE))
    assert [found.why for found in card.unexpected] == ["it was refused"]


def test_a_refusal_does_not_undo_an_earlier_request_without_an_answer() -> None:
    history = a_history("a")
    history.invoked("b", at=0, due_at=DUE)
    history.invoked("b", at=1, due_at=DUE)
    history.failed("b")
    assert judge(history, Received("a", 1, DUE), Received("b", 1, DUE)).green


def test_a_repeated_request_that_was_acknowledged_in_the_end_must_arrive() -> None:
    history = History()
    history.invoked("a", at=0, due_at=DUE)
    history.unknown("a")
    history.invoked("a", at=5, due_at=DUE)
    history.acknowledged("a")
    assert judge(history).lost == ("a",)


def test_a_delivery_after_an_acknowledged_cancel_is_unexpected() -> None:
    history = a_history("a")
    history.cancelled("a")
    card = judge(history, Received("a", 1, DUE))
    assert [found.why for found in card.unexpected] == ["its cancel was acknowledged"]
    assert not card.green


def test_a_delivery_that_a_fault_hid_before_the_cancel_is_forgiven_and_a_later_one_is_not() -> None:
    history = a_history("a")
    history.cancelled("a", at=DUE + 10)
    assert judge(history, Received("a", 1, DUE + 10)).green
    assert len(judge(history, Received("a", 1, DUE + 11)).unexpected) == 1


def test_a_cancelled_job_is_not_lost() -> None:
    history = a_history("a", "b")
    history.cancelled("b")
    assert judge(history, Received("a", 1, DUE)).green


@pytest.mark.parametrize("arrives", [True, False])
def test_a_cancel_without_an_answer_allows_either_outcome(arrives: bool) -> None:
    history = a_history("a", "b")
    history.cancel_unknown("b")
    received = [Received("a", 1, DUE), *([Received("b", 1, DUE)] if arrives else [])]
    assert judge(history, *received).green


def test_a_delivery_a_millisecond_before_its_due_time_is_early() -> None:
    card = judge(a_history("a"), Received("a", 1, DUE - 1))
    assert [one.id for one in card.early] == ["a"]
    assert not card.green


def test_earliness_within_the_tolerance_of_the_store_is_allowed() -> None:
    history = a_history("a")
    early = [Received("a", 1, DUE - 1000)]
    assert verdict(history, early, early_tolerance_ms=1000).green
    assert not verdict(history, early, early_tolerance_ms=999).green


def test_earliness_is_judged_by_the_due_time_a_job_was_moved_to() -> None:
    history = a_history("a")
    history.moved("a", DUE + 500)
    assert judge(history, Received("a", 1, DUE)).early
    assert judge(history, Received("a", 1, DUE + 500)).green


def test_a_move_without_an_answer_allows_either_due_time() -> None:
    history = a_history("a")
    history.move_unknown("a", DUE - 500)
    assert judge(history, Received("a", 1, DUE - 500)).green
    assert judge(history, Received("a", 1, DUE - 501)).early


def test_an_accepted_stale_write_is_never_green() -> None:
    stale = StaleWrite("a", epoch=1, current=2, what="complete", at=DUE)
    card = judge(a_history("a"), Received("a", 1, DUE), stale)
    assert card.stale == (stale,)
    assert not card.green


def test_duplicates_with_the_same_or_a_higher_attempt_are_identifiable_and_free() -> None:
    again = [Received("a", attempt, DUE) for attempt in (1, 1, 2)]
    card = judge(a_history("a"), *again)
    assert len(card.duplicates) == 2
    assert card.unidentifiable == ()
    assert card.green


def test_a_duplicate_whose_attempt_fell_is_not_identifiable() -> None:
    card = judge(a_history("a"), *(Received("a", attempt, DUE) for attempt in (1, 2, 1)))
    assert [one.highest for one in card.unidentifiable] == [2]
    assert not card.green


def test_an_attempt_that_fell_once_is_measured_against_the_highest() -> None:
    card = judge(a_history("a"), *(Received("a", attempt, DUE) for attempt in (3, 1, 2)))
    assert len(card.unidentifiable) == 2


def test_more_duplicates_than_the_bound_are_not_green() -> None:
    received = [Received("a", 1, DUE)] * 3
    assert verdict(a_history("a"), received, max_duplicates=2).green
    card = verdict(a_history("a"), received, max_duplicates=1)
    assert card.broken
    assert "duplicates 2 (0 unidentifiable, 1 allowed)" in str(card)


def test_a_run_in_which_too_little_succeeded_is_void_not_green() -> None:
    card = verdict(a_history("a"), [Received("a", 1, DUE)], min_acknowledged=2)
    assert card.void
    assert not card.green
    assert not card.broken
    assert str(card).startswith("VOID")


def test_a_run_in_which_nothing_was_asked_is_void() -> None:
    assert judge(History()).void


def test_a_run_in_which_too_few_faults_fired_is_void_not_green() -> None:
    received = [Received("a", 1, DUE)]
    assert verdict(a_history("a"), received, min_faults=3, faults_fired=2).void
    assert verdict(a_history("a"), received, min_faults=3, faults_fired=3).green


def test_a_void_run_that_broke_a_promise_says_so() -> None:
    card = verdict(a_history("a"), [], min_acknowledged=5)
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
    assert sum(line.startswith("  lost: j") for line in lines) == 5
    assert "  lost: … 4 more" in lines


@pytest.mark.slow
def test_a_hundred_thousand_jobs_are_judged() -> None:
    job_ids = [f"j{n}" for n in range(100_000)]
    received = [Received(job_id, 1, DUE) for job_id in job_ids]
    card = judge(a_history(*job_ids), *received, *received[:10])
    assert card.green
    assert (card.delivered, len(card.duplicates)) == (100_000, 10)


def test_the_logs_give_back_what_was_recorded(tmp_path: Path) -> None:
    asks, receipts = AskLog(tmp_path / "asks"), ReceiverLog(tmp_path / "receipts")
    for job_id in ("a", "b", "c"):
        asks.invoked(job_id, at=1, due_at=DUE)
    asks.acknowledged("a")
    asks.acknowledged("b")
    asks.cancelled("b")
    asks.failed("c")
    asks.moved("a", DUE + 1)
    receipts.record(Received("a", 1, DUE + 1, "w1"))
    receipts.record_stale(StaleWrite("a", 1, 2, "complete", DUE))
    history = asks.read()
    assert history.jobs["a"].due_at == DUE + 1
    assert history.jobs["b"].cancelled
    assert not history.jobs["c"].may_arrive
    card = verdict(history, receipts.read())
    assert (card.lost, card.unexpected, card.early, len(card.stale)) == ((), (), (), 1)


def test_a_log_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert ReceiverLog(tmp_path / "none").read() == []
    assert AskLog(tmp_path / "none").read().jobs == {}


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    log = ReceiverLog(tmp_path / "log")
    log.record(Received("a", 1, DUE), Received("b", 1, DUE))
    os.truncate(log.log.path, log.log.path.stat().st_size - 3)
    assert log.read() == [Received("a", 1, DUE)]


def test_the_next_process_strikes_out_the_line_that_the_last_one_tore(tmp_path: Path) -> None:
    path = tmp_path / "log"
    dead = ReceiverLog(path)
    dead.record(Received("a", 1, DUE), Received("b", 1, DUE))
    os.truncate(path, path.stat().st_size - 3)
    ReceiverLog(path).record(Received("c", 1, DUE))
    assert [one.id for one in dead.read()] == ["a", "c"]


def test_two_writers_share_one_log(tmp_path: Path) -> None:
    one, other = ReceiverLog(tmp_path / "log"), ReceiverLog(tmp_path / "log")
    one.record(Received("a", 1, DUE, "one"))
    other.record(Received("b", 1, DUE, "other"))
    one.record(Received("c", 1, DUE, "one"))
    assert [received.id for received in one.read()] == ["a", "b", "c"]


def test_a_whole_line_that_makes_no_sense_is_an_error(tmp_path: Path) -> None:
    log = ReceiverLog(tmp_path / "log")
    log.log.append(["heard", "a"])
    with pytest.raises(ValueError, match="no receiver writes such a line"):
        log.read()
