"""Handlers that complete their jobs in a transaction: with what they write, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool, PoolTimeout

from oncue import ClaimLost, HandledJob, NotSupported, Scheduler
from oncue.client.claim_source import RemoteClaimSource
from oncue.core.errors import Conflict, StoreUnavailable
from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.missed import Look, Missed
from oncue.core.retry import after_lapse
from oncue.ports.claims import ClaimFilter
from oncue.stores.postgresql.outbox import ENDED, STOOD_STILL
from oncue.worker.results import CUT_OFF_TIMES
from oncue.worker.runner import NOT_COMMITTED, NOT_STORED, STILL_OPEN
from oncue.worker.worker import Worker
from tests.contract.desk import Desk, at
from tests.stores.postgresql.conftest import Shop
from tests.stores.postgresql.faults import somebody

NO_PAUSE = {"initial_seconds": 0.001, "max_seconds": 0.001}


def worked(shop: Shop, handle: Callable[[HandledJob], Any], **settings: Any) -> Job:
    """The job after its handler was called once."""
    shop.cue.set_queue("orders", **{"max_attempts": 1, **settings})
    shop.cue.handler("orders")(handle)
    job = shop.cue.schedule({"n": 1}, queue="orders")
    assert Worker(shop.cue).step()
    return shop.cue.job(job.id)


def test_the_effect_and_the_completion_are_committed_together(shop: Shop) -> None:
    seen = []

    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            seen.append((shop.ordered(), shop.cue.job(job.id).state))

    job = worked(shop, handle)
    assert seen == [(0, State.DISPATCHED)]
    assert (job.state, job.result, shop.ordered()) == (State.SUCCEEDED, None, 1)


def test_a_block_that_raises_leaves_nothing_and_the_attempt_has_failed(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            job.complete("done", connection=connection)
            raise ConnectionError("no")

    job = worked(shop, handle)
    assert (job.state, job.error, shop.ordered()) == (State.FAILED, "ConnectionError: no", 0)


def test_a_failure_that_the_block_swallows_leaves_nothing_and_is_told(shop: Shop) -> None:
    """The server answers such a commit by rolling back, without an error."""

    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            job.complete(connection=connection)
            with suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")

    job = worked(shop, handle)
    assert (job.state, shop.ordered()) == (State.FAILED, 0)
    assert "a statement in the transaction failed, and its error was caught" in str(job.error)


def test_a_job_has_one_transaction(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
        with pytest.raises(Conflict, match="it is completed already"), job.transaction():
            raise AssertionError

    job = worked(shop, handle)
    assert (job.state, shop.ordered()) == (State.SUCCEEDED, 1)


@pytest.mark.parametrize(("completed", "told"), [(None, True), ("other", True), ("paid", False)])
def test_what_a_handler_returns_after_its_completion_is_not_stored_and_that_is_logged(
    shop: Shop, caplog: pytest.LogCaptureFixture, completed: str | None, told: bool
) -> None:
    def handle(job: HandledJob) -> str:
        with job.transaction() as connection:
            job.complete(completed, connection=connection)
        return "paid"

    job = worked(shop, handle)
    assert (job.state, job.result) == (State.SUCCEEDED, completed)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ([f"job {job.id}: {NOT_STORED}"] if told else [])


def test_a_result_is_given_to_complete(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            job.complete({"parcel": 1}, connection=connection)
            connection.execute(shop.insert)

    job = worked(shop, handle)
    assert (job.state, job.result, shop.ordered()) == (State.SUCCEEDED, {"parcel": 1}, 1)


@pytest.mark.parametrize("retention", [None, 0], ids=["kept", "removed at once"])
def test_a_transaction_of_the_handler_completes_the_job(
    shop: Shop, retention: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    shop.cue.set_queue("orders", retention_seconds=retention, max_attempts=1)

    @shop.cue.handler("orders")
    def handle(job: HandledJob) -> None:
        with shop.connect() as connection:
            connection.execute(shop.insert.encode())
            job.complete("done", connection=connection)

    job = shop.cue.schedule(1, queue="orders")
    assert Worker(shop.cue).step()
    assert shop.ordered() == 1
    assert shop.waiting("orders") == (0 if retention == 0 else 1)
    if retention is None:
        assert shop.cue.job(job.id).result == "done"
    assert not caplog.records


def test_a_completion_that_is_rolled_back_is_a_failed_attempt(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with shop.connect() as connection:
            connection.execute(shop.insert.encode())
            job.complete("done", connection=connection)
            connection.rollback()

    job = worked(shop, handle)
    assert (job.state, job.error, shop.ordered()) == (State.FAILED, NOT_COMMITTED, 0)


def test_a_completion_that_was_rolled_back_is_tried_again(shop: Shop) -> None:
    shop.cue.set_queue("orders", max_attempts=2, retry=NO_PAUSE)

    @shop.cue.handler("orders")
    def handle(job: HandledJob) -> None:
        with shop.connect() as connection:
            connection.execute(shop.insert.encode())
            job.complete(job.attempt, connection=connection)
            if job.attempt == 1:
                connection.rollback()

    job = shop.cue.schedule(1, queue="orders")
    shop.cue.work(until_empty=True)
    assert (shop.cue.job(job.id).result, shop.ordered()) == (2, 1)


@pytest.mark.parametrize("completed", [True, False])
def test_a_block_that_is_left_by_rollback_is_a_failed_attempt(shop: Shop, completed: bool) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            if completed:
                job.complete(connection=connection)
            raise psycopg.Rollback

    job = worked(shop, handle)
    assert (job.state, shop.ordered()) == (State.FAILED, 0)
    assert job.error is not None
    assert "was rolled back by psycopg.Rollback" in job.error


def test_a_completion_in_a_savepoint_that_is_rolled_back_counts_at_the_end(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            with connection.transaction(force_rollback=True):
                job.complete("done", connection=connection)

    job = worked(shop, handle)
    assert (job.state, job.result, shop.ordered()) == (State.SUCCEEDED, "done", 1)


def test_a_block_in_a_block_is_refused_and_nothing_is_stored(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            with job.transaction() as other:
                other.execute(shop.insert)

    job = worked(shop, handle)
    assert (job.state, shop.ordered()) == (State.FAILED, 0)
    assert job.error is not None
    assert "a block of job.transaction() is open" in job.error


def test_a_completion_on_another_connection_is_refused_at_the_end(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection, shop.connect() as other:
            connection.execute(shop.insert)
            job.complete(connection=other)
            other.rollback()

    job = worked(shop, handle)
    assert (job.state, shop.ordered()) == (State.FAILED, 0)
    assert job.error is not None
    assert "a job has one" in job.error


def test_a_handler_that_leaves_its_transaction_open_keeps_nobody_waiting(
    shop: Shop, open_transaction: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its job is left to that transaction, or to the end of its lease."""

    def handle(job: HandledJob) -> None:
        open_transaction.execute(shop.insert.encode())
        job.complete("done", connection=open_transaction)

    job = worked(shop, handle)
    assert (job.state, STILL_OPEN in caplog.text) == (State.DISPATCHED, True)
    open_transaction.commit()
    assert (shop.cue.job(job.id).state, shop.ordered()) == (State.SUCCEEDED, 1)


