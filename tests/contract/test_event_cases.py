"""The cases of the semantics of rules and events, a sentence each."""

from __future__ import annotations

import pytest

from oncue import Scheduler
from oncue.core.errors import EventIdTaken
from oncue.core.event import MOST_IDS
from oncue.core.firing import Decision
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue
from oncue.usecases.rules import rule_of

from .board import (
    RULE,
    Board,
    cron,
    cron_at,
    decisions,
    file,
    file_at,
    seconds,
    table,
    table_at,
)
from .desk import claim_due, settlement

ACCEPTED, DUPLICATE = Decision.ACCEPTED, Decision.DUPLICATE
STALE, TOO_LATE = Decision.STALE, Decision.TOO_LATE


@pytest.fixture
def hourly(board: Board) -> Board:
    board.rule(file("/in/", 3600), cron())
    return board


def test_a_file_and_then_the_cron_within_its_life_fire_at_the_cron(hourly: Board) -> None:
    assert hourly.post(file_at(0)).jobs == ()
    [fired] = hourly.post(cron_at(1800)).jobs
    assert (fired.rule, fired.instant) == (RULE, seconds(1800))
    assert hourly.instants() == [1800]


def test_the_cron_posted_before_the_file_fires_the_same_single_job(hourly: Board) -> None:
    assert hourly.post(cron_at(1800)).jobs == ()
    [fired] = hourly.post(file_at(0)).jobs
    assert fired.instant == seconds(1800)
    assert hourly.instants() == [1800]


def test_a_cron_before_the_file_fires_nothing_and_explains_by_how_much_it_missed(
    hourly: Board,
) -> None:
    hourly.post_all(cron_at(1800), file_at(1801))
    assert hourly.instants() == []
    stands = hourly.stands(1801)
    assert hourly.validities(1801) == ["MET", "NOT_OVERLAPPING"]
    assert stands.dependencies[1].missed_by_seconds == 1.0
    assert stands.missed_by_seconds == 1.0


def test_a_life_ends_with_its_last_second_included(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(3600))
    assert hourly.instants() == [3600]


def test_a_second_after_its_life_the_file_has_expired(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(3601))
    assert hourly.instants() == []
    file_, cron_ = hourly.stands(3601).dependencies
    assert (str(file_.validity), file_.valid_until) == ("EXPIRED", seconds(3600))
    assert str(cron_.validity) == "MET"


@pytest.mark.parametrize(("other", "instants"), [(5, [5]), (5.000001, []), (4.999999, [])])
def test_without_life_only_equal_timestamps_meet(
    board: Board, other: float, instants: list[float]
) -> None:
    board.rule(table("a", 0), table("b", 0))
    board.post_all(table_at(5, "a"), table_at(other, "b"))
    assert board.instants() == instants


def test_the_same_event_again_is_a_duplicate_that_names_the_earlier_job(hourly: Board) -> None:
    hourly.post(file_at(0))
    [fired] = hourly.post(cron_at(1800)).jobs
    for again in (cron_at(1800), cron_at(1800, event_id="another name")):
        answer = hourly.post(again)
        assert answer.duplicate
        assert answer.jobs == ()
        assert decisions(answer) == [DUPLICATE]
        assert [one.job_id for one in answer.decisions] == [fired.job_id]
        assert answer.event.id == cron_at(1800).id
    assert hourly.instants() == [1800]


def test_an_event_with_an_id_of_its_own_is_the_same_event_when_it_comes_again(
    hourly: Board,
) -> None:
    assert not hourly.post(file_at(0, event_id="mine")).duplicate
    again = hourly.post(file_at(0, event_id="mine"))
    assert again.duplicate
    assert again.event.id == "mine"


@pytest.mark.needs("all-events")
def test_an_id_with_other_content_is_refused_and_nothing_is_stored(hourly: Board) -> None:
    hourly.post(file_at(0, event_id="mine"))
    others = [cron_at(10), file_at(1, event_id="mine")]
    with pytest.raises(EventIdTaken, match="'mine'"):
        hourly.store.publish(others, hourly.now, hourly.bounds)
    assert [one.event for one in hourly.log()] == [file_at(0, event_id="mine")]
    assert hourly.instants() == []


