"""Dispatchers and workers beside a transaction that shares the lock of a shard, or holds rows."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.job import NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.sink import Refusal
from oncue.stores.postgresql.locks import shard_lock
from tests.stores.postgresql.conftest import Shop
from tests.stores.postgresql.faults import PATIENCE, eventually, in_thread

JOBS = 20


def test_nobody_waits_behind_a_dispatcher_for_a_transaction_that_replaced_a_job(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    """It shares the lock of the shard, which a dispatcher wants alone."""
    queue = Queue("mail", sink="log:", shards=2)
    store: Any = shop.cue.store
    assert store.put_queue(None, queue)
    now = shop.cue.clock.now()
    spread = [NewJob(f"j{n}", "mail", now, b"1", 0, now, digest=b"d") for n in range(JOBS)]
    assert not store.insert(spread, now)
    held = shop.cue.schedule(1, queue="mail", key="k", id="held", due_at="2020-01-01T00:00:00Z")
    shop.cue.schedule(2, queue="mail", key="k", if_exists="replace", connection=open_transaction)

    claim = store.claim_range(queue, "d", 100, now, lease_seconds=60)
    assert claim.jobs  # of the other shard, although the first job in line is in this one
    assert held.id not in [job.id for job in claim.jobs]
    others = {job.id for job in spread} - {job.id for job in claim.jobs}
    assert others
    again = store.claim_range(queue, "e", 100, now, lease_seconds=60)
    assert (again.jobs, again.busy_until) == ((), None)  # so it looks again soon
    cancelled = store.change(sorted(others), JobChange(ChangeVerb.CANCEL), now)
    assert not cancelled.refused
    open_transaction.commit()
    again = store.claim_range(queue, "e", 100, shop.cue.clock.now(), lease_seconds=60)
    assert [(job.id, job.payload) for job in again.jobs] == [("held", b"2")]


def test_a_shard_whose_lease_has_ended_does_not_keep_a_dispatcher_from_the_others(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    queue = Queue("mail", sink="log:", shards=2)
    store: Any = shop.cue.store
    assert store.put_queue(None, queue)
    now = shop.cue.clock.now()
    old = NewJob("held", "mail", now - 1000, b"1", 0, now, key="k")
    assert not store.insert([old], now)
    spread = [NewJob(f"j{n}", "mail", now, b"1", 0, now, digest=b"d") for n in range(JOBS)]
    assert not store.insert(spread, now)
    lost = store.claim_range(queue, "d", 1, now, lease_seconds=0)
    assert [job.id for job in lost.jobs] == ["held"]
    number = shard_lock(store.db.address.schema, "mail", lost.shard)
    open_transaction.execute("SELECT pg_advisory_xact_lock_shared(%s)", [number])
    claim = store.claim_range(queue, "e", 100, now + 1, lease_seconds=60)
    assert claim.jobs
    assert claim.shard != lost.shard
    open_transaction.rollback()
    claim = store.claim_range(queue, "e", 100, now + 1, lease_seconds=60)
    assert (claim.shard, claim.jobs[0].id) == (lost.shard, "held")


def test_a_row_that_somebody_holds_keeps_nobody_from_the_other_jobs_of_a_queue(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    """One job has expired, one is in line again, and both rows would be changed by a claim."""
    sink = Queue("mail", sink="log:", shards=1)
    store: Any = shop.cue.store
    assert store.put_queue(None, sink)
    now = shop.cue.clock.now()
    ids = ["put off", "expired", "first", "second"]
    jobs = [NewJob(one, "mail", now + at, b"1", 0, now) for at, one in enumerate(ids)]
    jobs[1] = jobs[1]._replace(expires_at=now + 1000)
    assert not store.insert(jobs, now)
    claim = store.claim_range(sink, "d", 1, now, lease_seconds=60)
    assert store.settle_range(claim, [], {"put off": Refusal("busy", permanent=False)}, now)
    held = f"SELECT 1 FROM {shop.schema}.jobs WHERE id IN ('put off', 'expired') FOR UPDATE"
    open_transaction.execute(held.encode())
    later = now + 3_600_000

    def taken(limit: int) -> list[str]:
        [claimed] = store.claim([Queue("mail")], [Taker("ada", limit)], later, nonce=str(limit))
        return [one.id for one in claimed]

    with in_thread(lambda: taken(1)) as claiming:
        assert claiming.result(PATIENCE / 2) == ["first"]
    assert store.expire(later, 10) == 0
    claim = store.claim_range(sink, "d", 10, later, lease_seconds=60)
    assert [job.id for job in claim.jobs] == ["second"]
    assert store.settle_range(claim, ["second"], {}, later)
    open_transaction.rollback()
    assert taken(10) == ["put off"]
    assert store.get("expired").state is State.CANCELLED


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_jobs_of_the_shard_are_delivered_once_the_transaction_has_ended(
    shop: Shop, open_transaction: psycopg.Connection[Any], end: str
) -> None:
    shop.cue.set_queue("audit", sink="log:", shards=1)
    fields: dict[str, Any] = {"queue": "audit", "key": "k", "delay": 3600}
    shop.cue.schedule(1, **fields)
    shop.cue.schedule(2, if_exists="replace", connection=open_transaction, **fields)
    shop.cue.run_loops()
    other = shop.cue.schedule(3, queue="audit")
    time.sleep(0.3)  # meanwhile the dispatcher looks again and again
    assert shop.cue.job(other.id).state is State.SCHEDULED
    getattr(open_transaction, end)()
    eventually(lambda: shop.cue.job(other.id).state is State.SUCCEEDED)
