"""The end of a queue: jobs that arrive just then, items that are no jobs, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncue.core.lifecycle import State
from oncue.core.moment import LATEST
from oncue.core.queue import Queue
from oncue.core.retention import Retention
from oncue_bench.dynamodb.wrapped import Call
from tests.stores.dynamodb.rig import Node, Rig
from tests.stores.dynamodb.steps import Interruption

MAIL = Queue("mail", max_attempts=9)


@pytest.fixture
def rig(client: Any) -> Iterator[Rig]:
    rig = Rig(client, queues=[MAIL])
    yield rig
    rig.close()


def delete(node: Node, limit: int = 100) -> str:
    return node.store.delete_queue("mail", node.desk.now, limit).outcome


def names(rig: Rig) -> list[str]:
    return [queue.name for queue in rig.calm.store.queues()]


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
@pytest.mark.parametrize("hours", [0, 2])
def test_a_job_of_one_who_does_not_know_of_the_deletion_is_found_whenever_somebody_looks(
    rig: Rig, name: str | None, hours: int
) -> None:
    here = rig.node()
    assert here.desk.complete(here.desk.take(queue=MAIL)) is None
    assert delete(rig.node()) == "deleted"
    job_id = here.desk.add(name, queue="mail")
    rig.clock.advance(hours * 3600)
    assert names(rig) == ["mail"]
    assert rig.calm.desk.claimed_ids(MAIL) == [job_id]


def test_a_queue_that_was_deleted_long_ago_is_looked_at_once_more_and_no_more(rig: Rig) -> None:
    node = rig.node()
    assert delete(node) == "deleted"
    rig.clock.advance(2 * 3600)
    assert node.store.queues() == []
    looked: list[str] = []
    node.client.before = lambda call: looked.append(_partition(call))
    assert node.store.queues() == []
    assert looked == ["q"]


def _partition(call: Call) -> str:
    return str(call.kwargs["ExpressionAttributeValues"][":pk"]["S"])


def test_a_queue_is_there_again_when_a_job_goes_back_to_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index was late: who deleted the queue did not see that a worker had a job of it."""
    here, there = rig.node(), rig.node()
    claimed = here.desk.take(queue=MAIL)
    monkeypatch.setattr(there.store, "_live_jobs", lambda: iter(()))
    assert delete(there) == "deleted"
    rig.clock.advance(2 * 3600)
    assert names(rig) == []
    assert here.desk.retry(claimed) is None
    assert names(rig) == ["mail"]


class Died(BaseException):
    """The process was killed."""


def test_an_item_that_a_crash_left_behind_does_not_keep_a_queue(rig: Rig) -> None:
    def die() -> None:
        raise Died

    node = rig.node()
    job_id = node.desk.add(queue="mail", due_in=3600)
    node.client.before = Interruption(1, die, {"batch_write_item"})
    with pytest.raises(Died):
        node.desk.cancel(job_id)
    assert rig.calm.desk.state(job_id) is State.CANCELLED
    assert len(rig.line("mail")) == 1
    assert delete(rig.calm) == "deleted"
    assert rig.line("mail") == []
    assert names(rig) == []


@pytest.mark.parametrize("how", ["delete", "prune"])
def test_finished_jobs_are_looked_for_as_many_as_are_removed_however_many_shards(
    rig: Rig, how: str
) -> None:
    node, wanted = rig.node(), 0

    def count(call: Call) -> None:
        nonlocal wanted
        if call.kwargs.get("IndexName") and _partition(call).startswith("f#"):
            wanted += call.kwargs["Limit"]

    rig.calm.desk.set(Queue("mail", shards=20))
    rig.calm.desk.add_many(100, queue="mail")
    for claimed in rig.calm.desk.claim(MAIL):
        rig.calm.desk.complete(claimed)
    node.client.before = count
    if how == "delete":
        assert delete(node, limit=60) == "more"
    else:
        assert node.store.prune(Retention({"mail": LATEST}), node.desk.now, 60).more
    assert wanted < 300
    assert len(rig.calm.desk.listed(queue="mail")) == 40
