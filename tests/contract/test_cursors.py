"""Cursors: every list goes on where it was left, and only with what it gave out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.cursor import Cursor, Page
from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.core.publication import EventFilter
from oncue.core.queue import Queue
from oncue.ports.claims import ClaimFilter
from oncue.ports.store import Store

from .board import Board, file_at
from .desk import Desk

List = Callable[[Store, Cursor | None, int], Page[Any]]


LISTS: dict[str, List] = {
    "jobs": lambda store, after, limit: store.page(JobFilter(), after, limit),
    "jobs of an owner": lambda store, after, limit: store.page(JobFilter(owner="o"), after, limit),
    "to be changed": lambda store, after, limit: store.find_all(
        BulkChange(BulkVerb.CANCEL, store.clock.now()), JobFilter(), after, limit
    ),
    "claims": lambda store, after, limit: store.live_claims(ClaimFilter(), after, limit),
    "lapsed claims": lambda store, after, limit: store.live_claims(
        ClaimFilter(lapsed_by=store.clock.now() + 10**9), after, limit
    ),
    "events": lambda store, after, limit: store.events(EventFilter(), after, limit),
    "all jobs": lambda store, after, limit: store.export(after, limit),
    "all events": lambda store, after, limit: store.export_events(after, limit),
}


NEEDS = {"jobs": "all-jobs", "to be changed": "all-jobs", "events": "all-events"}
EVERY = [
    pytest.param(one, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else [], id=name)
    for name, one in LISTS.items()
]


@pytest.fixture
def filled(desk: Desk, board: Board) -> Store:
    """Three or more of whatever is listed. Some claims were handed over and have no lease."""
    desk.add_many(3, due_in=60, owner="o")
    desk.add_many(5, queue="taken")
    claims = desk.claim(Queue("taken"))
    assert len(claims) == 5
    for claimed in claims[:2]:
        desk.hand_over(claimed)
    for number in range(3):
        board.post(file_at(number))
    return desk.store


def walked(
    store: Store, one: List, limit: int, since: Cursor | None = None
) -> tuple[list[Any], dict[Cursor, int]]:
    """What the pages list, and how much of it was listed before each cursor."""
    items: list[Any] = []
    cursors: dict[Cursor, int] = {}
    while True:
        page = one(store, since, limit)
        assert len(page.items) <= limit
        items += page.items
        since = page.next
        if since is None:
            return items, cursors
        assert since not in cursors, "a cursor must move on"
        cursors[since] = len(items)


def same(some: list[Any], others: list[Any]) -> bool:
    """Not every list has an order."""
    return sorted(map(repr, some)) == sorted(map(repr, others))


@pytest.mark.parametrize("one", EVERY)
def test_a_list_goes_on_where_it_was_left(filled: Store, one: List) -> None:
    items, cursors = walked(filled, one, 1)
    assert len(items) >= 3
    assert same(items, walked(filled, one, 100)[0])
    for cursor, before in cursors.items():
        rest, _ = walked(filled, one, 100, cursor)
        assert same(items[:before] + rest, items), "a cursor may be used again"


@pytest.mark.parametrize("one", EVERY)
def test_a_cursor_is_a_text_for_urls_and_command_lines(filled: Store, one: List) -> None:
    for cursor in walked(filled, one, 1)[1]:
        assert re.fullmatch(r"[A-Za-z0-9_=-]+", cursor)


@pytest.mark.parametrize("one", [one for one in EVERY if one.id != "all jobs"])
def test_a_text_that_is_no_cursor_is_refused(filled: Store, one: List) -> None:
    for text in ("", "x", "-1", "9" * 30, "MTgwMDAwMDAwMDAwMC5hYmM", "\0", "\ud800", "ü", "[]"):
        with pytest.raises(InvalidInput, match="not a cursor") as caught:
            one(filled, text, 10)
        assert caught.value.pointer == "/cursor"
