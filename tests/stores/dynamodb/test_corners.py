"""Corners in which things were lost, or stood still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from oncue.core.job import Diagnostic
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.core.shard import shard_of
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.buckets import PARTS, Buckets
from oncue.transfer.dump import Dump
from oncue_bench.dynamodb.ledger import CountingClient
from oncue_bench.dynamodb.wrapped import Call
from tests.stores.dynamodb.rig import Node, Rig
from tests.stores.dynamodb.steps import Interruption
from tests.unit.inbox_desk import InboxDesk

SENT = Queue("sent", sink="log:")
LIMITED = Queue("limited", sink="log:", concurrency=50)
FLEETING = Queue("fleeting", sink="log:", retention_seconds=0)
BRIEF = Queue("brief", retention_seconds=7 * 86_400)
PULLED = Queue("pulled", retention_seconds=0)
LARGE = b'"' + b"x" * 5_000 + b'"'
MOST_REQUESTS = 500


@pytest.fixture
def rig(client: Any) -> Iterator[Rig]:
    rig = Rig(client, queues=[SENT, LIMITED, FLEETING, BRIEF, PULLED])
    yield rig
    rig.close()


def counted(node: Node) -> Counter[str]:
    """The requests of a node from here on, of which there are not too many."""
    found: Counter[str] = Counter()

    def count(call: Call) -> None:
        found[call.method] += 1
        assert found.total() < MOST_REQUESTS

    node.client.before = count
    return found


def weeks_later(rig: Rig) -> None:
    """Everything is deleted that the table may forget by then."""
    rig.clock.advance(30 * 86_400)
    rig.held.expire(rig.name, rig.clock.now() / 1000)


@pytest.mark.parametrize("queue", [SENT, LIMITED], ids=lambda queue: queue.name)
def test_a_dispatcher_passes_a_job_that_came_into_its_range_and_has_expired(
    rig: Rig, queue: Queue
) -> None:
    """The range covers the job, so nobody else may cancel it."""
    desk, node = rig.calm.desk, rig.node()
    desk.add(queue=queue.name)
    claim = node.desk.claim_range(queue)
    late = desk.add(queue=queue.name, priority=5, expires_at=desk.now + 1000)
    last = desk.add(queue=queue.name)
    rig.clock.advance(2)
    counted(node)
    more = node.desk.claim_range(queue, in_flight=[claim])
    assert [job.id for job in more.jobs] == [last]
    assert desk.state(late) is State.CANCELLED


def test_jobs_that_have_expired_are_cancelled_together(rig: Rig) -> None:
    desk, node = rig.calm.desk, rig.node()
    late = desk.add_many(64, queue="sent", expires_at=desk.now + 1000)
    last = desk.add(queue="sent")
    rig.clock.advance(2)
    requests = counted(node)
    assert [job.id for job in node.desk.claim_range(SENT).jobs] == [last]
    assert {desk.state(job_id) for job_id in late} == {State.CANCELLED}
    assert requests.total() < len(late)


@pytest.mark.parametrize("how", ["a clock is slow", "it takes long"])
@pytest.mark.parametrize("settles", [True, False])
def test_a_worker_that_did_not_know_of_the_first_dispatcher_comes_too_late(
    rig: Rig, how: str, settles: bool
) -> None:
    """Whether a dispatcher came before whose clock is behind, or a request was throttled."""
    desk, worker, dispatcher = rig.calm.desk, rig.node(), rig.node()
    assert not desk.claim(PULLED)
    desk.add(queue="pulled")
    sent: list[str] = []

    def send() -> None:
        before = desk.now - 2000
        rig.calm.store.claim_range(PULLED, "behind", 10, before, lease_seconds=60)
        if how == "it takes long":
            rig.clock.advance(9)
        claim = dispatcher.desk.claim_range(PULLED)
        sent.extend(job.id for job in claim.jobs)
        assert not settles or dispatcher.desk.settle_range(claim)

    worker.client.before = Interruption(1, send, {"put_item", "transact_write_items"})
    claimed = [one.id for one in worker.desk.claim(PULLED)]
    assert len(claimed + sent) == 1


def test_a_finished_job_has_its_payload_as_long_as_it_is_there(rig: Rig) -> None:
    """Its queue keeps jobs for ever now, and a late word of its worker is recorded."""
    desk = rig.calm.desk
    claimed = desk.take("chosen", queue=BRIEF, payload=LARGE)
    assert desk.complete(claimed) is None
    desk.set(Queue("brief", retention_seconds=None))
    assert desk.fail(claimed) is not None
    assert desk.codes("chosen") == ["fenced"]
    assert desk.job("chosen").payload == "x" * 5_000
    weeks_later(rig)
    assert desk.store.get("chosen") is None
    assert not [key for key in rig.everything() if key[0] == "i#chosen"]


def test_a_job_that_is_about_to_be_forgotten_has_its_payload(rig: Rig) -> None:
    """The service deletes items in any order, and its clock may be ahead."""
    desk = rig.calm.desk
    assert desk.complete(desk.take("chosen", queue=BRIEF, payload=LARGE)) is None
    rig.clock.advance(7 * 86_400 - 1)
    for call in rig.held.expired(rig.name, rig.clock.now() / 1000 + 3):
        if call.kwargs["Key"]["sk"]["S"] != keys.HEAD:
            rig.held.send(call)
    assert desk.job("chosen").payload == "x" * 5_000


def test_a_revived_job_stays_in_the_list_of_its_owner(rig: Rig) -> None:
    desk = rig.calm.desk
    assert desk.fail(desk.take("chosen", queue=BRIEF, owner="ada")) is None
    assert desk.revive("chosen").refused is None
    weeks_later(rig)
    assert desk.listed(owner="ada") == ["chosen"]


def test_a_note_on_a_job_that_is_being_delivered_does_not_bring_it_back(rig: Rig) -> None:
    desk = rig.calm.desk
    job_id = desk.add(queue="fleeting")
    claim = desk.claim_range(FLEETING)
    rig.node().store.note(job_id, [Diagnostic(to_datetime(desk.now), "seen", "seen", 0, 0)])
    assert desk.settle_range(claim)
    assert not desk.claim_range(FLEETING).jobs
    assert rig.line("fleeting") == []


@pytest.mark.parametrize("key", [None, "key"])
def test_a_job_that_is_stored_again_leaves_nothing(rig: Rig, key: str | None) -> None:
    desk = rig.calm.desk
    desk.add("chosen", queue="sent", payload=LARGE, digest=b"d", key=key)
    before = rig.everything()
    for name in ["chosen", "chosen"] if key is None else ["chosen", "other"]:
        new = desk.new(name, queue="sent", payload=LARGE, digest=b"d", key=key)
        assert set(desk.store.insert([new], desk.now)) == {0}
    assert rig.everything() == before


def test_a_job_may_have_more_operations_than_an_item_holds(rig: Rig) -> None:
    desk = rig.calm.desk
    claimed = desk.take("chosen", queue=BRIEF)
    message = "ж" * 2_000
    for number in range(210):
        desk.put_operation(claimed, f"step-{number}", message=message)
    assert desk.fail(claimed) is None
    operations = rig.node().store.history("chosen").operations
    assert [one.name for one in operations] == [f"step-{number}" for number in range(210)]
    assert {one.message for one in operations} == {message}
    weeks_later(rig)
    assert not [key for key in rig.everything() if key[0] == "i#chosen"]


def test_a_dump_reads_many_items_at_a_time_though_few_of_them_are_records(rig: Rig) -> None:
    node = rig.node()
    for _ in range(5):
        rig.calm.desk.add_many(500, queue="sent")
    asked = counted(node)
    Dump(node.store, BytesIO()).write()
    assert asked["scan"] < 60


@pytest.mark.parametrize("by", ["step", "replay"])
def test_large_items_of_the_inbox_are_moved(by: str) -> None:
    """Together they are more than a transaction holds."""
    desk = InboxDesk(Buckets(5, 50))
    try:
        names = [name for name in map(str, range(300)) if not shard_of(name, 50) % PARTS][:20]
        for name in names:
            desk.put(name, desk.now - 1000, "x" * 240_000, queue="pulled")
        if by == "step":
            desk.work_off()
        else:
            assert desk.inbox.replay(desk.now - 600_000, desk.now, desk.now) == 20
        assert all(desk.store.get(name) for name in names)
    finally:
        desk.store.close()


def test_who_looks_at_live_jobs_reads_their_records_and_nothing_else(client: Any) -> None:
    """A minted id tells where its job waits; but a live job does not wait."""
    rig = Rig(client, inside=CountingClient, queues=[BRIEF])
    rig.calm.desk.add_many(20, queue="brief")
    assert len(rig.calm.desk.claim(BRIEF)) == 20
    with rig.inner.counted() as bill:
        assert not rig.calm.store.has_leases_astray(rig.clock.now())
    assert bill.of("i#")[0] == 20
    assert bill.of("w#") == (0, 0)
    rig.close()