def test_a_second_id_of_a_known_event_belongs_to_it_from_then_on(hourly: Board) -> None:
    hourly.post(file_at(0, event_id="mine"))
    assert hourly.post(file_at(0, event_id="also mine")).duplicate
    for _ in range(2):
        with pytest.raises(EventIdTaken, match="'also mine'"):
            hourly.post(cron_at(10, event_id="also mine"))
    again = hourly.post(file_at(0, event_id="also mine"))
    assert (again.duplicate, again.event.id) == (True, "mine")
    assert hourly.instants() == []


def test_a_second_id_in_the_same_call_is_remembered_too(hourly: Board) -> None:
    both = [file_at(0, event_id="a"), cron_at(10), file_at(0, event_id="b")]
    answers = hourly.store.publish(both, hourly.now, hourly.bounds)
    assert [one.duplicate for one in answers] == [False, False, True]
    for taken in ("a", "b"):
        with pytest.raises(EventIdTaken, match=f"'{taken}'"):
            hourly.post(cron_at(20, event_id=taken))


def test_a_refused_call_leaves_no_second_id(hourly: Board) -> None:
    hourly.post_all(file_at(0, event_id="mine"), cron_at(10, event_id="other"))
    both = [file_at(0, event_id="second"), cron_at(20, event_id="mine")]
    with pytest.raises(EventIdTaken, match="'mine'"):
        hourly.store.publish(both, hourly.now, hourly.bounds)
    assert not hourly.post(cron_at(30, event_id="second")).duplicate


def test_of_many_ids_of_one_event_the_first_hundred_are_remembered(hourly: Board) -> None:
    for number in range(MOST_IDS + 1):
        hourly.post(file_at(0, event_id=f"id {number}"))
    with pytest.raises(EventIdTaken):
        hourly.post(cron_at(10, event_id=f"id {MOST_IDS - 1}"))
    assert not hourly.post(cron_at(10, event_id=f"id {MOST_IDS}")).duplicate


@pytest.mark.needs("all-events")
def test_two_events_of_one_call_must_not_share_an_id(hourly: Board) -> None:
    both = [file_at(0, event_id="x"), file_at(1, event_id="x")]
    with pytest.raises(EventIdTaken):
        hourly.store.publish(both, hourly.now, hourly.bounds)
    assert hourly.log() == []


@pytest.mark.needs("all-events")
@pytest.mark.parametrize("late", [1799, 1800])
def test_what_is_not_after_the_last_instant_is_stale_stored_and_fires_nothing(
    hourly: Board, late: float
) -> None:
    hourly.post_all(file_at(0), cron_at(1800))
    answer = hourly.post(file_at(late, "/in/late"))
    assert decisions(answer) == [STALE]
    assert not answer.duplicate
    assert hourly.instants() == [1800]
    assert [one.event for one in hourly.log(decision=STALE)] == [file_at(late, "/in/late")]
    assert decisions(hourly.post(file_at(late, "/in/late"))) == [DUPLICATE]


def test_the_explanation_names_the_last_event_that_was_stale(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(1800))
    cue = Scheduler(hourly.store)
    assert cue.explain_rule(RULE, "2021-01-01T01:00:00Z").stale is None
    hourly.post_all(file_at(1700, "/in/b"), file_at(1799, "/in/late"), file_at(1900, "/in/c"))
    stands = cue.explain_rule(RULE, "2021-01-01T01:00:00Z")
    assert stands.stale == file_at(1799, "/in/late")
    assert stands.sentence.endswith(
        "The FILE event `/in/late` stamped 2021-01-01T00:29:59.000000Z was STALE: it is not "
        "later than the instant of the last job, 2021-01-01T00:30:00.000000Z."
    )


