"""Queues: settings, pause, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.lifecycle import State
from oncue.core.queue import Queue, RetryPolicy, default_queue
from oncue.usecases.queues import put_queue, set_paused
from tests.contract.pruning import prune

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
        put_queue(desk.store, queue)
    assert desk.store.queues() == [fleeting, plain, whole]
    put_queue(desk.store, Queue("whole"))
    assert desk.store.queues() == [fleeting, plain, Queue("whole")]


def test_a_queue_that_holds_a_job_is_there_with_the_usual_settings(desk: Desk) -> None:
    desk.add(queue="b")
    desk.add(queue="a")
    put_queue(desk.store, Queue("c"))
    assert desk.store.queues() == [Queue("a"), Queue("b"), Queue("c")]


def test_a_queue_stays_when_its_last_job_is_gone(desk: Desk) -> None:
    desk.cancel(desk.add(queue="a"))
    desk.clock.advance(1)
    assert prune(desk.store, "a", desk.now, desk.now, 10) == 1
    assert desk.store.queues() == [Queue("a")]
    assert desk.store.delete_queue("a", desk.now, 10).outcome == "deleted"
    assert desk.store.queues() == []


def test_a_queue_into_which_nothing_could_be_moved_is_not_there(desk: Desk) -> None:
    ended = desk.add(queue="a")
    desk.cancel(ended)
    move = JobChange(ChangeVerb.MOVE, queue="b")
    assert desk.store.change([ended], move, desk.now).refused
    assert desk.store.queues() == [Queue("a")]


def test_a_built_in_queue_has_settings_of_its_own_until_it_is_set(desk: Desk) -> None:
    desk.add(queue="tasks")
    set_paused(desk.store, "rules", True)
    rules, tasks = desk.store.queues()
    assert tasks == default_queue("tasks") != Queue("tasks")
    assert rules == replace(default_queue("rules"), paused=True)
    for queue in (Queue("tasks"), Queue("rules")):
        put_queue(desk.store, queue)
    assert desk.store.queues() == [Queue("rules", paused=True), Queue("tasks")]


def test_a_queue_that_has_changed_since_it_was_seen_is_left_alone(desk: Desk) -> None:
    q, longer, paused = Queue("q"), Queue("q", max_attempts=5), Queue("q", paused=True)
    assert not desk.store.put_queue(q, longer)  # it is not there yet
    assert desk.store.put_queue(None, paused)
    assert not desk.store.put_queue(None, longer)
    assert not desk.store.put_queue(q, longer)
    assert desk.store.queues() == [paused]
    assert desk.store.put_queue(paused, longer)
    assert desk.store.queues() == [longer]


def test_pausing_is_not_a_setting(desk: Desk) -> None:
    put_queue(desk.store, Queue("q", paused=True))
    assert desk.store.queues() == [Queue("q")]
    set_paused(desk.store, "q", True)
    put_queue(desk.store, Queue("q", max_attempts=5, paused=False))
    assert desk.store.queues() == [Queue("q", max_attempts=5, paused=True)]
    set_paused(desk.store, "q", False)
    assert desk.store.queues() == [Queue("q", max_attempts=5)]


def test_a_queue_can_be_paused_before_it_holds_anything(desk: Desk) -> None:
    set_paused(desk.store, "q", True)
    desk.add()
    assert desk.claim() == []
    assert desk.store.queues() == [Queue("q", paused=True)]


@pytest.mark.needs("counts")
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


@pytest.mark.needs("counts")
def test_the_oldest_due_time_is_that_of_waiting_jobs(desk: Desk) -> None:
    desk.add(due_in=-9)
    desk.claim(limit=1)
    desk.add(due_in=-5, priority=0)
    desk.add(due_in=-3, priority=9)
    assert desk.store.stats("q").oldest_due_at == desk.now - 5_000


@pytest.mark.needs("counts")
@pytest.mark.one_shard
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
