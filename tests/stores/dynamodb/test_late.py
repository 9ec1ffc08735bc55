"""What comes late: requests that were given up, the deletion of items past their time, reads that
see half of a transaction, and nodes that do not know of the latest settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from oncue.core.errors import StoreUnavailable
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.known import REMEMBERED_SECONDS
from oncue_bench.dynamodb import statements
from tests.contract.board import RULE, Board, cron, cron_at
from tests.contract.changing import CANCEL, Amendment, amend
from tests.proof.plan import Fault
from tests.stores.dynamodb.rig import Node, Rig

SENT = Queue("sent", sink="log:")
FLEETING = Queue("fleeting", sink="log:", retention_seconds=0)
PULLED = Queue("pulled")
DAY = 86_400


@pytest.fixture
def rig(client: Any) -> Iterator[Rig]:
    rig = Rig(client, queues=[SENT, FLEETING, PULLED])
    yield rig
    rig.close()


def late(rig: Rig, *methods: str) -> Node:
    """A node whose first such request gets no answer, and arrives when the test says so."""
    faults = {Fault.LATE: 1.0}
    return rig.node(faults, only=methods, first_n=1, late_calls=None)


def test_a_put_that_arrives_after_the_job_was_delivered_brings_nothing_back(rig: Rig) -> None:
    """The store tries again, and that succeeds; the first request arrives much later."""
    job_id = late(rig, "batch_write_item").desk.add(queue="sent")
    desk = rig.calm.desk
    assert desk.settle_range(desk.claim_range(SENT))
    assert rig.line("sent") == []
    rig.clock.advance(DAY / 2)
    rig.world.arrive()
    assert len(rig.line("sent")) == 1
    assert not desk.claim_range(SENT).jobs
    assert desk.claim(SENT) == []
    assert rig.line("sent") == []
    assert desk.state(job_id) is State.SUCCEEDED


def test_of_a_plain_job_that_is_not_kept_a_late_put_is_a_second_delivery_that_can_be_told(
    rig: Rig,
) -> None:
    """Nothing is left that could refuse it: that is the price of two units. It has the id and the
    attempt of the first delivery, and it comes once."""
    job_id = late(rig, "batch_write_item").desk.add(queue="fleeting")
    desk, sent = rig.calm.desk, list[tuple[str, int]]()
    for _ in range(3):
        claim = desk.claim_range(FLEETING)
        sent += [(job.id, job.attempt) for job in claim.jobs]
        assert not claim.fence or desk.settle_range(claim)
        rig.world.arrive()
    assert sent == [(job_id, 1)] * 2
    assert rig.line("fleeting") == []


@pytest.mark.parametrize("queue", [SENT, FLEETING], ids=lambda queue: queue.name)
def test_a_late_put_of_a_job_that_leaves_a_record_brings_nothing_back(
    rig: Rig, queue: Queue
) -> None:
    desk = rig.calm.desk
    job_id = late(rig, "transact_write_items").desk.add("chosen", queue=queue.name, digest=b"d")
    claim = desk.claim_range(queue)
    assert [job.id for job in claim.jobs] == [job_id]
    assert desk.settle_range(claim)
    rig.world.arrive()
    assert not desk.claim_range(queue).jobs
    assert rig.line(queue.name) == []


def test_a_put_that_arrives_after_a_cancel_brings_nothing_back(rig: Rig) -> None:
    job_id = late(rig, "batch_write_item").desk.add(queue="pulled")
    desk = rig.calm.desk
    assert desk.cancel(job_id).refused is None
    rig.world.arrive()
    assert desk.claim(PULLED) == []
    assert desk.state(job_id) is State.CANCELLED


def test_a_removal_that_arrives_late_takes_no_job_out_of_line(rig: Rig) -> None:
    """A released job waits at another place than before."""
    desk = rig.calm.desk
    job_id = desk.add(queue="pulled")
    node = late(rig, "batch_write_item")
    claimed = node.desk.retake(job_id, queue=PULLED)
    assert desk.release(claimed) is None
    rig.world.arrive()
    assert desk.retake(job_id, queue=PULLED).epoch == 2


@pytest.mark.parametrize("method", ["put_item", "transact_write_items"])
def test_a_claim_whose_request_arrives_twice_is_one_claim(rig: Rig, method: str) -> None:
    """`put_item`: of a queue without dispatchers; the other one checks their lease."""
    desk, queue = rig.calm.desk, PULLED if method == "put_item" else SENT
    if queue is SENT:
        assert not desk.claim_range(queue).jobs  # from here on, it has dispatchers
    job_id = desk.add(queue=queue.name)
    node = late(rig, method)
    claimed = node.desk.retake(job_id, queue=queue)
    assert desk.complete(claimed) is None
    rig.world.arrive()
    assert desk.state(job_id) is State.SUCCEEDED
    assert desk.claim(queue) == []


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_claim_whose_answer_was_lost_is_known_by_its_mark(
    rig: Rig, name: str | None, number: int
) -> None:
    """One job is one write, several are statements."""
    ids = [rig.calm.desk.add(name and f"{name}-{n}", queue="pulled") for n in range(number)]
    methods = ["put_item", statements.METHOD]
    node = rig.node({Fault.TIMEOUT: 1.0}, only=methods, first_n=1)
    claims = node.desk.claim(PULLED)
    assert sorted(claim.id for claim in claims) == sorted(ids)
    assert node.client.plan.fired == {Fault.TIMEOUT: 1}
    for claimed in claims:
        assert rig.calm.desk.complete(claimed) is None


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
def test_a_cancel_whose_answer_was_lost_is_a_cancel(rig: Rig, name: str | None) -> None:
    desk = rig.calm.desk
    job_id = desk.add(name, queue="sent")
    node = rig.node({Fault.TIMEOUT: 1.0}, only=["transact_write_items"], first_n=1)
    assert not node.store.change([job_id], CANCEL, node.desk.now).refused
    assert node.client.plan.fired == {Fault.TIMEOUT: 1}


def test_a_rule_that_was_deleted_is_not_brought_back_by_a_late_request(rig: Rig) -> None:
    node = rig.node({Fault.LATE: 1.0}, only=["transact_write_items"], late_calls=None)
    with pytest.raises(StoreUnavailable):
        Board(node.store, rig.clock).rule(cron())
    board = Board(rig.calm.store, rig.clock)
    board.rule(cron())
    assert board.store.delete_rule(RULE)
    rig.world.arrive()
    assert board.store.rules(None, 10) == []
    board.rule(cron())
    assert len(board.post(cron_at(1)).jobs) == 1


def look(node: Node, job_id: str, seen: list[object], _: object) -> None:
    """A transaction that stays half done keeps those away who want to know it exactly."""
    try:
        seen.append(node.desk.state(job_id))
    except StoreUnavailable:
        seen.append("busy")


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
def test_a_job_is_found_while_it_is_moved(rig: Rig, name: str | None) -> None:
    """Whoever reads while a transaction commits sees the job as before or as after it."""
    desk = rig.calm.desk
    for seed in range(12):
        job_id = desk.add(name and f"{name}-{seed}", queue="pulled", due_in=1000)
        seen: list[object] = []
        node = rig.node({Fault.TORN: 1.0}, seed)
        node.client.between = partial(look, rig.calm, job_id, seen)
        later = amend(Amendment(due_at=desk.now + 5_000_000))
        assert not node.store.change([job_id], later, desk.now).refused
        assert seen in (["busy"], [State.SCHEDULED])


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
def test_what_is_past_its_time_is_as_absent(rig: Rig, name: str | None) -> None:
    brief = Queue("brief", retention_seconds=DAY)
    desk = rig.calm.desk
    claimed = desk.take(name, queue=brief)
    assert desk.complete(claimed) is None
    assert desk.state(claimed.id) is State.SUCCEEDED
    rig.clock.advance(DAY + 0.001)
    assert desk.store.get(claimed.id) is None
    assert desk.store.history(claimed.id).attempts == ()
    assert desk.listed(queue="brief", state=State.SUCCEEDED) == []
    assert desk.revive(claimed.id).job is None
    if name is not None:
        assert desk.take(name, queue=brief).epoch == 1


def test_a_node_finds_jobs_in_shards_that_were_added_elsewhere(rig: Rig) -> None:
    here, there = rig.node(), rig.node()
    here.desk.add(queue="pulled", due_in=1000)  # now it knows the queue
    there.desk.set(Queue("pulled", shards=8))
    for _ in range(8):
        job_id = there.desk.add(queue="pulled", due_in=1000)
        assert here.store.get(job_id) is not None
        assert not here.store.change([job_id], CANCEL, here.desk.now).refused


def test_a_node_puts_jobs_into_shards_that_were_added_elsewhere(rig: Rig) -> None:
    """Within seconds, also if it only stores jobs and nobody tells it anything."""
    here, there = rig.node(), rig.node()
    here.desk.add(queue="pulled")
    there.desk.set(Queue("pulled", shards=8))
    rig.clock.advance(REMEMBERED_SECONDS)
    here.desk.add_many(40, queue="pulled")
    lines = (keys.line("pulled", shard) for shard in range(8))
    found = [len(list(there.store.table.query(pk))) for pk in lines]
    assert sum(found) == 41
    assert all(found)


def test_a_store_that_is_throttled_for_long_says_so(rig: Rig) -> None:
    node = rig.node({Fault.THROTTLE: 1.0}, only=["batch_write_item"])
    with pytest.raises(StoreUnavailable):
        node.desk.add(queue="pulled")
