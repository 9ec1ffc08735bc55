"""Nodes: kept as they report, listed as long as their lease, and forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.moment import Moment, to_datetime
from oncue.core.nodes import LEASE_MS, NOTHING, NodeReport
from oncue.ports.store import Store

from .desk import together


def node(
    node_id: str, at: Moment, started_at: Moment | None = None, *, engine: bool = True
) -> NodeReport:
    started = to_datetime(at if started_at is None else started_at)
    return NodeReport(node_id, "web-1", 4711, "1.2.3", started, to_datetime(at), engine=engine)


def test_a_store_begins_without_nodes(store: Store, clock: FakeClock) -> None:
    assert store.nodes(clock.now()) == []


def test_a_node_comes_back_as_it_reported(store: Store, twin: Store, clock: FakeClock) -> None:
    plain = node("a", clock.now())
    whole = replace(
        node("ü:1 \N{COOKING}", clock.now() + 1),
        host="küche \N{COOKING}",
        dispatches=("mail", "rules"),
        works=("a.b-c_d",),
        url="http://[::1]:8420",
    )
    store.report_node(plain)
    store.report_node(whole)
    assert twin.nodes(clock.now()) == [plain, whole]


def test_a_report_takes_the_place_of_the_one_before(store: Store, clock: FakeClock) -> None:
    first = node("a", clock.now())
    store.report_node(first)
    later = replace(first, seen_at=to_datetime(clock.advance(10)), engine=False, works=("mail",))
    store.report_node(later)
    assert store.nodes(clock.now()) == [later]


def test_nodes_are_listed_oldest_first_then_by_id(store: Store, clock: FakeClock) -> None:
    now = clock.now()
    for name, started_at in (("c", now - 1), ("a", now), ("d", now - 2), ("b", now - 1)):
        store.report_node(node(name, now, started_at))
    assert [one.id for one in store.nodes(now)] == ["d", "b", "c", "a"]


def test_a_node_is_listed_until_its_lease_ends(store: Store, clock: FakeClock) -> None:
    at = clock.now()
    store.report_node(node("a", at))
    assert store.nodes(at + LEASE_MS - 1)
    assert not store.nodes(at + LEASE_MS)


def test_a_clock_that_was_set_back_does_not_keep_the_dead(store: Store, clock: FakeClock) -> None:
    at = clock.now()
    store.report_node(node("dead", at))
    assert not store.nodes(at - LEASE_MS)
    store.report_node(node("alive", at - LEASE_MS))
    assert [one.id for one in store.nodes(at - LEASE_MS)] == ["alive"]
    assert [one.id for one in store.nodes(at - 1)] == ["alive"], "the dead one was removed"


def test_the_next_report_removes_those_whose_lease_has_ended(
    store: Store, clock: FakeClock
) -> None:
    at = clock.now()
    store.report_node(node("killed", at))
    store.report_node(node("other", at + LEASE_MS))
    assert [one.id for one in store.nodes(at)] == [], "neither is alive by that clock"
    assert [one.id for one in store.nodes(at + LEASE_MS - 1)] == ["other"]


def test_a_node_that_runs_nothing_is_forgotten(store: Store, clock: FakeClock) -> None:
    ended, other = node("ended", clock.now()), node("other", clock.now())
    store.report_node(ended)
    store.report_node(other)
    for _ in range(2):
        store.report_node(replace(ended, **NOTHING._asdict()))
        assert store.nodes(clock.now()) == [other]


@pytest.mark.parametrize("runs", [{"works": ("q",)}, {"dispatches": ("q",)}, {"url": "http://x"}])
def test_a_node_that_runs_anything_is_listed(
    store: Store, clock: FakeClock, runs: dict[str, Any]
) -> None:
    one = replace(node("a", clock.now(), engine=False), **runs)
    store.report_node(one)
    assert store.nodes(clock.now()) == [one]


def test_listeners_are_not_told_of_nodes(store: Store, clock: FakeClock) -> None:
    told: list[object] = []
    store.watch(lambda queue, due_at: told.append((queue, due_at)))
    store.report_node(node("a", clock.now()))
    assert told == []


def test_nodes_that_report_at_once_are_all_kept(store: Store, clock: FakeClock) -> None:
    together(8, lambda number: store.report_node(node(str(number), clock.now())))
    assert len(store.nodes(clock.now())) == 8


def test_nodes_do_not_leave_with_the_jobs(store: Store, clock: FakeClock) -> None:
    store.report_node(node("a", clock.now()))
    assert store.export(None, 10).items == []
    assert store.queues() == []