def test_leases_are_moved_although_a_job_is_about_to_be_completed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, other = desk.take("a"), desk.take("b")
    with somebody(desk) as transaction:
        transaction.execute("SELECT 1 FROM jobs WHERE id = 'a' FOR UPDATE")
        desk.clock.advance(10)
        look = Look("here", 0, desk.now)
        desk.store.judge_leases(lambda _: (look, Missed(5_000, 5_000)))
    assert desk.job(other.id).lease_until == at(other.lease_until + 5_000)
    assert desk.job(held.id).lease_until == at(held.lease_until)


def test_a_connection_that_breaks_in_a_transaction_costs_no_attempt(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    job = worked(shop, handle)
    assert (job.state, job.attempt, shop.ordered()) == (State.SCHEDULED, 0, 0)


def test_a_job_that_breaks_its_connection_each_time_fails_in_the_end(shop: Shop) -> None:
    shop.cue.set_queue("orders", max_attempts=2, retry=NO_PAUSE)
    calls = []

    @shop.cue.handler("orders")
    def handle(job: HandledJob) -> None:
        calls.append(job.attempt)
        with job.transaction() as connection:
            connection.execute(shop.insert)
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    job = shop.cue.schedule({"n": 1}, queue="orders")
    worker = Worker(shop.cue)
    while shop.cue.job(job.id).state is not State.FAILED:
        worker.step()
    assert calls == [1] * (CUT_OFF_TIMES + 1) + [2] * (CUT_OFF_TIMES + 1)
    assert shop.ordered() == 0


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "closed"])
@pytest.mark.parametrize("then", ["nothing", "complete", "schedule"])
def test_a_block_that_ends_its_transaction_itself_fails_and_no_later_one_with_it(
    shop: Shop, end: str, then: str
) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            if job.payload == "next":
                return
            if end == "closed":
                connection.close()
            else:
                connection.execute(end)
            if then == "complete":
                job.complete(connection=connection)
            if then == "schedule" and end != "closed":
                shop.cue.schedule(1, queue="others", connection=connection)

    job = worked(shop, handle)
    assert (job.state, job.error) == (State.FAILED, f"Conflict: {ENDED}")
    following = shop.cue.schedule("next", queue="orders")
    assert Worker(shop.cue).step()
    assert shop.cue.job(following.id).state is State.SUCCEEDED


