"""A claim of many jobs reads a fair share of each shard, and still takes the first of them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.fencing import Settlement
from oncue.core.job import NewJob
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue
from oncue.core.shard import shard_of
from oncue.core.sharing import Taker
from oncue.stores.dynamodb.offers import _share
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import OwnTable, client, new_table

SHARDS = 8
QUEUE = Queue("tasks", shards=SHARDS)


class Reading(WrappedClient):
    """Counts the items of queries, and what is read by key."""

    items = 0
    keys = 0

    def during(self, call: Call) -> object:
        answer = self.send(call)
        if call.method == "query":
            self.items += len(answer["Items"])
        if call.method == "batch_get_item":
            self.keys += sum(len(one["Keys"]) for one in call.kwargs["RequestItems"].values())
        return answer


@pytest.fixture
def store() -> Iterator[OwnTable]:
    store = OwnTable(new_table(lambda: Reading(client())), FakeClock(), shards=SHARDS)
    put_queue(store, QUEUE)
    yield store
    store.close()


def _put(store: OwnTable, count: int, *, skewed: bool) -> list[str]:
    """Store jobs with records; their ids in the order in which they are due. If skewed, those of
    the first shard are due before all others."""
    now = store.clock.now()
    jobs = []
    for number in range(count):
        job_id = ids.mint(now - 1000, now - 1000, "other", 0)
        first = skewed and shard_of(job_id, SHARDS) == 0
        due_at = now - (2_000_000 if first else 1_000_000) + number
        jobs.append(NewJob(job_id, QUEUE.name, due_at, b"1", 0, due_at, owner="ada"))
    store.insert(jobs, now)
    return [job.id for job in sorted(jobs, key=lambda job: (job.due_at, job.id))]


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("limit", [1, 10, 60, 150, 400])
def test_the_first_of_all_shards_are_taken(store: OwnTable, limit: int, skewed: bool) -> None:
    expected = _put(store, 400, skewed=skewed)
    [taken] = store.claim([QUEUE], [Taker("w", limit)], store.clock.now(), nonce="n")
    assert [job.id for job in taken] == expected[:limit]


def test_a_claim_reads_hardly_more_than_it_takes(store: OwnTable) -> None:
    _put(store, 400, skewed=False)
    reading = store.table.client
    reading.items = 0
    [taken] = store.claim([QUEUE], [Taker("w", 200)], store.clock.now(), nonce="n")
    assert len(taken) == 200
    assert reading.items <= SHARDS * (_share(200, SHARDS) + 2)
    assert reading.items < 400


def test_a_report_on_claimed_jobs_reads_their_records_and_nothing_else(store: OwnTable) -> None:
    """A minted id also says where its job would wait if it had no record."""
    now = store.clock.now()
    jobs = [ids.mint(now, now, QUEUE.name, 0) for _ in range(5)]
    store.insert([NewJob(one, QUEUE.name, now, b"1", 0, now, owner="ada") for one in jobs], now)
    [taken] = store.claim([QUEUE], [Taker("w", 5)], now, nonce="n")
    reading = store.table.client
    reading.keys = 0
    ends = [Settlement(job.id, job.epoch, Verb.HAND_OVER) for job in taken]
    assert not store.settle(ends, now).refused
    assert reading.keys == 5 + 1  # and the queue
