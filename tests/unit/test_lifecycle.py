"""The table of transitions, as it is documented."""

from __future__ import annotations

from oncue.core.lifecycle import FINAL, LIVE, TRANSITIONS, State, Verb, allows


def test_every_state_is_waiting_live_or_final() -> None:
    assert {State.SCHEDULED} | LIVE | FINAL == set(State)
    assert not LIVE & FINAL


def test_every_verb_leads_somewhere() -> None:
    assert {verb for _, verb in TRANSITIONS} == set(Verb)


def test_every_state_can_be_reached_and_left_or_is_final() -> None:
    reached = {after for (before, _), after in TRANSITIONS.items() if before is not after}
    left = {before for (before, _), after in TRANSITIONS.items() if before is not after}
    assert reached == set(State)
    assert set(State) - left == {State.SUCCEEDED}


def test_only_revival_leads_out_of_a_final_state() -> None:
    assert {verb for before, verb in TRANSITIONS if before in FINAL} == {Verb.REVIVE}


def test_what_a_worker_may_do_it_may_do_with_or_without_having_started() -> None:
    for verb in (Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.START):
        assert allows(State.DISPATCHED, verb)
        assert allows(State.EXECUTING, verb)
        assert not allows(State.SCHEDULED, verb)


def test_a_taken_job_is_neither_cancelled_nor_changed() -> None:
    for state in LIVE | FINAL:
        assert not allows(state, Verb.CANCEL)
        assert not allows(state, Verb.AMEND)
        assert not allows(state, Verb.CLAIM)