def test_the_explanation_names_the_last_event_that_was_too_late(board: Board) -> None:
    board.rule(table("A", 60), table("B", 0))
    board.post(table_at(0, "A"))
    board.post(table_at(-40 * 86_400, "B"))
    stands = Scheduler(board.store).explain_rule(RULE, "2021-01-01T00:00:30Z")
    assert (stands.stale, stands.too_late) == (None, table_at(-40 * 86_400, "B"))
    assert stands.sentence.endswith(
        "The TABLE event `B` stamped 2020-11-22T00:00:00.000000Z was TOO_LATE: the rule no longer "
        "keeps events of that time (setting events_late_seconds)."
    )


def test_a_late_event_after_the_last_instant_may_fire_in_the_past(board: Board) -> None:
    board.rule(table("A", 60), table("B", 0))
    board.post_all(table_at(0, "A"), table_at(100, "A"))
    [fired] = board.post(table_at(30, "B")).jobs
    assert fired.instant == seconds(30)


def test_a_newer_event_while_all_are_valid_fires_a_second_job(board: Board) -> None:
    board.rule(table("A", 60), table("B", 60))
    board.post_all(table_at(0, "A"), table_at(10, "B"), table_at(20, "A"))
    assert board.instants() == [10, 20]


def test_five_hundred_files_in_a_minute_fire_five_hundred_jobs(board: Board) -> None:
    board.rule(file("/in/", 60), table("T", 3600))
    board.post(table_at(0, "T"))
    files = [file_at(1 + n * 0.1, f"/in/{n}") for n in range(500)]
    answers = board.store.publish(files, board.now, board.bounds)
    assert [len(answer.jobs) for answer in answers] == [1] * 500
    assert len(set(board.instants())) == 500


def test_a_crash_between_two_rules_is_completed_by_posting_again(board: Board) -> None:
    """The state after such a crash: one of the rules has decided, the other has not."""
    board.rule(cron(), name="a")
    assert [job.rule for job in board.post(cron_at(5)).jobs] == ["a"]
    board.rule(cron(), name="b")
    completed = board.post(cron_at(5))
    assert not completed.duplicate
    assert [(one.rule, one.decision) for one in completed.decisions] == [
        ("a", DUPLICATE),
        ("b", ACCEPTED),
    ]
    assert [job.rule for job in completed.jobs] == ["b"]
    assert board.post(cron_at(5)).duplicate
    assert board.instants("a") == board.instants("b") == [5]


def test_a_changed_life_counts_at_once_and_fires_nothing_by_itself(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(4000))
    hourly.rule(file("/in/", 7200), cron())
    assert hourly.instants() == []
    hourly.post(cron_at(5000))
    assert hourly.instants() == [5000]


def test_an_added_dependency_is_validated_only_by_what_comes_after_it(hourly: Board) -> None:
    hourly.post(table_at(0, "T"))
    hourly.rule(file("/in/", 3600), cron(), table("T", 3600))
    hourly.post_all(file_at(0), cron_at(10))
    assert hourly.instants() == []
    assert hourly.validities(10) == ["MET", "MET", "NEVER_SEEN"]
    hourly.post(table_at(5, "T"))
    assert hourly.instants() == [10]


def test_a_dependency_that_was_gone_for_a_while_has_forgotten_its_events(hourly: Board) -> None:
    hourly.post(file_at(0))
    hourly.rule(cron())
    hourly.rule(file("/in/", 3600), cron())
    hourly.post(cron_at(10))
    assert hourly.validities(10) == ["NEVER_SEEN", "MET"]
    hourly.prune()
    assert hourly.validities(10) == ["NEVER_SEEN", "MET"]


def test_a_rule_deleted_and_created_again_is_another_rule(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(1800))
    assert hourly.store.delete_rule(RULE)
    hourly.rule(file("/in/", 3600), cron())
    answers = hourly.post_all(cron_at(1800), file_at(0))
    assert [answer.duplicate for answer in answers] == [False, False]
    assert hourly.instants() == [1800, 1800]


