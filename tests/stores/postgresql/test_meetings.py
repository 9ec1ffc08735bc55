"""Two nodes that meet between two statements: what one does in the middle of the other's call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, NewJob
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.tx import PgTx
from tests.contract.desk import Desk
from tests.stores.postgres import another_postgres, open_postgres
from tests.stores.postgresql.faults import eventually, waits_for_a_lock

QUEUE = Queue("q", sink="log:", retention_seconds=0)
IDS = ("a", "b", "c")


@pytest.fixture
def nodes() -> Iterator[tuple[PgStore, PgStore]]:
    clock = FakeClock()
    first = open_postgres(clock, 1)
    second = another_postgres(first)
    assert first.put_queue(None, QUEUE)
    now = clock.now()
    first.insert([NewJob(one, "q", now, b"{}", 0, now, digest=b"x") for one in IDS], now)
    yield first, second
    second.close()
    first.close()


@pytest.fixture
def races(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Why transactions are run again."""
    lost: list[Exception] = []
    monkeypatch.setattr(PgDatabase, "_give_up_after", lambda _, ends, error: lost.append(error))
    return lost


def before(
    monkeypatch: pytest.MonkeyPatch, store: PgStore, statement: str, act: Callable[[], object]
) -> None:
    """Do something the first time that the store is about to run a statement of that name."""
    run, journey = PgTx.run, PgTx._journey
    left = [act]

    def meet(tx: PgTx, names: list[str]) -> None:
        if left and tx.statements is store.db.statements and statement in names:
            left.pop()()

    def met_run(tx: PgTx, noun: str, name: str, params: Any = None) -> Any:
        meet(tx, [name])
        return run(tx, noun, name, params)

    def met_journey(tx: PgTx, asked: Any, **how: Any) -> Any:
        meet(tx, [name for _, name, _ in asked])
        return journey(tx, asked, **how)

    monkeypatch.setattr(PgTx, "run", met_run)
    monkeypatch.setattr(PgTx, "_journey", met_journey)


def deliver_all(store: PgStore, holder: str) -> list[str]:
    now = store.clock.now()
    claim = store.claim_range(QUEUE, holder, 10, now, lease_seconds=60)
    if not claim.jobs:
        return []
    assert store.settle_range(claim, [job.id for job in claim.jobs], {}, now)
    return [job.id for job in claim.jobs]


