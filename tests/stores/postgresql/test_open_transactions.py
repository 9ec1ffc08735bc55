"""Who waits for a transaction of another session that stays open, and who does not."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from oncue import Conflict, StoreUnavailable
from oncue.aio import AsyncScheduler
from oncue.api import problems
from oncue.core.job import NewJob
from oncue.usecases import storing
from tests.stores.postgresql.conftest import Shop
from tests.stores.postgresql.faults import PATIENCE, eventually, in_thread

CALLERS = 20
BRIEF = 0.2  # seconds that stand for those for which a job waits


def test_callers_whose_keys_are_free_do_not_wait_for_a_key_that_is_held(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    shop.cue.set_queue("mail")
    held = shop.cue.schedule(1, queue="mail", key="held", connection=open_transaction)
    shop.cue.schedule(1, queue="mail", id="held", connection=open_transaction)

    async def run() -> None:
        acue = AsyncScheduler(shop.cue)
        waits = [
            asyncio.ensure_future(acue.schedule(1, queue="mail", key="held")),
            asyncio.ensure_future(acue.schedule(1, queue="mail", id="held")),
        ]
        free = [
            acue.schedule(n, queue="mail", **{field: f"{field}-{n}"})
            for n in range(CALLERS)
            for field in ("key", "id")
        ]
        stored = await asyncio.wait_for(asyncio.gather(*free), PATIENCE)
        assert not any(one.done() for one in waits)  # those that clash still wait
        assert {job.id for job in shop.cue.jobs(queue="mail")} == {job.id for job in stored}
        open_transaction.commit()
        keyed, named = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)
        assert (keyed.id, named.id) == (held.id, "held")

    asyncio.run(run())
    assert shop.waiting("mail") == 2 + 2 * CALLERS


def test_callers_of_other_queues_do_not_wait_for_a_queue_that_is_being_made(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    """Its row is there when the transaction is committed."""
    shop.cue.schedule(1, queue="new", connection=open_transaction)

    async def run() -> None:
        acue = AsyncScheduler(shop.cue)
        waits = [asyncio.ensure_future(acue.schedule(n, queue="new")) for n in range(CALLERS)]
        waits.append(asyncio.ensure_future(acue.schedule(1, queue="new", key="k")))
        free = [acue.schedule(n, queue=f"other-{n % 3}") for n in range(CALLERS)]
        free += [acue.schedule(n, queue="other-0", key=f"k{n}") for n in range(CALLERS)]
        await asyncio.wait_for(asyncio.gather(*free), PATIENCE)
        assert not any(one.done() for one in waits)
        open_transaction.rollback()
        await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)

    asyncio.run(run())
    assert shop.waiting("new") == CALLERS + 1
    assert sum(shop.waiting(f"other-{n}") for n in range(3)) == 2 * CALLERS


def test_a_job_that_waits_for_too_long_is_refused_and_the_cause_is_named(
    shop: Shop, open_transaction: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "HELD_SECONDS", BRIEF)
    shop.cue.set_queue("mail")
    shop.cue.schedule(1, queue="mail", key="held", connection=open_transaction)
    shop.cue.schedule(1, queue="mail", id="held", connection=open_transaction)
    shop.cue.schedule(1, queue="new", connection=open_transaction)
    refusals = {
        "still open has used the key 'held' of queue mail": {"queue": "mail", "key": "held"},
        "still open has used the id 'held'": {"queue": "mail", "id": "held"},
        "still open has made the queue new": {"queue": "new"},
    }
    for text, fields in refusals.items():
        with pytest.raises(StoreUnavailable, match=text):
            shop.cue.schedule(2, **fields)  # type: ignore[arg-type]
        with pytest.raises(StoreUnavailable, match=text) as caught:
            asyncio.run(AsyncScheduler(shop.cue).schedule(2, **fields))
        assert text in (problems.of(caught.value).fields.detail or "")
    open_transaction.rollback()
    assert (shop.waiting("mail"), shop.waiting("new")) == (0, 0)


def test_of_many_jobs_in_one_call_those_that_are_free_are_stored_and_the_others_named(
    shop: Shop, open_transaction: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "HELD_SECONDS", BRIEF)
    shop.cue.set_queue("mail")
    for key in ("k3", "k7"):
        shop.cue.schedule(1, queue="mail", key=key, connection=open_transaction)
    items = [{"payload": n, "key": f"k{n}"} for n in range(10)] + [{"payload": 7, "key": "k7"}]
    with pytest.raises(StoreUnavailable, match=r"item 4: .* the key 'k3'.* The others .* stored"):
        shop.cue.schedule_many(items, queue="mail")
    assert sorted(job.payload for job in shop.cue.jobs(queue="mail")) == [0, 1, 2, 4, 5, 6, 8, 9]
    with in_thread(lambda: shop.cue.schedule_many(items, queue="mail")) as storing_all:
        open_transaction.rollback()
        tally = storing_all.result(PATIENCE)
    assert (tally.accepted, tally.existing) == (11, 9)
    assert sorted(job.payload for job in shop.cue.jobs(queue="mail")) == list(range(10))


def test_a_copy_into_a_queue_that_is_being_made_waits_and_is_stored_once(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    shop.cue.schedule(1, queue="new", connection=open_transaction)
    items = [{"payload": n, "queue": "new" if n % 2 else "other"} for n in range(1000)]
    with in_thread(lambda: shop.cue.schedule_many(items)) as storing_all:
        eventually(lambda: shop.waiting("other") == 500)
        open_transaction.commit()
        tally = storing_all.result(PATIENCE)
    assert (tally.accepted, tally.existing) == (1000, 0)
    assert (shop.waiting("new"), shop.waiting("other")) == (501, 500)


def test_only_who_replaces_a_job_waits_for_another_that_replaces_it(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    there = shop.cue.schedule(1, queue="mail", key="k", delay=60)
    fields: dict[str, Any] = {"queue": "mail", "key": "k", "delay": 60}
    shop.cue.schedule(2, if_exists="replace", connection=open_transaction, **fields)

    async def run() -> None:
        acue = AsyncScheduler(shop.cue)
        waits = asyncio.ensure_future(acue.schedule(3, if_exists="replace", **fields))
        kept, free = await asyncio.wait_for(
            asyncio.gather(acue.schedule(4, **fields), acue.schedule(5, queue="mail", key="free")),
            PATIENCE,
        )
        assert (kept, free.payload) == (there, 5)
        assert not waits.done()
        open_transaction.commit()
        replaced = await asyncio.wait_for(waits, PATIENCE)
        assert (replaced.id, replaced.payload) == (there.id, 3)

    asyncio.run(run())
    assert shop.cue.job(there.id).payload == 3


def test_of_many_that_replace_only_those_wait_whose_job_is_held(
    shop: Shop, open_transaction: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "HELD_SECONDS", BRIEF)

    def items(first: int) -> list[dict[str, Any]]:
        return [{"payload": first + n, "key": f"k{n}", "delay": 60} for n in range(10)]

    shop.cue.schedule_many(items(0), queue="mail")
    fields: dict[str, Any] = {"queue": "mail", "if_exists": "replace"}
    shop.cue.schedule(-3, key="k3", delay=60, connection=open_transaction, **fields)
    with pytest.raises(StoreUnavailable, match=r"item 4: .* the key 'k3'.* The others .* stored"):
        shop.cue.schedule_many(items(10), **fields)
    payloads = sorted(job.payload for job in shop.cue.jobs(queue="mail"))
    assert payloads == [3, *range(10, 13), *range(14, 20)]
    shop.cue.schedule_many(items(20), connection=open_transaction, **fields)
    open_transaction.commit()
    assert sorted(job.payload for job in shop.cue.jobs(queue="mail")) == list(range(20, 30))


def test_jobs_of_a_call_are_inserted_in_one_order(shop: Shop) -> None:
    """Whoever stores the same ones in another order waits, and no deadlock comes about."""
    now = shop.cue.clock.now()
    jobs = [NewJob(f"j{n}", "mail", now, b"1", 0, now, digest=b"d") for n in range(3)]
    jobs += [NewJob(f"k{9 - n}", "mail", now, b"1", 0, now, key=f"k{n}") for n in range(3)]
    store: Any = shop.cue.store
    orders = {
        (params["ids"], tuple(params["keys"]))
        for some in (jobs, jobs[::-1], jobs[3:] + jobs[:3])
        for _, _, params in [store.asked_insert(some, store.outbox_lock)]
    }
    assert len(orders) == 1
    assert not store.insert(jobs[::-1], now)
    assert sorted(store.insert(jobs, now)) == list(range(6))


def test_a_queue_that_an_open_transaction_uses_is_neither_deleted_nor_waited_for(
    shop: Shop, open_transaction: psycopg.Connection[Any]
) -> None:
    shop.cue.set_queue("mail", sink="log:")
    shop.cue.schedule(1, queue="mail", connection=open_transaction)
    with pytest.raises(Conflict, match="still open uses queue mail"):
        shop.cue.delete_queue("mail")
    shop.cue.schedule(1, queue="new", connection=open_transaction)
    with pytest.raises(StoreUnavailable, match="still open uses queue new"):
        shop.cue.set_queue("new", sink="log:")
    open_transaction.rollback()
    shop.cue.delete_queue("mail")
    assert "mail" not in [queue.name for queue in shop.cue.queues()]
