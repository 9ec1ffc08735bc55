"""Everything out of one store, everything into another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncue.clock import FakeClock
from oncue.core import stamp
from oncue.core.dumped import DumpedEvent
from oncue.core.errors import EventIdTaken, KeyTaken
from oncue.core.fencing import Refused
from oncue.core.lifecycle import State, Verb
from oncue.core.standing import Sightings
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore

from .board import Board, cron, cron_at, decisions, file, file_at, seconds, table, table_at
from .conftest import OpenStore
from .desk import DELIVERY, FLEETING, Desk, Q, lapses_by
from .promises import every, exported


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
    (lapse,) = desk.lapses(10)
    assert lapse.id == "executing"
    desk.reclaim(lapse, Verb.DROP)
    desk.complete(desk.take("remembered", queue=FLEETING, digest=b"d"))
    desk.add("put-off", queue="d")
    desk.settle_range(desk.claim_range(DELIVERY), busy={"put-off": "busy"})
    desk.add("covered", queue="d")
    desk.claim_range(DELIVERY)


@pytest.fixture
def house(desk: Desk) -> Desk:
    lived_in(desk)
    return desk


def test_what_is_gone_is_not_exported(desk: Desk) -> None:
    desk.complete(desk.take(queue=FLEETING))
    desk.complete(desk.take("remembered", queue=FLEETING, digest=b"d"))
    desk.fail(desk.take(queue=FLEETING))
    assert [dumped.job.id for dumped in exported(desk.store, 3)] == ["remembered"]


def test_everything_is_exported_once_page_by_page(house: Desk) -> None:
    ids = [dumped.job.id for dumped in exported(house.store, 3)]
    assert len(ids) == len(set(ids)) == 11
    assert exported(house.store, 1) == exported(house.store, 100)


def test_a_job_that_is_taken_while_an_export_goes_on_is_in_it(desk: Desk) -> None:
    """As it was before or after."""
    ids = {desk.add(due_in=n) for n in range(8)}
    desk.clock.advance(8)
    found: list[str] = []
    page = desk.store.export(None, 1)
    while True:
        found += (dumped.job.id for dumped in page.items)
        desk.claim(limit=1)
        if page.next is None:
            break
        page = desk.store.export(page.next, 1)
    assert set(found) == ids


def test_a_job_inside_a_range_claim_leaves_as_scheduled(house: Desk) -> None:
    (covered,) = [d for d in exported(house.store, 3) if d.job.id == "covered"]
    assert covered.job.state is State.SCHEDULED


def test_what_moved_is_as_it_was(house: Desk, open_store: OpenStore, clock: FakeClock) -> None:
    before = exported(house.store, 3)
    for target in (open_store(clock), MemoryStore(clock)):
        assert target.admit(before) == len(before)
        assert exported(target) == before
        assert target.admit(before) == 0
        assert exported(target) == before


def test_what_moved_out_of_memory_is_as_it_was(open_store: OpenStore, clock: FakeClock) -> None:
    source = Desk(MemoryStore(clock), clock)
    lived_in(source)
    target = open_store(clock)
    target.admit(exported(source.store))
    assert [d.job for d in exported(target)] == [d.job for d in exported(source.store)]


def test_life_goes_on_after_the_move(house: Desk, open_store: OpenStore, clock: FakeClock) -> None:
    there = Desk(open_store(clock), clock)
    there.store.admit(exported(house.store, 3))
    assert there.cancel("waiting").refused is None
    dispatched = there.job("dispatched")
    (lapse,) = lapses_by(there.store, clock.now() + 60_000)
    assert (lapse.id, lapse.epoch) == ("dispatched", dispatched.epoch)
    clock.advance(45)
    assert {claimed.id for claimed in there.claim(Q)} == {"retried", "released"}
    assert there.revive("failed").refused is None
    assert [c.attempt for c in there.claim(Q)] == [2]
    clash = there.insert([there.new("remembered", digest=b"d", queue="f")])
    assert clash[0].kind == "existing"


def test_a_late_write_is_refused_and_recorded_as_it_would_have_been(
    desk: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    completed, failed = desk.take(), desk.take()
    desk.complete(completed)
    desk.retry(failed, due_at=desk.now + 1000)
    before = [desk.touch(claimed) for claimed in (completed, failed)]
    for target in (open_store(clock), MemoryStore(clock)):
        target.admit(exported(desk.store))
        there = Desk(target, clock)
        assert [there.touch(claimed) for claimed in (completed, failed)] == before
        assert there.codes(completed.id) == ["fenced"]
        assert there.codes(failed.id) == ["failure", "fenced"]


def test_a_late_write_is_told_how_its_claim_ended_though_a_sink_took_the_job_since(
    desk: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    released = desk.take(queue=DELIVERY)
    desk.release(released)
    assert desk.settle_range(desk.claim_range())
    for target in (open_store(clock), MemoryStore(clock)):
        target.admit(exported(desk.store))
        refused = target.interruptions([(released.id, released.epoch)])
        assert refused == {0: Refused("released", State.SUCCEEDED)}


def test_a_key_that_is_taken_there_is_not_taken_twice(
    house: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    there = Desk(open_store(clock), clock)
    there.add("mine", key="k")
    (waiting,) = [d for d in exported(house.store, 3) if d.job.id == "waiting"]
    with pytest.raises(KeyTaken, match="waiting"):
        there.store.admit([waiting])
    assert there.listed() == ["mine"]


@pytest.mark.needs("counts")
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
    [fired] = exported(board.store)
    for other in (open_store(clock), MemoryStore(clock)):
        other.admit([fired])
        moved = other.get(fired.job.id)
        assert moved is not None
        assert (moved.rule, moved.instant) == ("hourly", stamp.to_datetime(seconds(1800.000001)))
        assert exported(other) == [fired]


# -- rules and events ------------------------------------------------------------------------------


def busy(board: Board) -> None:
    """Rules with accepted, stale, too late and repeated events, and some that nobody waits for."""
    board.rule(file("/in/", 60), cron(), name="hourly", payload_json=b'{"a": 1}')
    board.rule(table("orders", 3600), cron(3600), name="half met", enabled=False)
    board.rule(file("/in/a", 60), table("gone", 60), name="changed")
    board.post_all(file_at(0), file_at(0, "/in/b"), cron_at(30), table_at(40, "gone"))
    board.post_all(cron_at(30), cron_at(20), cron_at(20), table_at(50, "nobody"))
    board.rule(file("/in/a", 60), name="changed")
    board.post_all(file_at(3000), table_at(4000, "orders"))


def events_of(store: Store, limit: int = 3) -> list[DumpedEvent]:
    return every(store.export_events, limit)


def rules_of(store: Store) -> list[Sightings]:
    found = [store.sightings(rule.name, 0) for rule in store.rules(None, 100)]
    return [one for one in found if one is not None]


def moved(source: Store, target: Store) -> int:
    return target.admit_rules(rules_of(source), events_of(source))


@pytest.mark.needs("all-events")
def test_events_are_exported_once_in_the_order_of_arrival(board: Board) -> None:
    busy(board)
    found = events_of(board.store)
    assert [one.logged for one in found] == board.log()[::-1]
    assert events_of(board.store, 1) == events_of(board.store, 100) == found
    assert events_of(board.store, len(found)) == found


def test_a_dependency_that_went_takes_its_accepted_events_with_it(board: Board) -> None:
    busy(board)
    [one] = [one for one in events_of(board.store) if one.logged.event == table_at(40, "gone")]
    assert (decisions(one.logged), one.accepted) == (["ACCEPTED"], ())


def test_rules_and_events_that_moved_are_as_they_were(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    busy(board)
    for target in (open_store(clock), MemoryStore(clock)):
        assert moved(board.store, target) == len(events_of(board.store))
        assert rules_of(target) == rules_of(board.store)
        assert events_of(target) == events_of(board.store)
        assert moved(board.store, target) == 0
        assert events_of(target) == events_of(board.store)


def test_rules_and_events_move_out_of_memory_and_back(
    open_store: OpenStore, clock: FakeClock
) -> None:
    source, through, back = MemoryStore(clock), open_store(clock), MemoryStore(clock)
    busy(Board(source, clock))
    moved(source, through)
    moved(through, back)
    assert rules_of(back) == rules_of(through) == rules_of(source)
    assert events_of(back) == events_of(through) == events_of(source)


def test_a_rule_goes_on_after_the_move_as_it_would_have(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    busy(board)
    there = Board(open_store(clock), clock)
    moved(board.store, there.store)
    for one in (board, there):
        one.rule(table("orders", 3600), cron(3600), name="half met")
        assert decisions(one.post(cron_at(30))) == ["DUPLICATE", "DUPLICATE"]
        assert decisions(one.post(cron_at(25))) == ["ACCEPTED", "STALE"]
        assert [job.rule for job in one.post(cron_at(3010)).jobs] == ["half met", "hourly"]
        assert [job.rule for job in one.post(file_at(3020)).jobs] == ["changed"]
        assert one.validities(4000, "half met") == ["MET", "MET"]
        one.prune()
    assert [one.logged.event for one in events_of(there.store)] == [
        one.logged.event for one in events_of(board.store)
    ]


def test_what_is_there_is_left_alone_and_others_decisions_are_not_taken(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    busy(board)
    there = Board(open_store(clock), clock)
    there.rule(cron(), name="hourly")
    there.post(cron_at(30))
    admitted = moved(board.store, there.store)
    assert admitted == len(events_of(board.store)) - 1
    assert [one.event for one in there.log(rule="hourly")][-1] == cron_at(30)
    [hourly] = [one.rule for one in rules_of(there.store) if one.rule.name == "hourly"]
    assert hourly.dependencies == (cron(),)


@pytest.mark.needs("all-events")
def test_an_id_that_belongs_to_another_event_is_refused(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    board.post(cron_at(1, event_id="mine"))
    there = Board(open_store(clock), clock)
    there.post(cron_at(2, event_id="mine"))
    with pytest.raises(EventIdTaken, match="mine"):
        moved(board.store, there.store)
    assert [one.event for one in there.log()] == [cron_at(2, event_id="mine")]


def test_other_ids_of_an_event_come_with_it(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    board.rule(cron(3600), name="hourly")
    for event_id in ("mine", "b", "a"):
        board.post(cron_at(1, event_id=event_id))
    there = Board(open_store(clock), clock)
    assert moved(board.store, there.store) == 1
    assert moved(board.store, there.store) == 0
    [dumped] = events_of(there.store)
    assert (dumped.logged.event.id, sorted(dumped.other_ids)) == ("mine", ["a", "b"])
    with pytest.raises(EventIdTaken, match="'a'"):
        there.post(cron_at(2, event_id="a"))


def test_another_id_that_belongs_to_another_event_is_refused(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    board.rule(cron(3600), name="hourly")
    for event_id in ("mine", "also mine"):
        board.post(cron_at(1, event_id=event_id))
    there = Board(open_store(clock), clock)
    there.rule(cron(3600), name="hourly")
    there.post(cron_at(2, event_id="also mine"))
    with pytest.raises(EventIdTaken, match="'also mine'"):
        moved(board.store, there.store)
    [kept] = events_of(there.store)
    assert kept.logged.event == cron_at(2, event_id="also mine")


def test_an_id_that_belongs_to_two_events_is_refused_before_anything_is_stored(
    board: Board, open_store: OpenStore, clock: FakeClock
) -> None:
    board.rule(cron(3600), name="hourly")
    board.post_all(cron_at(1), cron_at(2, event_id="twice"))
    once, twice = events_of(board.store)
    other = replace(twice.logged, event=cron_at(3, event_id="twice"))
    for target in (open_store(clock), MemoryStore(clock)):
        with pytest.raises(EventIdTaken, match="nothing was stored"):
            target.admit_rules(rules_of(board.store), [once, twice, DumpedEvent(other)])
        assert (rules_of(target), events_of(target)) == ([], [])