def test_a_disabled_rule_stores_and_validates_but_fires_nothing(hourly: Board) -> None:
    hourly.rule(file("/in/", 3600), cron(), enabled=False)
    hourly.post(file_at(0))
    answer = hourly.post(cron_at(10))
    [decided] = answer.decisions
    assert (decided.decision, decided.suppressed, decided.job_id) == (ACCEPTED, "disabled", None)
    hourly.rule(file("/in/", 3600), cron(), enabled=True)
    assert hourly.instants() == []
    hourly.post(cron_at(20))
    assert hourly.instants() == [20]


def test_an_event_that_would_not_have_fired_anyway_is_not_called_suppressed(board: Board) -> None:
    board.rule(file("/in/", 3600), cron(), enabled=False)
    [decided] = board.post(file_at(0)).decisions
    assert decided.suppressed is None


def test_a_failed_job_leaves_the_last_instant_as_it_is(hourly: Board) -> None:
    hourly.post_all(file_at(0), cron_at(10))
    [claimed] = claim_due(hourly.store, [Queue("rules")], "ada", 1, hourly.now)
    assert not hourly.store.settle([settlement(claimed, Verb.FAIL)], hourly.now).refused
    rule = rule_of(hourly.store, RULE)
    assert rule is not None
    assert (rule.last_instant, rule.last_job_id) == (seconds(10), claimed.id)


def test_one_event_serves_many_rules_and_many_dependencies(board: Board) -> None:
    board.rule(file("/in", 0), file("/in/", 0), name="both")
    board.rule(file("/in/a", 0), name="one")
    board.rule(file("/in/ab", 0), name="none")
    answer = board.post(file_at(5))
    assert [one.rule for one in answer.decisions] == ["both", "both", "one"]
    assert [job.rule for job in answer.jobs] == ["both", "one"]


def test_rules_decide_in_the_order_of_their_names(board: Board) -> None:
    for name in ("b", "é", "a", "B"):
        board.rule(cron(), name=name)
    assert [job.rule for job in board.post(cron_at(1)).jobs] == ["B", "a", "b", "é"]


@pytest.mark.needs("all-events")
def test_an_event_that_matches_no_rule_is_logged_and_a_duplicate_when_it_comes_again(
    board: Board,
) -> None:
    first, again = board.post_all(cron_at(1), cron_at(1))
    assert (first.duplicate, again.duplicate) == (False, True)
    assert first.decisions == again.decisions == ()
    assert [one.event for one in board.log()] == [cron_at(1)]


def test_what_is_older_than_the_time_that_is_kept_is_too_late(hourly: Board) -> None:
    month = hourly.bounds.late_seconds
    hourly.post(file_at(month + 3600))
    assert decisions(hourly.post(cron_at(0))) == [ACCEPTED]
    assert decisions(hourly.post(cron_at(-0.000001))) == [TOO_LATE]
    assert hourly.instants() == []


def test_firing_removes_nothing(board: Board) -> None:
    board.rule(table("T3", 86_400), table("T4", 0))
    board.post(table_at(0, "T3"))
    for hour in (1, 5, 24):
        board.post(table_at(hour * 3600, "T4"))
    board.post(table_at(86_401, "T4"))
    assert board.instants() == [3600, 18_000, 86_400]


def test_a_job_tells_which_event_fired_it_and_which_validated_each_dependency(
    board: Board,
) -> None:
    board.rule(file("/in/", 3600), cron(), queue="out", payload_json=b'{"what":"load"}')
    board.post_all(file_at(0, "/in/old"), file_at(5, "/in/new"), cron_at(10))
    [job] = board.jobs("out")
    told = job.payload
    assert (job.rule, told["rule"]) == (RULE, RULE)
    assert told["instant"] == "2021-01-01T00:00:10.000000Z"
    assert told["event"] == cron_at(10).as_dict()
    assert [one["eventResourceId"] for one in told["events"]] == ["/in/new", "cron"]
    assert told["events"][0]["dependency"] == file("/in/", 3600).as_dict()
    assert told["payload"] == {"what": "load"}
    assert job.state == "scheduled"
