"""Rules in a store: created, changed, listed, deleted, and what is known of their dependencies."""

from __future__ import annotations

from oncue.core.moment import to_datetime
from oncue.core.rule import Rule
from oncue.usecases.rules import rule_of

from .board import RULE, Board, cron, cron_at, file, file_at, seconds, table, table_at


def test_a_rule_is_stored_with_all_its_fields(board: Board) -> None:
    given = Rule(
        "nightly: ünï", (file("/in/", 3600), cron()), False, "out", b'{"a":[1,null,"\xc3\xa9"]}'
    )
    stored = board.store.put_rule(given, board.now)
    assert stored == rule_of(board.store, "nightly: ünï")
    assert (stored.dependencies, stored.enabled) == (given.dependencies, False)
    assert (stored.queue, stored.payload) == ("out", {"a": [1, None, "é"]})
    assert stored.created_at == stored.updated_at == to_datetime(board.now)
    assert (stored.last_instant, stored.last_job_id) == (None, None)


def test_a_rule_that_is_not_there_is_none(board: Board) -> None:
    board.rule(cron(), name="r")
    assert rule_of(board.store, "R") is None
    assert board.store.sightings("R", 0) is None
    assert not board.store.delete_rule("R")


def test_a_changed_rule_keeps_its_identity_and_takes_the_new_fields(board: Board) -> None:
    first = board.rule(file("/in/", 3600), cron(), payload_json=b"1")
    board.post_all(file_at(0), cron_at(10))
    board.clock.advance(5)
    changed = board.rule(cron(5), table("T", 1), file("/in/", 60), queue="other")
    assert changed.created_at == first.created_at
    assert changed.updated_at == to_datetime(board.now)
    assert changed.dependencies == (cron(5), table("T", 1), file("/in/", 60))
    assert (changed.queue, changed.payload) == ("other", None)
    assert changed.last_instant == seconds(10)
    assert changed.last_job_id == board.jobs()[0].id
    assert rule_of(board.store, RULE) == changed


def test_a_rule_put_again_unchanged_changes_nothing_about_what_fires(board: Board) -> None:
    board.rule(file("/in/", 3600), cron())
    board.post(file_at(0))
    board.rule(file("/in/", 3600), cron())
    board.post(cron_at(10))
    assert board.instants() == [10]


def test_dependencies_that_change_places_keep_their_events(board: Board) -> None:
    board.rule(table("A", 60), table("B", 60), table("C", 60))
    board.post_all(table_at(0, "A"), table_at(1, "B"))
    board.rule(table("C", 60), table("B", 60), table("A", 60))
    board.post(table_at(2, "C"))
    assert board.instants() == [2]
    told = board.jobs()[0].payload["events"]
    assert [one["eventResourceId"] for one in told] == ["C", "B", "A"]


def test_a_removed_dependency_is_no_longer_waited_for(board: Board) -> None:
    board.rule(file("/in/", 3600), cron())
    board.rule(cron())
    assert board.post(file_at(0)).decisions == ()
    assert len(board.post(cron_at(1)).jobs) == 1


def test_rules_are_listed_by_name_page_by_page(board: Board) -> None:
    names = sorted(f"rule {n}" for n in range(7))
    for name in reversed(names):
        board.rule(cron(), file("/in/", 5), name=name)
    board.store.delete_rule("rule 3")
    names.remove("rule 3")
    listed: list[Rule] = []
    while page := board.store.rules(listed[-1].name if listed else None, 2):
        assert len(page) <= 2
        listed += page
    assert [rule.name for rule in listed] == names
    assert {rule.dependencies for rule in listed} == {(cron(), file("/in/", 5))}


def test_a_deleted_rule_decides_nothing_and_its_jobs_stay(board: Board) -> None:
    board.rule(cron())
    board.post(cron_at(1))
    assert board.store.delete_rule(RULE)
    assert rule_of(board.store, RULE) is None
    assert board.post(cron_at(2)).decisions == ()
    assert board.instants() == [1]
    assert not board.store.delete_rule(RULE)


def test_the_newest_event_up_to_a_time_is_what_is_seen_of_a_dependency(board: Board) -> None:
    board.rule(table("A", 60), table("B", 0))
    board.post_all(table_at(10, "A"), table_at(30, "A"), table_at(20, "A"))
    for at, seen in ((9.9, None), (10, 10), (29.9, 20), (30, 30), (1000, 30)):
        found = board.store.sightings(RULE, seconds(at))
        assert found is not None
        a, b = found.of
        assert a.newest == (None if seen is None else table_at(seen, "A"))
        assert a.newest_stamp == seconds(30)
        assert b == (None, None, False)


def test_a_dependency_whose_events_were_all_stale_says_so(board: Board) -> None:
    board.rule(cron(), name=RULE)
    board.post(cron_at(100))
    board.rule(cron(), table("T", 60))
    board.post(table_at(50, "T"))
    assert board.validities(200) == ["EXPIRED", "ONLY_STALE"]
