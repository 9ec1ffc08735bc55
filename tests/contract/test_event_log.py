"""Events in a store: how they are listed, and how they are forgotten."""

from __future__ import annotations

import pytest

from oncue.clock import FakeClock
from oncue.core.event import Bounds
from oncue.core.firing import Decision
from oncue.core.moment import to_datetime
from oncue.core.retention import Retention
from oncue.stores.memory import MemoryStore

from .board import RULE, Board, cron, cron_at, decisions, file, file_at, table, table_at

DAY = 86_400


@pytest.mark.needs("all-events")
def test_events_are_listed_with_their_decisions_the_last_that_arrived_first(board: Board) -> None:
    board.rule(file("/in/", 3600), cron(), name="one")
    board.rule(cron(), name="two")
    board.post_all(cron_at(50), file_at(0), table_at(1, "T"), cron_at(50))
    listed = board.log()
    assert [one.event for one in listed] == [table_at(1, "T"), file_at(0), cron_at(50)]
    assert [(one.rule, one.decision) for one in listed[2].decisions] == [
        ("one", "ACCEPTED"),
        ("one", "DUPLICATE"),
        ("two", "ACCEPTED"),
        ("two", "DUPLICATE"),
    ]
    assert {one.received_at for one in listed} == {to_datetime(board.now)}


@pytest.mark.needs("all-events")
def test_events_are_listed_by_rule_and_by_decision(board: Board) -> None:
    board.rule(file("/in/", 3600), cron(), name="one")
    board.rule(cron(), name="two")
    board.post_all(file_at(0), cron_at(5), cron_at(4), table_at(1, "T"), file_at(0))
    times = {(cron_at(5)): 5, cron_at(4): 4, file_at(0): 0}
    assert [times[one.event] for one in board.log(rule="one")] == [4, 5, 0]
    assert [times[one.event] for one in board.log(rule="two")] == [4, 5]
    assert [times[one.event] for one in board.log(decision=Decision.STALE)] == [4]
    [twice] = board.log(decision=Decision.DUPLICATE)
    assert (twice.event, decisions(twice)) == (file_at(0), [Decision.DUPLICATE])
    [stale] = board.log(rule="two", decision=Decision.STALE)
    assert [one.rule for one in stale.decisions] == ["two"]
    assert board.log(rule="three") == []


@pytest.mark.needs("all-events")
def test_duplicates_are_counted_and_not_heaped_up(board: Board) -> None:
    board.rule(cron())
    for _ in range(5):
        board.post(cron_at(1))
    [logged] = board.log(decision=Decision.DUPLICATE)
    assert [one.times for one in logged.decisions] == [4]


@pytest.mark.needs("all-events")
def test_an_event_that_no_rule_decided_on_is_forgotten_after_a_week(board: Board) -> None:
    board.rule(cron())
    board.post_all(table_at(0, "T"), cron_at(0))
    board.clock.advance(7 * DAY)
    board.prune()
    assert len(board.log()) == 2
    board.clock.advance(0.001)
    board.prune()
    assert [one.event for one in board.log()] == [cron_at(0)]
    assert not board.post(table_at(0, "T")).duplicate


def test_accepted_events_that_ended_before_the_last_instant_are_forgotten(board: Board) -> None:
    board.rule(file("/in/", 100), cron())
    board.post_all(file_at(0), file_at(399.999999), file_at(400), file_at(450), cron_at(500))
    assert board.instants() == [500]
    before = board.validities(450)
    board.prune()
    assert board.validities(450) == before
    assert board.validities(399) == ["NEVER_SEEN", "NEVER_SEEN"]
    found = board.store.sightings(RULE, 2**60)
    assert found is not None
    assert board.stands(400).dependencies[0].event == file_at(400)
    board.post(cron_at(550))
    assert board.instants() == [500, 550]


def test_what_is_pruned_is_still_known_to_have_been_decided(board: Board) -> None:
    board.rule(file("/in/", 100), cron())
    board.post_all(file_at(0), file_at(450), cron_at(500))
    board.prune()
    assert board.post(file_at(0)).duplicate


def test_where_a_rule_does_not_fire_a_month_and_the_longest_life_are_kept(board: Board) -> None:
    board.rule(table("A", 100), table("B", 10))
    old, kept = table_at(0, "A"), table_at(1, "A")
    board.post_all(old, kept, table_at(30 * DAY + 101, "A"))
    board.clock.advance(8 * DAY)
    board.prune()
    assert [one.event for one in board.log(rule=RULE)] == [table_at(30 * DAY + 101, "A"), kept]
    assert board.stands(0).dependencies[0].event is None
    assert board.stands(1).dependencies[0].event == kept
    assert decisions(board.post(old)) == [Decision.TOO_LATE]


@pytest.mark.needs("all-events")
def test_the_time_that_is_kept_can_be_chosen(board: Board) -> None:
    board.bounds = Bounds(late_seconds=10, loose_seconds=0)
    board.rule(table("A", 5), table("B", 5))
    board.post_all(table_at(0, "A"), table_at(1, "A"), table_at(16, "A"))
    board.clock.advance(1)
    board.prune()
    assert [one.event for one in board.log()] == [table_at(16, "A"), table_at(1, "A")]


def test_the_ids_of_a_forgotten_event_are_free_again(board: Board) -> None:
    board.bounds = Bounds(late_seconds=0, loose_seconds=0)
    board.rule(table("A", 0), table("B", 0))
    for event_id in ("first", "second"):
        board.post(table_at(0, "A", event_id=event_id))
    board.post(table_at(1, "A"))
    board.clock.advance(1)
    board.prune()
    for second, event_id in enumerate(("first", "second"), 2):
        assert not board.post(table_at(second, "A", event_id=event_id)).duplicate


@pytest.mark.needs("all-events")
def test_pruning_goes_on_chunk_by_chunk_until_nothing_is_left_to_do(board: Board) -> None:
    board.bounds = Bounds(late_seconds=0, loose_seconds=0)
    for name in ("r", "s"):
        board.rule(table("A", 0), table("B", 0), name=name)
    board.post_all(*(table_at(n, "A") for n in range(50)))
    board.clock.advance(1)
    board.prune(limit=7)
    assert [one.event for one in board.log()] == [table_at(49, "A")]
    assert not board.store.prune(Retention({}, board.bounds), board.now, 7).more


@pytest.mark.needs("all-events")
def test_what_a_deleted_rule_had_is_forgotten_and_what_others_have_is_kept(board: Board) -> None:
    board.rule(cron(), name="gone")
    board.rule(cron(), name="kept")
    board.post(cron_at(1))
    board.store.delete_rule("gone")
    board.prune()
    [logged] = board.log()
    assert [one.rule for one in logged.decisions] == ["kept"]
    board.store.delete_rule("kept")
    board.prune()
    board.clock.advance(8 * DAY)
    board.prune()
    assert board.log() == []


def test_pruning_never_changes_what_fires(board: Board) -> None:
    clock = FakeClock()
    unpruned = Board(MemoryStore(clock), clock)
    events = [
        *(file_at(n * 40, f"/in/{n}") for n in range(8)),
        *(table_at(n * 150, "T") for n in range(3)),
        *(cron_at(n * 60 + 30) for n in range(6)),
    ]
    for each in (board, unpruned):
        each.rule(file("/in/", 50), cron(), table("T", 200))
        for one in sorted(events, key=lambda one: (one.stamp % 7, one.stamp)):
            each.post(one)
            if each is board:
                each.prune()
    assert board.instants() == unpruned.instants()
    assert len(board.instants()) >= 2
