"""The inbox of the table: everything that a producer puts is delivered, or becomes a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncue.core.errors import NotFound
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.core.nodes import NodeReport
from oncue.ports.inbox import InboxBatch
from oncue.ports.sink import Refusal
from oncue.stores.dynamodb import inbox, keys
from oncue.stores.dynamodb.buckets import Buckets
from oncue.stores.dynamodb.inbox_lease import LEASE_MS
from oncue.stores.dynamodb.writes import Item
from tests.unit.inbox_desk import HOUR, MINUTE, START, InboxDesk


@pytest.fixture
def desk() -> Iterator[InboxDesk]:
    desk = InboxDesk()
    yield desk
    desk.store.close()


def test_an_item_is_delivered_when_it_is_due_and_not_before(desk: InboxDesk) -> None:
    desk.put("a", START + 5000)
    desk.put("b", START - 1000, {"M": {"n": {"N": "1.5"}}})
    desk.put("c", START + 3000, shard=False)
    desk.work_off()
    assert desk.sent == [("b", '{"n":1.5}')]
    desk.go_on(3000, 1000)
    assert desk.sent[1:] == [("c", '"x"')]
    desk.go_on(2000, 1000)
    assert desk.sent[2:] == [("a", '"x"')]
    assert desk.left() == []


def test_what_is_due_just_before_the_end_of_a_bucket_is_found_just_after_it(
    desk: InboxDesk,
) -> None:
    desk.work_off()
    end = desk.buckets.of(START) + desk.buckets.length_ms
    desk.clock.set(end - 500)
    desk.step()
    desk.put("a", end - 100)
    desk.clock.set(end + 100)
    desk.work_off()
    assert desk.sent == [("a", '"x"')]


def test_an_item_for_a_queue_without_a_sink_becomes_a_job_as_late_as_it_is(
    desk: InboxDesk,
) -> None:
    item = desk.put("a", START - 90_000, {"M": {"n": {"N": "1"}}}, queue=None)
    desk.work_off()
    job = desk.store.get("a")
    assert job is not None
    assert (job.queue, job.state, job.payload) == ("default", State.SCHEDULED, {"n": 1})
    assert job.due_at == to_datetime(START - 90_000)
    assert desk.left() == []
    desk.put_item(item)  # the producer was not sure and puts it again
    desk.work_off()
    assert desk.left() == []
    assert desk.sent == []


def test_an_id_that_is_used_again_for_something_else_is_another_job(desk: InboxDesk) -> None:
    for detail in ("one", "two", "two"):
        desk.put("a", START - 1000, detail, queue="mail")
        desk.work_off()
    desk.put("a", START - 500, "one", queue="mail")
    desk.work_off()
    items, _ = desk.store.table.scan(None, 1000)
    ids = [item["pk"][2:] for item in items if item["pk"].startswith("i#")]
    jobs = [job for job_id in ids if (job := desk.store.get(job_id)) is not None]
    assert sorted(job.payload for job in jobs) == ["one", "one", "two"]
    assert desk.left() == []


def test_a_malformed_item_is_set_aside_and_stops_nothing(desk: InboxDesk) -> None:
    bad = desk.put("bad", START - 2000, {"S": "\0"})
    desk.put_item({**bad, "sk": "garbage", "detail": "x"})
    desk.put("good", START - 1000)
    desk.work_off()
    desk.go_on(15 * MINUTE)
    assert desk.sent == [("good", '"x"')]
    assert desk.left() == []
    assert all(lease.checkpoint > START for lease in desk.leases())


def test_why_an_item_was_set_aside_can_be_read(desk: InboxDesk) -> None:
    desk.put("bad", START - 2000, {"S": "\0"}, queue="mail")
    desk.work_off()
    job = desk.store.get("bad")
    assert job is not None
    assert (job.state, job.queue) == (State.FAILED, "mail")
    assert "NUL" in (job.error or "")
    [told] = desk.store.history("bad").diagnostics
    assert (told.code, told.detail) == ("malformed", job.error)


def test_a_producer_cannot_write_lines_into_the_log(
    desk: InboxDesk, caplog: pytest.LogCaptureFixture
) -> None:
    bad = desk.put("bad", START - 2000)
    for sk in ("0\nline", "0\nline#id", "0#\nline"):
        desk.put_item({**bad, "sk": sk})
    desk.remove_item(bad)
    desk.work_off()
    assert len(caplog.messages) == 3
    assert not [text for text in caplog.messages if "\n" in text]


def test_what_the_sink_refuses_becomes_a_job_that_failed_or_waits(desk: InboxDesk) -> None:
    desk.refusals = {"never": Refusal("too large", True), "later": Refusal("busy", False)}
    for name in ("never", "later", "now"):
        desk.put(name, START - 1000)
    desk.work_off()
    later = desk.store.get("later")
    assert later is not None
    assert (later.state, later.error, later.refusals) == (State.SCHEDULED, "busy", 1)
    assert later.not_before is not None
    assert desk.store.get("never") is None, "its queue keeps no history"
    assert desk.left() == []


def test_after_an_outage_of_three_hours_everything_is_delivered_in_order(desk: InboxDesk) -> None:
    desk.work_off()
    dues = [START + n * 97_000 for n in range(110)]
    for n, due_at in enumerate(dues):
        desk.put(f"j{n:03d}", due_at, shard=n % 3 > 0)
    desk.clock.set(START + 3 * HOUR)
    desk.work_off()
    assert {job_id for job_id, _ in desk.sent} == {f"j{n:03d}" for n in range(110)}
    assert len(desk.sent) == 110
    for part in (0, 1, 2):
        mine = [
            job_id
            for n, (job_id, due_at) in enumerate(zip(sorted(dict(desk.sent)), dues, strict=True))
            if _part(desk, job_id, due_at, shard=n % 3 > 0) == part
        ]
        assert [job_id for job_id, _ in desk.sent if job_id in mine] == mine
    desk.go_on(10 * MINUTE)
    assert all(lease.checkpoint > START + 3 * HOUR - 11 * MINUTE for lease in desk.leases())


def _part(desk: InboxDesk, job_id: str, due_at: int, *, shard: bool) -> int:
    pk, _ = (desk.buckets if shard else Buckets(shards=0)).place(due_at, job_id)
    return next(n for n in range(3) if pk in desk.buckets.partitions(desk.buckets.of(due_at), n))


def test_the_checkpoint_passes_a_bucket_only_when_it_is_long_over_and_empty(
    desk: InboxDesk,
) -> None:
    desk.work_off()
    bucket = desk.buckets.of(START)
    passes_at = bucket + 2 * desk.buckets.length_ms + 10_000
    desk.answer = False
    desk.put("a", START)
    desk.clock.set(passes_at - 1)
    desk.work_off()
    assert {lease.checkpoint for lease in desk.leases()} == {bucket}
    desk.clock.set(passes_at + 10_000)
    desk.work_off()
    [stuck] = [lease for lease in desk.leases() if lease.checkpoint == bucket]
    desk.answer = True
    desk.go_on(20_000)
    assert desk.sent == [("a", '"x"')]
    assert {lease.checkpoint for lease in desk.leases()} == {bucket + desk.buckets.length_ms}
    assert stuck.fence == 2


@pytest.mark.slow
@pytest.mark.parametrize("late", [6 * MINUTE, 2 * HOUR, 23 * HOUR])
def test_an_item_that_is_put_late_is_found_within_an_hour(desk: InboxDesk, late: int) -> None:
    desk.go_on(12 * MINUTE)
    due_at = desk.now - late
    desk.put("a", due_at, queue="mail")
    desk.go_on(HOUR, 2 * MINUTE)
    job = desk.store.get("a")
    assert job is not None
    assert job.due_at == to_datetime(due_at)
    assert desk.left() == []


def test_what_is_in_a_bucket_far_too_early_waits_in_its_queue(desk: InboxDesk) -> None:
    early = desk.put("a", START - 7 * MINUTE)
    desk.remove_item(early)
    desk.put_item({**early, "sk": "9999-01-01T00:00:00.000Z#a"})
    desk.work_off()
    job = desk.store.get("a")
    assert job is not None
    assert (job.due_at.year, job.state) == (9999, State.SCHEDULED)
    assert desk.left() == []


def test_while_a_sink_is_in_trouble_its_items_stay_and_others_go_on(desk: InboxDesk) -> None:
    desk.answer = False
    for n in range(120):  # more than a look reads
        desk.put(f"out{n}", START - 2000 + n, shard=False)
    desk.put("mail", START - 1000, queue="mail", shard=False)
    desk.work_off()
    assert desk.store.get("mail") is not None
    moved = [n for n in range(120) if desk.store.get(f"out{n}") is not None]
    assert len(moved) >= 100, "those in the way are jobs of their queue now"
    desk.answer = True
    desk.go_on(1000)
    assert len(desk.sent) == 120 - len(moved)
    assert desk.left() == []


def test_items_whose_queue_cannot_delay_hide_nothing_that_can_be_sent_ahead(
    desk: InboxDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "ITEMS_AT_ONCE", 10)
    for n in range(25):
        desk.put(f"mail{n}", START + 1000 + n, queue="mail", shard=False)
    desk.put("out", START + 5000, shard=False)
    while desk.inbox.step("a", desk.now, desk.accept, desk.now + 60_000) == 0.0:
        continue
    assert desk.sent == [("out", '"x"')]
    assert len(desk.left()) == 25
    desk.go_on(2000, every=1000)
    assert desk.left() == []


def test_what_a_sink_in_trouble_has_not_tried_is_delivered_again(desk: InboxDesk) -> None:
    for name in "ab":
        desk.put(name, desk.now)
    found: list[InboxBatch] = []

    def accept(batch: InboxBatch) -> bool:
        found.append(batch)
        at = [one.id for one in batch.deliveries].index("a") if len(found) == 1 else None
        return batch.settle({} if at is None else {at: None}, desk.now)

    while desk.inbox.step("a", desk.now, accept) == 0.0:
        continue
    delivered = [one.id for batch in found for one in batch.deliveries]
    assert (delivered.count("a"), desk.left()) == (2, [])


def test_a_batch_that_nobody_settled_is_delivered_by_the_next_process(desk: InboxDesk) -> None:
    desk.put("a", START)
    lost: list[str] = []

    def die(batch: object) -> bool:
        lost.append("batch")
        return True

    desk.inbox.step("a", desk.now, die)
    desk.inbox.step("a", desk.now, die)
    assert lost == ["batch"], "it is in flight"
    other = desk.another()
    desk.work_off(other, "b")
    assert desk.sent == [], "the parts belong to the other"
    desk.clock.advance(LEASE_MS / 1000)
    desk.work_off(other, "b")
    assert desk.sent == [("a", '"x"')]
    assert {lease.fence for lease in desk.leases()} == {3}


def test_what_is_settled_while_it_is_looked_for_is_not_delivered_again(
    desk: InboxDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look finds an item that is in flight; before it is dealt with, its delivery ends."""
    desk.put("a", START)
    batches: list[InboxBatch] = []

    def begin(batch: InboxBatch) -> bool:
        batches.append(batch)
        return True

    desk.inbox.step("a", desk.now, begin)
    read, found = desk.store.table.page, []

    def page(*asked: Any) -> tuple[list[Item], bool]:
        items, more = read(*asked)
        if items:
            found.extend(items)
            assert batches[0].settle({}, desk.now)
        return items, more

    monkeypatch.setattr(desk.store.table, "page", page)
    desk.inbox.step("a", desk.now, begin)
    assert (len(found), len(batches), desk.left()) == (1, 1, [])


