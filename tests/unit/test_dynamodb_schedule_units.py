"""What schedules, access tokens, nodes and the inbox cost: the figures of ADR 0017."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from oncue.clock import FakeClock
from oncue.core.access import Scope, mint
from oncue.core.moment import LATEST, Moment, to_datetime
from oncue.core.nodes import NodeReport
from oncue.core.recurrence import Fate, Outcome, begun
from oncue.core.schedule import Progress, Schedule, check_schedule, occurrence_job
from oncue.ports.inbox import InboxBatch
from oncue.ports.schedules import Advance
from oncue.stores.dynamodb.buckets import Buckets
from oncue.stores.dynamodb.inbox_lease import InboxLease
from oncue.stores.dynamodb.table import Table
from oncue_bench.dynamodb.ledger import Bill, CountingClient
from tests.stores.dynamo import OwnTable, client, new_table

SECOND = 1000


class Counter:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client = CountingClient(client())
        self.store = OwnTable(Table(new_table().name, lambda: self.client), self.clock)

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def bill(self, call: Callable[[], object]) -> Bill:
        with self.client.counted() as bill:
            call()
        return bill

    def advance(self, change: Advance) -> Bill:
        def call() -> None:
            assert not self.store.advance([change], self.now)

        return self.bill(call)

    def seen(self) -> Schedule:
        found = self.store.schedule("daily-report")
        assert found is not None
        return found

    def made(self, first: Moment, count: int = 1) -> Advance:
        seen = self.seen()
        jobs = [occurrence_job(seen, first + n * SECOND, self.now) for n in range(count)]
        dues = [to_datetime(job.due_at) for job in jobs]
        outcomes = [
            Outcome(Fate.CREATED, due, due, to_datetime(self.now), job_id=job.id)
            for job, due in zip(jobs, dues, strict=True)
        ]
        then = first + count * SECOND
        progress = Progress(then, then, jobs[-1].due_at, jobs[-1].id)
        return Advance(seen, seen, jobs, outcomes, (), progress)


@pytest.fixture
def counter() -> Iterator[Counter]:
    counter = Counter()
    yield counter
    counter.store.close()


def test_the_units_of_a_schedule(counter: Counter) -> None:
    now = counter.now
    wanted = Schedule("daily-report", cron="0 9 * * *", queue="q", payload_json=b'{"a":1}')
    created = counter.advance(Advance(None, begun(check_schedule(wanted), now)))
    assert (created.writes, created.reads) == (6, 1)
    counter.advance(counter.made(now))  # it creates the queue, too
    lives = [counter.advance(counter.made(now + n * SECOND)) for n in range(1, 12)]
    assert [life.writes for life in lives] == [8] * 9 + [10] + [8]
    assert {life.reads for life in lives} == {1}
    assert counter.bill(lambda: counter.store.waking(LATEST, 500)).reads == 2 + 1 + 1


def test_the_units_of_many_occurrences_at_once(counter: Counter) -> None:
    now = counter.now
    wanted = Schedule("daily-report", every_seconds=1, queue="q")
    counter.advance(Advance(None, begun(check_schedule(wanted), now)))
    counter.advance(counter.made(now))
    assert counter.advance(counter.made(now + 600 * SECOND, 20)).writes == 4 * 20 + 6
    gone = [replace(one, fate=Fate.WITHDRAWN) for one in counter.store.outcomes("daily-report")]
    seen = counter.seen()
    back = Advance(seen, seen, withdrawn=gone[1:], progress=Progress(now, now))
    assert counter.advance(back).writes == 3 * 20 + 8, "the page has more than 1 KB"
    assert counter.advance(Advance(counter.seen(), None)).writes <= 50


def test_the_units_of_tokens_and_nodes(counter: Counter) -> None:
    token, _ = mint("ci", frozenset(Scope), counter.now)
    assert counter.bill(lambda: counter.store.put_token(token)).writes == 2
    assert counter.bill(counter.store.tokens).reads == 1
    assert counter.bill(lambda: counter.store.remove_token(token.id)).writes == 2
    at = to_datetime(counter.now)
    report = NodeReport("n", "host", 1, "1", at, at, engine=True)
    reported = counter.bill(lambda: counter.store.report_node(report))
    assert (reported.writes, reported.reads) == (1, 1)


class Inbox:
    """The inbox of a store, read up to ten minutes ago."""

    def __init__(self, counter: Counter, shards: int) -> None:
        self.counter = counter
        self.buckets = Buckets(5, shards)
        self.inbox = counter.store.inbox
        self.inbox.set(self.buckets, counter.now)
        first = self.buckets.of(counter.now - 600 * SECOND)
        leases = [InboxLease(part, checkpoint=first, swept_at=counter.now) for part in range(8)]
        counter.store.table.write([lease.as_item(1) for lease in leases])
        self.step()

    def put(self, job_id: str, queue: str) -> None:
        pk, sk = self.buckets.place(self.counter.now, job_id)
        item = {"pk": pk, "sk": sk, "detail": "x", "queue": queue}
        self.counter.store.table.write([item])

    def step(self) -> Bill:
        def accept(batch: InboxBatch) -> bool | None:
            return batch.settle({}, self.counter.now) if batch.queue == "out" else None

        return self.counter.bill(lambda: self.inbox.step("a", self.counter.now, accept))


def test_the_units_of_the_inbox(counter: Counter) -> None:
    counter.clock.advance(60)  # into the bucket: at its beginning the one before is read, too
    inbox = Inbox(counter, shards=4)
    counter.clock.advance(1)
    idle = inbox.step()
    assert (idle.writes, idle.reads) == (0, 5), "a read unit for each partition"
    inbox.put("a", "out")
    assert inbox.step().writes == 1, "it is removed"
    inbox.put("b", "mail")
    inbox.step()  # it creates the queue, too
    inbox.put("c", "mail")
    assert inbox.step().writes == 6, "a transaction: record, place in line, removal"