def test_a_block_in_which_nothing_was_done_for_too_long_is_a_failed_attempt(shop: Shop) -> None:
    """Else it would be handed back again and again, for ever."""

    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
            connection.close()  # by the server, which says why at the next statement
            raise psycopg.errors.IdleInTransactionSessionTimeout

    job = worked(shop, handle)
    assert (job.state, job.attempt, shop.ordered()) == (State.FAILED, 1, 0)
    assert STOOD_STILL in str(job.error)


def test_a_pool_that_has_no_connection_costs_no_attempt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PoolTimeout

    def handle(job: HandledJob) -> None:
        monkeypatch.setattr(ConnectionPool, "connection", fail)
        with pytest.raises(StoreUnavailable), job.transaction():
            raise AssertionError
        monkeypatch.undo()
        raise StoreUnavailable

    job = worked(shop, handle)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)


def test_an_exception_after_the_commit_does_not_undo_it(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute(shop.insert)
        raise ConnectionError("the mail was not sent")

    job = worked(shop, handle, max_attempts=3)
    assert (job.state, job.attempt, shop.ordered()) == (State.SUCCEEDED, 1, 1)


def test_a_handler_whose_claim_was_lost_changes_nothing(shop: Shop) -> None:
    raised = []

    def handle(job: HandledJob) -> None:
        _take_back(shop, job)
        try:
            with job.transaction() as connection:
                connection.execute(shop.insert)
        except ClaimLost as lost:
            raised.append(lost)
            raise

    job = worked(shop, handle, max_attempts=3)
    assert "Another worker may have the job" in str(raised[0])
    assert (job.state, job.attempt, shop.ordered()) == (State.SCHEDULED, 1, 0)


def test_a_transaction_of_a_handler_whose_claim_was_lost_stays_usable(shop: Shop) -> None:
    seen = []

    def handle(job: HandledJob) -> None:
        _take_back(shop, job)
        with shop.connect() as connection:
            with pytest.raises(ClaimLost):
                job.complete(connection=connection)
            seen.extend(connection.execute("SELECT 1").fetchall())

    job = worked(shop, handle, max_attempts=3)
    assert seen == [(1,)]
    assert (job.state, job.attempt) == (State.SCHEDULED, 1)


def test_a_claim_is_taken_back_although_another_is_about_to_be_completed(shop: Shop) -> None:
    """Whoever takes claims back does not wait for transactions of handlers."""
    refused = []
    other = shop.cue.schedule(1, queue="other")
    shop.cue.claim("other", "somebody")

    def handle(job: HandledJob) -> None:
        store, now = shop.cue.store, shop.cue.clock.now()
        lapses = [
            store.live_claims(ClaimFilter(job_id=one), None, 1).items[0]
            for one in (job.id, other.id)
        ]
        with job.transaction() as connection:
            connection.execute(shop.insert)
            job.complete(connection=connection)
            verdicts = [(one, after_lapse(one, shop.cue.queue(one.queue), now)) for one in lapses]
            refused.append(store.reclaim(verdicts, now))

    job = worked(shop, handle, max_attempts=3)
    assert [(at, why.reason) for at, why in refused[0].items()] == [(0, "moved on")]
    assert (job.state, shop.ordered()) == (State.SUCCEEDED, 1)
    assert shop.cue.job(other.id).state is State.SCHEDULED


def _take_back(shop: Shop, job: HandledJob) -> None:
    """As if its lease had ended."""
    store, now = shop.cue.store, shop.cue.clock.now()
    [lapse] = store.live_claims(ClaimFilter(job_id=job.id), None, 1).items
    assert not store.reclaim([(lapse, after_lapse(lapse, shop.cue.queue(job.queue), now))], now)


class LostAnswer(psycopg.OperationalError):
    pass


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_if_the_answer_to_the_commit_is_lost_the_store_knows(
    shop: Shop, committed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raised = []

    def lose(self: psycopg.Transaction, *_: object) -> bool:
        self.connection.execute("COMMIT" if committed else "ROLLBACK")
        raise LostAnswer

    def handle(job: HandledJob) -> None:
        monkeypatch.setattr(psycopg.Transaction, "__exit__", lose)
        with pytest.raises(StoreUnavailable) as error, job.transaction() as connection:
            connection.execute(shop.insert)
        monkeypatch.undo()
        raised.append(error.value)
        raise error.value

    job = worked(shop, handle)
    assert len(raised) == 1
    assert job.state == (State.SUCCEEDED if committed else State.SCHEDULED)
    assert (job.attempt, shop.ordered()) == (int(committed), committed)
    assert "came too late" not in caplog.text


def test_a_failure_that_is_refused_because_the_job_was_completed_is_no_trouble(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was not seen when the store was asked, and then it was."""
    monkeypatch.setattr(HandledJob, "is_completed", lambda job: False)

    def handle(job: HandledJob) -> None:
        with shop.connect() as connection:
            connection.execute(shop.insert.encode())
            job.complete("done", connection=connection)

    job = worked(shop, handle, max_attempts=3)
    assert (job.state, job.attempt, job.result) == (State.SUCCEEDED, 1, "done")
    assert "came too late" not in caplog.text


def test_heartbeats_do_not_wait_for_a_transaction(shop: Shop) -> None:
    """The one that has completed its job holds its row; the other job needs its heartbeats."""
    shop.cue.set_queue("orders", lease_seconds=1.0, max_attempts=1)
    both = threading.Barrier(2)
    done = []

    @shop.cue.handler("orders")
    def handle(job: HandledJob) -> None:
        both.wait(30)
        if job.payload == "holds":
            with shop.connect() as connection:
                connection.execute(shop.insert.encode())
                job.complete(connection=connection)
                threading.Event().wait(2.5)
        else:
            threading.Event().wait(2.0)
            job.check()
        done.append(job.payload)

    jobs = [shop.cue.schedule(name, queue="orders") for name in ("holds", "beats")]
    shop.cue.work(concurrency=2, until_empty=True)
    assert sorted(done) == ["beats", "holds"]
    assert [shop.cue.job(job.id).state for job in jobs] == [State.SUCCEEDED] * 2
    assert [shop.cue.job(job.id).attempt for job in jobs] == [1, 1]


def test_what_a_handler_made_of_its_connection_does_not_reach_the_next(shop: Shop) -> None:
    seen = []

    @shop.cue.handler("orders")
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            [row] = connection.execute("SHOW work_mem").fetchall()
            seen.append((row, connection.prepare_threshold))
            connection.row_factory = psycopg.rows.dict_row
            connection.prepare_threshold = 0
            connection.execute("SET work_mem = '12345kB'")

    shop.cue.schedule_many(({} for _ in range(20)), queue="orders")
    shop.cue.work(until_empty=True)
    assert seen == [(("4MB",), 5)] * 20


def test_a_process_that_stops_before_its_commit_does_not_hold_the_job_for_long(shop: Shop) -> None:
    """The server ends its session."""
    seen = []

    def handle(job: HandledJob) -> None:
        ask = "SHOW idle_in_transaction_session_timeout"
        with job.transaction() as connection:
            seen.append(connection.execute(ask).fetchone())
            job.complete(connection=connection)
            seen.append(connection.execute(ask).fetchone())

    assert worked(shop, handle).state is State.SUCCEEDED
    assert seen == [("0",), ("10s",)]


def test_asynchronous_handlers_complete_in_transactions_of_asyncio(shop: Shop) -> None:
    async def handle(job: HandledJob) -> None:
        async with await psycopg.AsyncConnection.connect(shop.url) as connection:
            await connection.execute(shop.insert.encode())
            await asyncio.sleep(0)
            await job.complete_async("done", connection=connection)

    job = worked(shop, handle)
    assert (job.state, job.result, shop.ordered()) == (State.SUCCEEDED, "done", 1)


def test_nothing_more_is_reported_after_a_completion(shop: Shop) -> None:
    def handle(job: HandledJob) -> None:
        with job.transaction() as connection:
            job.complete(connection=connection)
            with pytest.raises(Conflict, match="report before that"):
                job.progress(50)
            with pytest.raises(Conflict, match="report before that"):
                job.step("a", lambda: None)

    assert worked(shop, handle).state is State.SUCCEEDED


def test_other_stores_and_batches_refuse_it_by_name(shop: Shop) -> None:
    refusals = []

    def handle(job: HandledJob | list[HandledJob]) -> None:
        one = job[0] if isinstance(job, list) else job
        with suppress(NotSupported):
            try:
                one.complete(connection=object())
            except NotSupported as refusal:
                refusals.append(str(refusal))
                raise
        with pytest.raises(NotSupported), one.transaction():
            raise AssertionError("nothing is begun")

    with Scheduler("memory:") as elsewhere:
        for cue, batch in ((elsewhere, None), (shop.cue, 2)):
            cue.handler("orders", batch=batch)(handle)
            job = cue.schedule(1, queue="orders")
            assert Worker(cue).step()
            assert cue.job(job.id).state is State.SUCCEEDED
    assert "only a worker that has opened a PostgreSQL store" in refusals[0]
    assert "batch=" in refusals[1]
    assert not hasattr(RemoteClaimSource, "outbox")