def test_a_process_that_leaves_lets_others_go_on_at_once(desk: InboxDesk) -> None:
    desk.work_off()
    desk.inbox.leave(desk.now)
    desk.put("a", START)
    desk.work_off(desk.another(), "b")
    assert desk.sent == [("a", '"x"')]


def report(desk: InboxDesk, name: str) -> None:
    at = to_datetime(desk.now)
    desk.store.report_node(NodeReport(name, "host", 1, "1", at, at, engine=True))


def test_a_part_is_not_given_away_while_its_items_are_being_delivered(desk: InboxDesk) -> None:
    batches: list[InboxBatch] = []

    def begin(batch: InboxBatch) -> bool:
        batches.append(batch)
        return True

    for n in range(20):
        desk.put(f"j{n}", START)
    desk.inbox.step("a", desk.now, begin)
    for _ in range(5):
        desk.clock.advance(10)
        report(desk, "a")
        report(desk, "b")
        desk.inbox.step("a", desk.now, begin)
        desk.work_off(desk.another(), "b")
    assert desk.sent == []
    assert sum(len(batch.deliveries) for batch in batches) == 20
    for batch in batches:
        assert batch.settle({}, desk.now)
    desk.inbox.step("a", desk.now, begin)
    desk.work_off(desk.another(), "b")
    assert "b" in {lease.holder for lease in desk.leases()}
    assert desk.left() == []