def test_a_range_that_another_took_and_settled_meanwhile_is_not_delivered_again(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other takes the shard after the first has seen that it is free, and lets it go just
    before the first would take it, having read the same jobs: those of two priorities, which are
    read before they are covered."""
    first, second = nodes
    now = first.clock.now()
    first.insert([NewJob("d", "q", now, b"{}", 1, now)], now)
    other: list[RangeClaim] = []

    def take() -> None:
        other.append(second.claim_range(QUEUE, "two", 10, now, lease_seconds=60))

    def settle() -> None:
        assert second.settle_range(other[0], ["d", *IDS], {}, now)

    before(monkeypatch, first, "take", settle)
    before(monkeypatch, first, "lock", take)
    claim = first.claim_range(QUEUE, "one", 10, now, lease_seconds=60)
    assert [job.id for job in other[0].jobs] == ["d", *IDS]
    assert (claim.jobs, claim.busy_until) == ((), now + 60_000)


@pytest.mark.parametrize("settled", [IDS, ()], ids=["settled", "held"])
def test_what_another_took_meanwhile_is_not_taken_unseen(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch, settled: tuple[str, ...]
) -> None:
    first, second = nodes
    now = first.clock.now()

    def take() -> None:
        claim = second.claim_range(QUEUE, "two", 10, now, lease_seconds=60)
        if settled:
            assert second.settle_range(claim, settled, {}, now)

    before(monkeypatch, first, "take_due", take)
    claim = first.claim_range(QUEUE, "one", 10, now, lease_seconds=60)
    assert claim.jobs == ()
    assert claim.busy_until == (None if settled else now + 60_000)


def test_a_cancel_that_came_before_the_range_means_no_delivery(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    cancel = JobChange(ChangeVerb.CANCEL)
    before(monkeypatch, first, "take_due", lambda: second.change(["b"], cancel, second.clock.now()))
    assert sorted(deliver_all(first, "one")) == ["a", "c"]


def test_a_dispatcher_that_waits_for_a_shard_has_locked_no_job(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch, races: list[Exception]
) -> None:
    """A put-off job has its place in line again, and that is committed: another who has the lock of
    the shard may wait for the job."""
    first, second = nodes
    now = first.clock.now()
    claim = first.claim_range(QUEUE, "one", 10, now, lease_seconds=60)
    assert first.settle_range(claim, ["b", "c"], {"a": Refusal("busy", False)}, now)
    assert isinstance(first.clock, FakeClock)
    first.clock.advance(60)
    cancel = JobChange(ChangeVerb.CANCEL)
    before(
        monkeypatch, first, "hold_shard", lambda: second.change(["a"], cancel, second.clock.now())
    )
    assert deliver_all(first, "one") == []
    assert races == []


def test_a_dispatcher_and_a_worker_of_a_queue_with_a_limit_do_not_wait_for_each_other(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch, races: list[Exception]
) -> None:
    first, second = nodes
    limited = replace(QUEUE, concurrency=10)
    assert first.put_queue(QUEUE, limited)
    assert second.queues() == [limited]
    now = first.clock.now()
    with ThreadPoolExecutor(1) as pool:

        def claim() -> None:
            pool.submit(second.claim, [limited], [Taker("ada", 1)], now, nonce="n")
            assert isinstance(first.clock, FakeClock)
            desk = Desk(first, first.clock)
            eventually(lambda: waits_for_a_lock(desk))

        before(monkeypatch, first, "hold_shard", claim)
        assert deliver_all(first, "one") == list(IDS)
    assert races == []


def test_a_job_whose_key_is_taken_meanwhile_is_not_revived(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    now = first.clock.now()

    def keyed(job_id: str) -> NewJob:
        return NewJob(job_id, "keyed", now, b"{}", 0, now, key="k")

    assert not first.insert([keyed("old")], now)
    assert not first.change(["old"], JobChange(ChangeVerb.CANCEL), now).refused
    before(monkeypatch, first, "save", lambda: second.insert([keyed("new")], now))
    refused = first.change(["old"], JobChange(ChangeVerb.REVIVE), now).refused
    assert [why.reason for why in refused.values()] == ["key"]


def test_a_worker_does_not_get_what_a_dispatcher_took_meanwhile(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    now = first.clock.now()
    taken: list[str] = []

    def take() -> None:
        claim = second.claim_range(QUEUE, "two", 2, now, lease_seconds=60)
        taken.extend(job.id for job in claim.jobs)

    before(monkeypatch, first, "share", take)
    [claimed] = first.claim([QUEUE], [Taker("ada", 10)], now, nonce="n")
    assert taken == ["a", "b"]
    assert [one.id for one in claimed] == ["c"]


def test_a_queue_is_not_deleted_while_a_job_comes_into_it(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    deliver_all(first, "one")
    now = first.clock.now()
    new = NewJob("d", "q", now, b"{}", 0, now)
    before(monkeypatch, first, "insert_plain", lambda: second.delete_queue("q", now, 100))
    assert not first.insert([new], now)
    assert [queue.name for queue in second.queues()] == ["q"]
    assert second.get("d") is not None


def touched(store: PgStore, *claims: Claimed) -> list[Touched | Refused]:
    touches = [Touch(one.id, one.epoch, 60.0) for one in claims]
    return store.touch(touches, store.clock.now())


def claimed(store: PgStore) -> list[Claimed]:
    [claims] = store.claim([QUEUE], [Taker("ada", 10)], store.clock.now(), nonce="n")
    return claims


def test_a_heartbeat_sees_what_came_between_its_look_and_its_write(
    nodes: tuple[PgStore, PgStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    claims = claimed(first)
    stop = JobChange(ChangeVerb.STOP)
    before(monkeypatch, first, "touch", lambda: second.change(["b"], stop, second.clock.now()))
    until = first.clock.now() + 60_000
    assert touched(first, *claims) == [Touched(until, one.id == "b") for one in claims]
    job = second.get("b")
    assert job is not None
    assert (job.state, job.cancel_requested) == (State.EXECUTING, True)


def test_a_heartbeat_that_waited_for_the_end_of_its_claim_is_refused(
    nodes: tuple[PgStore, PgStore],
) -> None:
    first, second = nodes
    claims = claimed(first)
    ends = [Settlement(one.id, one.epoch, Verb.RELEASE) for one in claims[:1]]
    with ThreadPoolExecutor(1) as pool:

        def release(tx: PgTx) -> Future[list[Touched | Refused]]:
            PgStore.settle.__wrapped__(second, tx, ends, second.clock.now())  # type: ignore[attr-defined]
            beat = pool.submit(touched, first, *claims)
            eventually(lambda: waits_for_a_lock(Desk(second, FakeClock())))
            return beat

        refused, *rest = second.db.write(release).result()
    assert isinstance(refused, Refused)
    assert all(isinstance(one, Touched) for one in rest)
