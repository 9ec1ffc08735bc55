"""Any number of nodes on the same schedules: every occurrence becomes one job."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import Conflict
from oncue.core.recurrence import Fate, begun
from oncue.core.schedule import Schedule, check_schedule, occurrence_id
from oncue.engine.node import Node
from oncue.engine.recurrer import Recurrer
from oncue.ports.store import Store
from tests.contract.recurring import put_schedule

from .conftest import OpenAnother
from .desk import Desk, together

MINUTES = 20


@pytest.fixture
def nodes(store: Store, another: OpenAnother) -> list[Store]:
    """Four nodes on the same data."""
    return [store, *(another() for _ in range(3))]


def put(desk: Desk, name: str, cron: str = "* * * * *") -> None:
    wanted = check_schedule(Schedule(name, cron=cron, queue="q", catch_up="all"))  # type: ignore[arg-type]
    assert put_schedule(desk.store, None, begun(wanted, desk.now), desk.now) is not None


def work_off(recurrer: Recurrer) -> None:
    while recurrer.step() == 0.0:
        continue


def test_every_occurrence_becomes_one_job_however_many_nodes_make_them(
    desk: Desk, nodes: list[Store]
) -> None:
    names = [f"s{n}" for n in range(10)]
    for name in names:
        put(desk, name)
    desk.clock.advance(MINUTES * 60)
    recurrers = [Recurrer(Node.of(node, desk.clock)) for node in nodes]
    together(len(nodes), lambda n: work_off(recurrers[n]))
    made = Counter(
        (job.schedule, job.due_at) for job in (desk.job(job_id) for job_id in desk.listed())
    )
    assert set(made.values()) == {1}
    per_schedule = Counter(schedule for schedule, _ in made)
    assert set(per_schedule) == set(names)
    assert set(per_schedule.values()) == {MINUTES}
    for name in names:
        fates = [one.fate for one in desk.store.outcomes(name)]
        assert fates == [Fate.CREATED] * MINUTES


def test_a_node_that_dies_between_deciding_and_storing_loses_nothing(
    desk: Desk, nodes: list[Store]
) -> None:
    put(desk, "s")
    desk.clock.advance(60)
    dying, living = Recurrer(Node.of(nodes[0], desk.clock)), Recurrer(Node.of(nodes[1], desk.clock))
    [seen] = nodes[0].waking(desk.now, 10)
    [left_in_hand] = dying.decide([seen], desk.now)
    work_off(living)
    assert list(nodes[0].advance([left_in_hand], desk.now)) == [0]
    assert len(desk.listed()) == 1


def test_a_clock_that_is_set_back_makes_nothing_twice(desk: Desk) -> None:
    put(desk, "s")
    recurrer = Recurrer(Node.of(desk.store, desk.clock))
    desk.clock.advance(600)
    work_off(recurrer)
    before = desk.listed()
    desk.clock.set(desk.now - 3_600_000)
    work_off(recurrer)
    assert desk.listed() == before
    desk.clock.set(desk.now + 3_600_000 + 60_000)
    work_off(recurrer)
    assert len(desk.listed()) == len(before) + 1


def test_nodes_whose_clocks_differ_make_every_occurrence_once(
    desk: Desk, nodes: list[Store]
) -> None:
    put(desk, "s")
    clocks = [FakeClock(desk.now + offset) for offset in (0, 300_000, -300_000)]
    recurrers = [
        Recurrer(Node.of(node, clock)) for node, clock in zip(nodes[:3], clocks, strict=True)
    ]
    for _ in range(30):
        for clock, recurrer in zip(clocks, recurrers, strict=True):
            clock.advance(30)
            work_off(recurrer)
    dues = [desk.job(job_id).due_at for job_id in desk.listed()]
    assert len(dues) == len(set(dues))
    assert len(dues) == 20


def test_changes_made_at_the_same_time_are_all_made_one_after_the_other(
    desk: Desk, nodes: list[Store]
) -> None:
    put(desk, "s")
    recurrers = [Recurrer(Node.of(node, desk.clock)) for node in nodes]
    desk.clock.advance(61)

    def change(n: int) -> Schedule:
        def signed(seen: Schedule | None) -> Schedule:
            assert seen is not None
            return replace(seen, owner=f"{seen.owner or ''}{n}")

        return recurrers[n].change("s", signed)

    together(len(nodes), change)
    final = desk.store.schedule("s")
    assert final is not None
    assert sorted(final.owner or "") == ["0", "1", "2", "3"]
    work_off(recurrers[0])
    assert desk.listed().count(occurrence_id("s", desk.now - 1000)) == 1


def test_a_change_that_never_comes_through_says_so(desk: Desk) -> None:
    put(desk, "s")
    recurrer = Recurrer(Node.of(desk.store, desk.clock))

    def meddle(seen: Schedule | None) -> Schedule:
        assert seen is not None
        other = replace(seen, owner=f"{seen.owner}x")
        assert put_schedule(desk.store, seen, other, desk.now) is not None
        return check_schedule(Schedule("s", cron="0 * * * *"))

    with pytest.raises(Conflict, match="changed by others"):
        recurrer.change("s", meddle)
