"""How a rule stands: a word for each dependency, a sentence for people, and it keeps its word."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from oncue.clock import FakeClock
from oncue.core.event import Event, EventType, made_id
from oncue.core.stamp import SECOND, render
from oncue.core.standing import Validity
from oncue.stores.memory import MemoryStore
from oncue.wire import rules as wire
from tests.contract.board import (
    Board,
    cron,
    cron_at,
    file,
    file_at,
    seconds,
    table,
    table_at,
)


@pytest.fixture
def board() -> Board:
    clock = FakeClock()
    return Board(MemoryStore(clock), clock)


def test_a_rule_of_which_nothing_was_seen_waits_for_all(board: Board) -> None:
    board.rule(file("/in/", 3600), cron())
    stands = board.stands(0)
    assert [one.validity for one in stands.dependencies] == [Validity.NEVER_SEEN] * 2
    assert not stands.met
    assert stands.sentence == (
        "No single event would fire it: it waits for FILE `/in/`, TIME_BASED `cron`."
    )


def test_the_sentence_names_the_event_that_would_fire_it(board: Board) -> None:
    board.rule(file("/in/", 3600), cron())
    board.post(file_at(0))
    stands = board.stands(10)
    assert stands.sentence == (
        "A TIME_BASED event `cron` stamped between 2021-01-01T00:00:00.000000Z and "
        "2021-01-01T01:00:00.000000Z would fire it."
    )
    assert stands.dependencies[0].event == file_at(0)
    assert stands.dependencies[0].valid_until == seconds(3600)


def test_after_a_job_the_window_begins_after_its_instant(board: Board) -> None:
    board.rule(file("/in/", 3600), cron())
    board.post_all(file_at(0), cron_at(10))
    stands = board.stands(11)
    assert stands.window is not None
    assert stands.window == (seconds(10) + 1, seconds(3600))
    assert wire.Standing.of(stands).last_instant == render(seconds(10))


def test_a_disabled_rule_would_fire_only_if_it_were_enabled(board: Board) -> None:
    board.rule(file("/in/", 3600), cron(), enabled=False)
    board.post(file_at(0))
    assert board.stands(10).sentence.endswith("would fire it if it were enabled.")


def test_a_rule_with_one_dependency_fires_with_every_event(board: Board) -> None:
    board.rule(cron())
    assert board.stands(0).sentence == ("Any TIME_BASED event `cron` stamped at any time fires it.")
    board.post(cron_at(10))
    assert board.stands(20).sentence == (
        "Any TIME_BASED event `cron` stamped after 2021-01-01T00:00:10.000000Z fires it."
    )


def test_intervals_that_miss_each_other_say_by_how_much(board: Board) -> None:
    board.rule(table("A", 60), table("B", 60), table("C", 60))
    board.post_all(table_at(0, "A"), table_at(100, "B"), table_at(100, "C"))
    stands = board.stands(100)
    assert [str(one.validity) for one in stands.dependencies] == ["EXPIRED", "MET", "MET"]
    assert stands.missed_by_seconds == 40
    assert stands.waits_for == table("A", 60)
    board.rule(table("A", 0), table("B", 0), table("C", 0))
    assert "miss each other by 100 s" in board.stands(200).sentence


def test_what_was_accepted_and_pruned_has_expired(board: Board) -> None:
    board.rule(file("/in/", 10), cron())
    board.post_all(file_at(0), file_at(100), cron_at(100))
    board.prune()
    [first, _] = board.stands(150).dependencies
    assert (first.validity, first.valid_until) == (Validity.EXPIRED, seconds(110))


def test_a_rule_is_explained_in_json(board: Board) -> None:
    board.rule(file("/in/", 10), cron())
    board.post_all(cron_at(0), file_at(1))
    told = msgspec.json.decode(msgspec.json.encode(wire.Standing.of(board.stands(5))))
    assert told["met"] is False
    assert [one["validity"] for one in told["dependencies"]] == ["MET", "NOT_OVERLAPPING"]
    assert told["dependencies"][1]["missedBySeconds"] == 1.0
    assert told["waitsFor"]["resourceId"] == "cron"
    assert (told["from"], told["until"]) == (render(seconds(1)), render(seconds(11)))


@pytest.mark.parametrize("seed", range(3))
def test_an_event_in_the_window_that_is_named_fires_and_one_outside_it_does_not(seed: int) -> None:
    random = Random(seed)
    tried = 0
    for _ in range(150):
        clock = FakeClock()
        board = Board(MemoryStore(clock), clock)
        board.rule(*(table(name, random.choice((0, 2, 5, 20))) for name in "ABC"))
        for _ in range(random.randint(2, 5)):
            board.post(table_at(random.randrange(30), random.choice("ABC")))
        stands = board.stands(40)
        if stands.window is None or stands.waits_for is None:
            continue
        tried += 1
        name = stands.waits_for.resource
        stamp = random.choice([*stands.window, sum(stands.window) // 2])
        event = Event(made_id(EventType.TABLE, name, stamp), EventType.TABLE, name, stamp)
        answer = board.post(event)
        assert answer.duplicate or answer.jobs, (stands.sentence, stamp / SECOND)
    assert tried > 30