def test_processes_share_the_parts(desk: InboxDesk) -> None:
    other = desk.another()
    report(desk, "a")
    desk.step()
    assert {lease.holder for lease in desk.leases()} == {"a"}
    for _ in range(2):
        desk.clock.advance(10)
        report(desk, "a")
        report(desk, "b")
        desk.step()
        desk.step(other, "b")
    assert sorted(lease.holder for lease in desk.leases()) == ["a", "a", "b"]
    for n in range(20):
        desk.put(f"j{n}", desk.now)
    desk.work_off()
    desk.work_off(other, "b")
    assert len(desk.sent) == len(set(desk.sent)) == 20


def test_a_holder_that_lost_its_part_neither_renews_nor_moves_the_checkpoint(
    desk: InboxDesk,
) -> None:
    desk.work_off()
    other = desk.another()
    desk.clock.advance(LEASE_MS / 1000)
    desk.step(other, "b")
    before = desk.leases()
    desk.work_off()
    assert {lease.holder for lease in before} == {"b"}
    assert [lease.fence for lease in desk.leases()] == [lease.fence for lease in before]


def test_an_idle_inbox_reads_each_partition_once_in_a_second(desk: InboxDesk) -> None:
    desk.go_on(11_000, 1000)
    desk.client.asked.clear()
    for _ in range(10):
        desk.clock.advance(1)
        assert desk.step() == 1.0
    queries = desk.client.requests("query")
    keyed = [one for one in queries if "j#" in str(one["ExpressionAttributeValues"])]
    assert len(keyed) <= 3 * 10 + 3 * 4, "three partitions; and from the checkpoint on, once"
    assert len(desk.client.requests("put_item")) <= 3, "leases"


