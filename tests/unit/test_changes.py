"""Which jobs a change is made to, and why the others are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.changes import ChangeVerb, JobChange, NotChanged, SeenJob, decide
from oncue.core.job import JobFilter
from oncue.core.lifecycle import FINAL, LIVE, State, Verb, allows

NOW = 10_000
SEEN = SeenJob(
    id="a",
    state=State.SCHEDULED,
    covered=False,
    queue="q",
    owner="ada",
    key="k",
    due_at=20_000,
    not_before=None,
    priority=3,
    cancel_requested=False,
    finished_at=None,
    key_taken=False,
)
CHANGES = {
    ChangeVerb.AMEND: JobChange(ChangeVerb.AMEND, due_at=30_000),
    ChangeVerb.RUN: JobChange(ChangeVerb.RUN),
    ChangeVerb.CANCEL: JobChange(ChangeVerb.CANCEL),
    ChangeVerb.STOP: JobChange(ChangeVerb.STOP),
    ChangeVerb.REVIVE: JobChange(ChangeVerb.REVIVE),
    ChangeVerb.MOVE: JobChange(ChangeVerb.MOVE, queue="other"),
}
LIFECYCLE = {verb: Verb(verb) for verb in (ChangeVerb.AMEND, ChangeVerb.CANCEL, ChangeVerb.REVIVE)}


def seen(state: State = State.SCHEDULED, **fields: Any) -> SeenJob:
    finished_at = 5_000 if state in FINAL else None
    return SEEN._replace(**{"state": state, "finished_at": finished_at} | fields)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("verb", ChangeVerb)
def test_a_change_is_made_in_the_states_that_the_lifecycle_allows(
    verb: ChangeVerb, state: State
) -> None:
    legal = state in LIVE
    if verb is not ChangeVerb.STOP:
        legal = allows(state, LIFECYCLE.get(verb, Verb.AMEND))
    answer = decide(seen(state), CHANGES[verb], NOW)
    assert answer == (None if legal else NotChanged("state", state))


@pytest.mark.parametrize("verb", ChangeVerb)
def test_a_job_that_is_being_delivered_is_not_changed_and_shows_as_dispatched(
    verb: ChangeVerb,
) -> None:
    answer = decide(seen(covered=True), CHANGES[verb], NOW)
    assert answer == NotChanged("state", State.DISPATCHED)


def test_a_job_that_finished_after_the_change_began_is_not_revived() -> None:
    change = JobChange(ChangeVerb.REVIVE, begun_at=5_000)
    assert decide(seen(State.FAILED, finished_at=5_000), change, NOW) is None
    late = decide(seen(State.FAILED, finished_at=5_001), change, NOW)
    assert late == NotChanged("state", State.FAILED)


@pytest.mark.parametrize("verb", ChangeVerb)
def test_a_taken_key_matters_only_where_the_job_takes_it_again(verb: ChangeVerb) -> None:
    state = {ChangeVerb.STOP: State.EXECUTING, ChangeVerb.REVIVE: State.FAILED}.get(
        verb, State.SCHEDULED
    )
    answer = decide(seen(state, key_taken=True), CHANGES[verb], NOW)
    refused = verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE)
    assert answer == (NotChanged("key", state) if refused else None)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (JobChange(ChangeVerb.AMEND), {}),
        (JobChange(ChangeVerb.AMEND, due_at=20_000, priority=3), {}),
        (JobChange(ChangeVerb.RUN), {"due_at": NOW}),
        (JobChange(ChangeVerb.STOP), {"state": State.EXECUTING, "cancel_requested": True}),
        (JobChange(ChangeVerb.MOVE, queue="q"), {"key_taken": True}),
    ],
)
def test_a_job_that_is_as_wanted_is_left_alone(change: JobChange, fields: dict[str, Any]) -> None:
    job = seen(**fields)
    assert decide(job, change, NOW) == NotChanged("as wanted", job.state)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (JobChange(ChangeVerb.AMEND, payload=b"{}"), {}),
        (JobChange(ChangeVerb.AMEND, due_at=20_000), {"not_before": 25_000}),
        (JobChange(ChangeVerb.RUN), {"due_at": NOW, "not_before": 25_000}),
    ],
)
def test_a_new_payload_or_the_end_of_being_put_off_is_a_change(
    change: JobChange, fields: dict[str, Any]
) -> None:
    assert decide(seen(**fields), change, NOW) is None


FILTERS = st.builds(
    JobFilter,
    queue=st.sampled_from([None, "q", "other"]),
    state=st.sampled_from([None, *State]),
    owner=st.sampled_from([None, "ada", "bob"]),
    key=st.sampled_from([None, "k", "l"]),
    due_after=st.sampled_from([None, 19_999, 20_000, 20_001]),
    due_before=st.sampled_from([None, 19_999, 20_000, 20_001]),
)


@given(FILTERS, st.sampled_from(State), st.booleans())
def test_a_job_outside_the_filter_is_left_alone_whatever_its_state(
    wanted: JobFilter, state: State, covered: bool
) -> None:
    job = seen(state, covered=covered and state is State.SCHEDULED)
    shown = State.DISPATCHED if job.covered else state
    inside = (
        (wanted.queue or "q", wanted.owner or "ada", wanted.key or "k") == ("q", "ada", "k")
        and (wanted.state or shown) == shown
        and job.due_at in range(wanted.due_after or 0, wanted.due_before or 30_000)
    )
    answer = decide(job, JobChange(ChangeVerb.CANCEL, wanted), NOW)
    if inside:
        made = shown is State.SCHEDULED
        assert answer == (None if made else NotChanged("state", shown))
    else:
        assert answer == NotChanged("filter", shown)
