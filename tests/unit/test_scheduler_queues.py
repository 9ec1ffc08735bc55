"""Whole queues, by way of the scheduler."""

from __future__ import annotations

import pytest

from oncue.core.errors import Conflict, InvalidInput, NotFound
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.queues import QueueDeletion
from oncue.stores.memory import MemoryStore
from oncue.testing import FakeClock, HandDriven
from oncue.usecases.queues import CHUNK


class BusyStore(MemoryStore):
    """Counts the parts of a deletion; `arrival` is the one before which a job arrives."""

    arrival: int | None = None
    parts = 0

    def delete_queue(self, name: str, now: Moment, limit: int) -> QueueDeletion:
        self.parts += 1
        if self.parts == self.arrival:
            self.insert([NewJob("arrived", name, now, b"{}", 0, now)], now)
        return super().delete_queue(name, now, limit)


def with_finished_jobs(number: int) -> tuple[HandDriven, BusyStore]:
    clock = FakeClock()
    store = BusyStore(clock)
    cue = HandDriven(store, clock=clock)
    cue.schedule_many({"queue": "mail", "delay": 60} for _ in range(number))
    cue.cancel_all(queue="mail")
    return cue, store


def test_many_finished_jobs_are_removed_in_parts_and_the_queue_is_gone() -> None:
    cue, store = with_finished_jobs(2 * CHUNK + 1)
    cue.set_queue("mail", max_attempts=9)
    cue.delete_queue("mail")
    assert store.parts == 3
    assert cue.queues() == []
    assert list(cue.jobs()) == []
    assert cue.queue("mail") == Queue("mail")
    assert cue.policies("mail") == Queue("mail")


def test_a_job_that_arrives_meanwhile_stops_the_deletion_and_is_not_lost() -> None:
    cue, store = with_finished_jobs(2 * CHUNK + 1)
    store.arrival = 2
    with pytest.raises(Conflict, match="unfinished jobs"):
        cue.delete_queue("mail")
    assert cue.job("arrived").queue == "mail"
    assert [queue.name for queue in cue.queues()] == ["mail"]


def test_an_unknown_or_impossible_queue_is_told_as_such() -> None:
    cue = HandDriven()
    with pytest.raises(NotFound, match="no queue 'mail'"):
        cue.delete_queue("mail")
    with pytest.raises(InvalidInput):
        cue.delete_queue("a b")
    with pytest.raises(Conflict, match="built in"):
        cue.delete_queue("tasks")