def test_a_table_without_an_inbox_is_left_alone() -> None:
    desk = InboxDesk()
    desk.store.table.remove(keys.INBOX)
    desk.client.asked.clear()
    assert desk.step() == 30.0
    assert [method for method, _ in desk.client.asked] == ["get_item"]
    with pytest.raises(NotFound, match="no inbox"):
        list(desk.inbox.items(START, START))
    desk.store.close()


def test_what_is_in_the_inbox_can_be_listed_and_read_again(desk: InboxDesk) -> None:
    long_ago = START - 100 * HOUR
    for n in range(130):
        desk.put(f"j{n:03d}", long_ago + n, shard=False)
    desk.put("other", long_ago + 50, "y")
    bad = desk.put("bad", long_ago + 60)
    desk.put_item({**bad, "queue": "not a name"})
    found = list(desk.inbox.items(long_ago, long_ago))
    assert len(found) == 132
    assert [one.due_at for one in found] == sorted(one.due_at for one in found)
    assert [one.id for one in found if one.problem] == ["bad"]
    assert desk.inbox.replay(long_ago, long_ago, desk.now) == 132
    assert desk.left() == []
    other = desk.store.get("other")
    assert other is not None
    assert (other.payload, other.queue) == ("y", "out")


def test_shards_are_never_taken_away(desk: InboxDesk) -> None:
    assert desk.inbox.set(Buckets(10, 1), desk.now) == Buckets(5, 2)
    assert desk.inbox.set(Buckets(5, 7), desk.now) == Buckets(5, 7)
    assert desk.inbox.settings() == Buckets(5, 7)
