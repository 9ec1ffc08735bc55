"""The end of a queue: when it may go, what goes with it, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncue.core.lifecycle import State
from oncue.core.queue import BUILT_IN, Queue
from oncue.core.schedule import Emission
from oncue.ports.store import Store
from oncue.usecases.queues import put_queue, set_paused
from tests.contract.pruning import forget
from tests.contract.recurring import delete_schedule

from .board import Board, table
from .desk import DELIVERY, Desk, Q
from .promises import Listening
from .test_schedules import put

DAY = 86_400


def names(store: Store) -> list[str]:
    return [queue.name for queue in store.queues()]


def delete(desk: Desk, name: str = "q", limit: int = 100) -> str:
    return desk.store.delete_queue(name, desk.now, limit).outcome


def why(desk: Desk, name: str = "q") -> str:
    deletion = desk.store.delete_queue(name, desk.now, 100)
    assert deletion.outcome == "kept"
    return deletion.why


def test_a_queue_goes_with_its_settings_and_finished_jobs_and_its_name_may_be_used_again(
    desk: Desk,
) -> None:
    put_queue(desk.store, Queue("q", max_attempts=9, rate_per_second=1))
    set_paused(desk.store, "q", True)
    set_paused(desk.store, "q", False)
    desk.complete(desk.take("done"))
    kept = desk.add(queue="other")
    assert delete(desk) == "deleted"
    assert names(desk.store) == ["other"]
    assert desk.listed() == [kept]
    assert delete(desk) == "unknown"
    desk.add_many(2)
    assert names(desk.store) == ["other", "q"]
    assert next(one for one in desk.store.queues() if one.name == "q") == Queue("q")
    assert len(desk.claim(Q)) == 2, "it has no rate any more"


def test_a_queue_that_was_only_set_can_be_deleted_and_an_unknown_one_cannot(desk: Desk) -> None:
    put_queue(desk.store, Queue("q"))
    assert delete(desk, "other") == "unknown"
    assert delete(desk) == "deleted"
    assert names(desk.store) == []


def take(desk: Desk) -> None:
    desk.take()


def start(desk: Desk) -> None:
    desk.touch(desk.take())


def wait(desk: Desk) -> None:
    desk.add(due_in=60)


@pytest.mark.parametrize("unfinished", [wait, take, start])
def test_a_queue_with_unfinished_jobs_stays_as_it_is(
    desk: Desk, unfinished: Callable[[Desk], None]
) -> None:
    desk.complete(desk.take("done"))
    unfinished(desk)
    assert "unfinished jobs" in why(desk)
    assert desk.state("done") is State.SUCCEEDED
    assert names(desk.store) == ["q"]


def test_a_queue_whose_jobs_are_being_delivered_stays(desk: Desk) -> None:
    desk.add(queue="d")
    claim = desk.claim_range()
    assert "unfinished jobs" in why(desk, "d")
    assert desk.settle_range(claim)
    assert delete(desk, "d") == "deleted"


def test_a_deleted_queue_is_never_due_though_a_dispatcher_still_holds_it(desk: Desk) -> None:
    desk.add(queue="d")
    assert desk.settle_range(desk.claim_range(), left=1)
    assert delete(desk, "d") == "deleted"
    assert desk.store.next_due(["d"]) is None


def test_a_queue_that_a_schedule_names_stays(desk: Desk) -> None:
    put_queue(desk.store, Queue("q"))
    seen = put(desk, "nightly")
    assert "schedule 'nightly'" in why(desk)
    assert delete_schedule(desk.store, seen, desk.now)
    put(desk, "other", emits=Emission("FILE", "/a/b"))
    assert delete(desk) == "deleted", "what only emits events makes no jobs"


def test_a_queue_that_a_rule_names_stays(desk: Desk, board: Board) -> None:
    put_queue(desk.store, Queue("q"))
    board.rule(table("t", 0), name="hourly", queue="q")
    assert "rule 'hourly'" in why(desk)
    desk.store.delete_rule("hourly")
    assert delete(desk) == "deleted"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_queue_stays_whether_it_was_used_or_not(desk: Desk, name: str) -> None:
    assert "built in" in why(desk, name)
    put_queue(desk.store, Queue(name))
    assert "built in" in why(desk, name)


def test_finished_jobs_are_removed_in_parts(desk: Desk) -> None:
    for _ in range(5):
        desk.complete(desk.take())
    assert delete(desk, limit=2) == "more"
    assert len(desk.listed()) == 3
    assert names(desk.store) == ["q"]
    assert delete(desk, limit=2) == "more"
    assert delete(desk, limit=2) == "deleted"


def test_a_job_that_arrives_between_two_parts_stops_the_deletion_and_is_not_lost(
    desk: Desk,
) -> None:
    for _ in range(3):
        desk.complete(desk.take())
    assert delete(desk, limit=2) == "more"
    arrived = desk.add()
    assert "unfinished jobs" in why(desk)
    assert desk.claimed_ids(Q) == [arrived]
    assert names(desk.store) == ["q"]


def test_ids_chosen_by_clients_are_remembered_for_their_day_and_then_forgotten(desk: Desk) -> None:
    new = desk.new("mine", digest=b"d")
    desk.insert([new])
    desk.complete(desk.retake("mine"))
    assert delete(desk) == "deleted"
    assert desk.store.get("mine") is None
    for repeated in ([new], [new, new]):
        assert desk.insert(repeated)[0].kind == "existing"
    assert desk.listed() == []
    assert names(desk.store) == [], "nothing was created, so it is not there again"
    desk.clock.advance(DAY + 1)
    forget(desk.store, desk.now)
    other = new._replace(digest=b"e")
    assert desk.insert([other]) == {}


def test_another_node_that_knew_the_queue_makes_it_again_with_its_next_job(
    desk: Desk, twin: Store
) -> None:
    twin.insert([desk.new("one")], desk.now)
    twin.insert([desk.new("two")], desk.now)
    for claimed in desk.claim():
        desk.complete(claimed)
    assert delete(desk) == "deleted"
    twin.insert([desk.new("three")], desk.now)
    assert names(twin) == ["q"]
    assert names(desk.store) == ["q"]


def test_a_dispatcher_of_the_deleted_queue_cannot_settle_for_the_new_one(desk: Desk) -> None:
    desk.add("old", queue="d")
    stale = desk.claim_range(dispatcher="dora")
    desk.clock.advance(61)
    taken_over = desk.claim_range(dispatcher="dan")
    assert desk.settle_range(taken_over)
    assert delete(desk, "d") == "deleted"
    desk.add("new", queue="d")
    assert desk.claim_range(DELIVERY, "dan").jobs
    assert not desk.settle_range(stale._replace(jobs=()), ["new"])
    assert desk.state("new") is State.DISPATCHED


def test_the_end_of_a_queue_is_told_to_listeners(desk: Desk) -> None:
    put_queue(desk.store, Queue("q"))
    listening = Listening(desk.store)
    assert delete(desk) == "deleted"
    assert listening.has_heard_of_settings()
