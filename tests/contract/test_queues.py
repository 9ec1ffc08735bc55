"""Queues: settings, pause, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncue.core.lifecycle import State
from oncue.core.queue import Queue, RetryPolicy, default_queue

from .desk import DELIVERY, Desk


def counted(counts: Mapping[State, int]) -> dict[State, int]:
    return {state: number for state, number in counts.items() if number}


def test_a_store_begins_without_queues(desk: Desk) -> None:
    assert desk.store.queues() == []


def test_a_queue_comes_back_as_it_was_put(desk: Desk) -> None:
    whole = Queue(
        "whole",
        sink="https://example.com/hook?a=1",
        completion="worker",
        max_attempts=7,
        retry=RetryPolicy(0.5, 3.0, 10.0),
        lease_seconds=12.5,
        timeout_seconds=99.5,
        rate_per_second=0.1,
        concurrency=100_000,
        poison_after=100,
        retention_seconds=None,
    )
    plain = Queue("plain")
    fleeting = Queue("fleeting", retention_seconds=0)
    for queue in (whole, plain, fleeting):
        desk.store.put_queue(queue)
    assert desk.store.queues() == [fleeting, plain, whole]
    desk.store.put_queue(Queue("whole"))
    assert desk.store.queues() == [fleeting, plain, Queue("whole")]


def test_a_queue_that_holds_a_job_is_there_with_the_usual_settings(desk: Desk) -> None:
    desk.add(queue="b")
    desk.add(queue="a")
    desk.store.put_queue(Queue("c"))
    assert desk.store.queues() == [Queue("a"), Queue("b"), Queue("c")]


def test_a_queue_stays_when_its_last_job_is_gone(desk: Desk) -> None:
    desk.cancel(desk.add(queue="a"))
    desk.clock.advance(1)
    assert desk.store.prune("a", desk.now, desk.now, 10) == 1
    assert desk.store.queues() == [Queue("a")]
    assert desk.store.delete_queue("a", desk.now, 10).outcome == "deleted"
    assert desk.store.queues() == []


def test_a_built_in_queue_has_settings_of_its_own_until_it_is_set(desk: Desk) -> None:
    desk.add(queue="tasks")
    desk.store.set_paused("rules", True)
    rules, tasks = desk.store.queues()
    assert tasks == default_queue("tasks") != Queue("tasks")
    assert rules == replace(default_queue("rules"), paused=True)
    for queue in (Queue("tasks"), Queue("rules")):
        desk.store.put_queue(queue)
    assert desk.store.queues() == [Queue("rules", paused=True), Queue("tasks")]


def test_pausing_is_not_a_setting(desk: Desk) -> None:
    desk.store.put_queue(Queue("q", paused=True))
    assert desk.store.queues() == [Queue("q")]
    desk.store.set_paused("q", True)
    desk.store.put_queue(Queue("q", max_attempts=5, paused=False))
    assert desk.store.queues() == [Queue("q", max_attempts=5, paused=True)]
    desk.store.set_paused("q", False)
    assert desk.store.queues() == [Queue("q", max_attempts=5)]


def test_a_queue_can_be_paused_before_it_holds_anything(desk: Desk) -> None:
    desk.store.set_paused("q", True)
    desk.add()
    assert desk.claim() == []
    assert desk.store.queues() == [Queue("q", paused=True)]


def test_the_counts_are_those_of_the_queue_alone(desk: Desk) -> None:
    assert counted(desk.store.stats("q").counts) == {}
    assert desk.store.stats("q").oldest_due_at is None
    desk.add_many(8)
    desk.add(due_in=60)
    desk.add(queue="other")
    claims = desk.claim(limit=7)
    desk.touch(claims[0])
    desk.complete(claims[1])
    desk.complete(claims[2])
    desk.fail(claims[3])
    desk.drop(claims[4])
    desk.release(claims[5])
    assert counted(desk.store.stats("q").counts) == {
        State.SCHEDULED: 3,
        State.DISPATCHED: 1,
        State.EXECUTING: 1,
        State.SUCCEEDED: 2,
        State.FAILED: 1,
        State.CANCELLED: 1,
    }
    assert counted(desk.store.stats("other").counts) == {State.SCHEDULED: 1}


def test_the_oldest_due_time_is_that_of_waiting_jobs(desk: Desk) -> None:
    desk.add(due_in=-9)
    desk.claim(limit=1)
    desk.add(due_in=-5, priority=0)
    desk.add(due_in=-3, priority=9)
    assert desk.store.stats("q").oldest_due_at == desk.now - 5_000


def test_jobs_inside_an_open_range_are_counted_as_dispatched(desk: Desk) -> None:
    desk.add_many(2, queue="d", due_in=-1)
    waiting = desk.add(queue="d", due_in=-0.5)
    claim = desk.claim_range(limit=2)
    stats = desk.store.stats("d")
    assert counted(stats.counts) == {State.DISPATCHED: 2, State.SCHEDULED: 1}
    assert stats.oldest_due_at == desk.now - 500
    desk.settle_range(claim, [])
    assert counted(desk.store.stats("d").counts) == {State.SCHEDULED: 3}
    desk.cancel(waiting)
    assert desk.store.stats(DELIVERY.name).oldest_due_at == desk.now - 1_000
