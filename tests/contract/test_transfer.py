"""Everything out of one store, everything into another."""

from __future__ import annotations

import pytest

from oncue.clock import FakeClock
from oncue.core import stamp
from oncue.core.dossier import Dossier
from oncue.core.errors import KeyTaken
from oncue.core.lifecycle import State, Verb
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore

from .board import Board, cron, cron_at, seconds
from .conftest import OpenStore
from .desk import DELIVERY, FLEETING, Desk, Q


def lived_in(desk: Desk) -> None:
    """One job of every kind: each state, each way to get there."""
    desk.add("waiting", due_in=60, owner="ada", key="k", priority=3, expires_at=desk.now + 99_000)
    desk.cancel(desk.add("cancelled"))
    desk.complete(desk.take("succeeded", max_attempts=5, timeout_seconds=9.0), b"[1]")
    desk.fail(desk.take("failed"))
    desk.retry(desk.take("retried"), due_at=desk.now + 100_000)
    desk.release(desk.take("released", due_in=-1))
    desk.settle(desk.retake("released"), Verb.RETRY, due_at=desk.now + 100_000, error="again")
    held = desk.take("executing")
    desk.touch(held, message="half", percent=50.0)
    desk.put_operation(held, "one", result=b"1")
    desk.put_operation(held, "two", "executing", percent=10.0)
    desk.request_cancel("executing")
    desk.clock.advance(30)
    desk.take("dispatched")
    desk.clock.advance(30)
    (lapse,) = desk.store.lapses(desk.now, 10)
    assert lapse.id == "executing"
    desk.reclaim(lapse, Verb.DROP)
    desk.complete(desk.take("remembered", queue=FLEETING, digest=b"d"), keep=False)
    desk.add("put-off", queue="d")
    desk.settle_range(desk.claim_range(DELIVERY), busy={"put-off": "busy"})
    desk.add("covered", queue="d")
    desk.claim_range(DELIVERY)


def all_of(store: Store, limit: int = 3) -> list[Dossier]:
    found: list[Dossier] = []
    after: str | None = None
    while True:
        export = store.export(after, limit)
        found += export.dossiers
        if export.next is None:
            return found
        after = export.next


@pytest.fixture
def house(desk: Desk) -> Desk:
    lived_in(desk)
    return desk


def test_everything_is_exported_once_page_by_page(house: Desk) -> None:
    ids = [dossier.job.id for dossier in all_of(house.store)]
    assert len(ids) == len(set(ids)) == 11
    assert all_of(house.store, 1) == all_of(house.store, 100)


def test_a_job_inside_a_range_claim_leaves_as_scheduled(house: Desk) -> None:
    (covered,) = [d for d in all_of(house.store) if d.job.id == "covered"]
    assert covered.job.state is State.SCHEDULED


def test_what_moved_is_as_it_was(house: Desk, open_store: OpenStore, clock: FakeClock) -> None:
    before = all_of(house.store)
    for target in (open_store(clock), MemoryStore(clock)):
        assert target.admit(before) == len(before)
        assert all_of(target) == before
        assert target.admit(before) == 0
        assert all_of(target) == before


def test_what_moved_out_of_memory_is_as_it_was(open_store: OpenStore, clock: FakeClock) -> None:
    source = Desk(MemoryStore(clock), clock)
    lived_in(source)
    target = open_store(clock)
    target.admit(all_of(source.store))
    assert [d.job for d in all_of(target)] == [d.job for d in all_of(source.store)]


def test_life_goes_on_after_the_move(house: Desk, open_store: OpenStore, clock: FakeClock) -> None:
    there = Desk(open_store(clock), clock)
    there.store.admit(all_of(house.store))
    assert there.cancel("waiting").refused is None
    dispatched = there.job("dispatched")
    (lapse,) = there.store.lapses(clock.now() + 60_000, 10)
    assert (lapse.id, lapse.epoch) == ("dispatched", dispatched.epoch)
    clock.advance(45)
    assert {claimed.id for claimed in there.claim(Q)} == {"retried", "released"}
    assert there.revive("failed").refused is None
    assert [c.attempt for c in there.claim(Q)] == [2]
    clash = there.store.insert([there.new("remembered", digest=b"d", queue="f")], clock.now())
    assert clash[0].kind == "existing"


def test_a_key_that_is_taken_there_is_not_taken_twice(
    house: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    there = Desk(open_store(clock), clock)
    there.add("mine", key="k")
    (waiting,) = [d for d in all_of(house.store) if d.job.id == "waiting"]
    with pytest.raises(KeyTaken, match="waiting"):
        there.store.admit([waiting])
    assert there.listed() == ["mine"]


def test_due_work_is_counted_by_step(desk: Desk) -> None:
    for due_in in (0, 1, 59, 60, 61, 200, 3_600):
        desk.add(due_in=due_in, priority=int(due_in) % 10)
    desk.add(queue="other", due_in=1)
    desk.cancel(desk.add(due_in=2))
    start = desk.now
    counts = desk.store.due_counts("q", start, start + 3_600_000, 60_000)
    assert counts == {start: 3, start + 60_000: 2, start + 180_000: 1}
    assert desk.store.due_counts("nothing", start, start + 1_000, 10) == {}


def test_a_job_that_a_rule_fired_keeps_its_rule_and_its_instant(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    board.rule(cron(), name="hourly")
    board.post(cron_at(1800.000001))
    [fired] = all_of(board.store)
    for other in (open_store(clock), MemoryStore(clock)):
        other.admit([fired])
        moved = other.get(fired.job.id)
        assert moved is not None
        assert (moved.rule, moved.instant) == ("hourly", stamp.to_datetime(seconds(1800.000001)))
        assert all_of(other) == [fired]
