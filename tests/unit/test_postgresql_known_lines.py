"""Where a look at the lines of a queue begins."""

from __future__ import annotations

import pytest

from oncue.clock import FakeClock
from oncue.core.moment import LATEST, Moment
from oncue.stores.postgresql.known_lines import KnownLines, LookBounds
from oncue.stores.postgresql.shards import LineHead

RANK = 19
HEADS = [LineHead(0, RANK, 100, "b"), LineHead(1, RANK, 100, "x")]


@pytest.fixture
def known() -> KnownLines:
    """After a look at everything, in a queue with three shards, the last of which is empty."""
    known = KnownLines(FakeClock())
    known.hears(True)
    known.learn(known.begin("q", 3), HEADS)
    return known


def floors(known: KnownLines) -> dict[tuple[int, int], tuple[Moment, str]]:
    bounds = known.begin("q", 3).bounds
    assert isinstance(bounds, LookBounds)
    lines = zip(*bounds, strict=True)
    return {(shard, rank): (due_at, job_id) for shard, rank, due_at, job_id in lines}


def test_each_line_is_looked_at_from_its_own_first_job_on(known: KnownLines) -> None:
    """Many jobs are due at one instant: those of a line that were taken are not walked through
    because another line is behind."""
    assert floors(known) == {(0, RANK): (100, "b"), (1, RANK): (100, "x"), (2, RANK): (LATEST, "")}


def test_the_next_look_moves_them(known: KnownLines) -> None:
    known.learn(known.begin("q", 3), [LineHead(0, RANK, 100, "k")])
    assert floors(known) == {
        (0, RANK): (100, "k"),
        (1, RANK): (LATEST, ""),
        (2, RANK): (LATEST, ""),
    }


def test_a_new_job_may_be_the_first_of_any_line(known: KnownLines) -> None:
    known.note_news({"q": 100}, {"q": {RANK, 12}})
    assert set(floors(known).values()) == {(100, "")}
    assert {rank for _, rank in floors(known)} == {RANK, 12}


def test_what_is_due_later_leaves_the_lines_that_begin_before(known: KnownLines) -> None:
    known.note_news({"q": 500}, {"q": {RANK}})
    assert floors(known) == {(0, RANK): (100, "b"), (1, RANK): (100, "x"), (2, RANK): (500, "")}


def test_a_look_during_which_something_was_told_teaches_nothing(known: KnownLines) -> None:
    look = known.begin("q", 3)
    known.note_news({"q": 50}, {"q": {RANK}})
    known.learn(look, HEADS)
    assert set(floors(known).values()) == {(50, "")}


def test_a_look_that_ends_after_one_at_everything_does_not_take_back_what_that_found(
    known: KnownLines,
) -> None:
    """It may have looked before a job was stored of which nobody told."""
    bounded, [late] = known.begin("q", 3), known.begin_everywhere({"q": 3})
    [everywhere] = known.begin_everywhere({"q": 3})
    known.learn(everywhere, [LineHead(2, RANK, 50, "untold")])
    for look in (bounded, late):
        known.learn(look, HEADS)
    assert floors(known)[2, RANK] == (50, "untold")


def test_news_of_room_leave_the_lines(known: KnownLines) -> None:
    before = floors(known)
    known.note_news({"q": 0}, {})
    assert floors(known) == before


def test_news_of_room_do_not_hide_a_job_that_was_told_together_with_them(known: KnownLines) -> None:
    known.note_news({"q": 0}, {"q": {RANK}})
    assert set(floors(known).values()) == {(0, "")}
