"""Jobs that are stored in a transaction of the caller, by psycopg."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.types.numeric import IntLoader

from oncue import Client, IdTaken, InvalidInput, KeyTaken, NotSupported, Scheduler
from oncue.clock import SystemClock
from oncue.core.lifecycle import State
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from tests.servers.postgres import postgres_url
from tests.stores.hostile import HostileStore
from tests.stores.postgresql.conftest import Shop

PATIENCE_SECONDS = 30.0


def test_a_rollback_leaves_nothing(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute(shop.insert.encode())
        shop.cue.schedule(1, queue="mail", connection=connection)
        shop.cue.schedule(2, queue="mail", delay=60, key="k", connection=connection)
        connection.rollback()
    assert (shop.ordered(), shop.waiting("mail")) == (0, 0)
    assert "mail" not in [queue.name for queue in shop.cue.queues()]


def test_nobody_sees_the_job_before_the_commit(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute(shop.insert.encode())
        job = shop.cue.schedule({"to": "ada"}, queue="mail", priority=3, connection=connection)
        assert (shop.ordered(), shop.waiting("mail")) == (0, 0)
    assert shop.ordered() == 1
    assert shop.cue.job(job.id) == job


def test_a_commit_delivers_and_wakes_the_dispatcher(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from oncue.stores.postgresql import known_lines, news

    for module, name in ((news, "LISTEN_SECONDS"), (known_lines, "FULL_LOOK_SECONDS")):
        monkeypatch.setattr(module, name, 600.0)  # so that only a notice can tell
    monkeypatch.setattr(known_lines, "LONGEST_SECONDS", 600.0)
    caplog.set_level("INFO", "oncue.sink.log")
    shop.cue.set_queue("audit", sink="log:")
    shop.cue.run_loops()
    warm = shop.cue.schedule("by the store", queue="audit")
    _await_success(shop.cue, warm.id)
    with shop.connect() as connection:
        job = shop.cue.schedule("by the caller", queue="audit", priority=7, connection=connection)
    _await_success(shop.cue, job.id)


def _await_success(cue: Scheduler, job_id: str) -> None:
    waiting = threading.Event()
    for _ in range(round(PATIENCE_SECONDS / 0.01)):
        if cue.job(job_id).state is State.SUCCEEDED:
            return
        waiting.wait(0.01)
    raise AssertionError(cue.explain(job_id))


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_with_it(shop: Shop) -> None:
    with shop.connect() as connection:
        kept = shop.cue.schedule(1, queue="mail", connection=connection)
        with connection.transaction(force_rollback=True):
            shop.cue.schedule(2, queue="mail", connection=connection)
        also = shop.cue.schedule(3, queue="mail", connection=connection)
    assert {job.id for job in shop.cue.jobs(queue="mail")} == {kept.id, also.id}


def test_the_transaction_is_open_and_usable_afterwards(shop: Shop) -> None:
    with shop.connect() as connection:
        before = _session(connection)
        shop.cue.schedule(1, queue="mail", connection=connection)
        assert connection.info.transaction_status == TransactionStatus.INTRANS
        assert _session(connection) == before
        assert connection.prepare_threshold == 5
        connection.execute(shop.insert.encode())
    assert (shop.ordered(), shop.waiting("mail")) == (1, 1)


def _session(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()
    return [*prepared, *connection.execute("SELECT name, setting FROM pg_settings").fetchall()]


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_nothing_is_replaced_by_what_an_old_snapshot_shows(shop: Shop, isolation: str) -> None:
    there = shop.cue.schedule(1, queue="mail", key="k", delay=60)
    with shop.connect() as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        with pytest.raises(InvalidInput, match="read committed"):
            shop.cue.schedule(2, queue="mail", key="k", if_exists="replace", connection=connection)
        assert shop.cue.schedule(2, queue="mail", key="k", connection=connection) == there
    assert shop.cue.job(there.id) == there


def test_clashes_are_answered_as_ever_and_leave_the_transaction_usable(shop: Shop) -> None:
    there = shop.cue.schedule(1, queue="mail", key="k", delay=60)
    shop.cue.schedule({"n": 1}, id="chosen", queue="mail")
    taken = shop.cue.schedule(1, queue="taken", key="k")
    [claimed] = shop.cue.claim("taken", "somebody")
    with shop.connect() as connection:
        within: dict[str, Any] = {"connection": connection, "queue": "mail"}
        assert shop.cue.schedule(2, key="k", delay=60, **within) == there
        assert shop.cue.schedule({"n": 1}, id="chosen", **within).id == "chosen"
        with pytest.raises(IdTaken):
            shop.cue.schedule({"n": 2}, id="chosen", **within)
        own = shop.cue.schedule(3, key="own", **within)
        assert shop.cue.schedule(4, key="own", **within).id == own.id
        with pytest.raises(KeyTaken):
            shop.cue.schedule(2, queue="taken", key="k", if_exists="replace", connection=connection)
        moved = shop.cue.schedule(5, key="k", delay=120, if_exists="replace", **within)
        assert (moved.id, moved.payload) == (there.id, 5)
        assert shop.cue.job(there.id) == there
        connection.execute(shop.insert.encode())
    assert claimed.id == taken.id
    assert shop.cue.job(there.id) == moved
    assert (shop.ordered(), shop.waiting("mail")) == (1, 3)


def test_a_key_that_another_open_transaction_takes_is_waited_for(shop: Shop) -> None:
    done = threading.Event()
    answers = []

    def ask() -> None:
        with shop.connect() as second:
            answers.append(shop.cue.schedule(2, queue="mail", key="k", connection=second))
        done.set()

    shop.cue.schedule(0, queue="mail")  # so that nobody waits for the queue
    with shop.connect() as first:
        job = shop.cue.schedule(1, queue="mail", key="k", connection=first)
        thread = threading.Thread(target=ask)
        thread.start()
        assert not done.wait(0.3)
    thread.join(PATIENCE_SECONDS)
    assert [answer.id for answer in answers] == [job.id]


def test_a_connection_that_commits_by_itself_stores_at_once(shop: Shop) -> None:
    with shop.connect(autocommit=True) as connection:
        job = shop.cue.schedule(1, queue="mail", key="k", connection=connection)
        assert shop.cue.job(job.id) == job
        replaced = shop.cue.schedule(
            2, queue="mail", key="k", if_exists="replace", connection=connection
        )
        assert shop.cue.job(job.id) == replaced
        assert connection.info.transaction_status == TransactionStatus.IDLE
        with connection.transaction(force_rollback=True):
            shop.cue.schedule(3, queue="mail", connection=connection)
    assert shop.waiting("mail") == 1


class OddCursor(psycopg.Cursor):
    def execute(self, *args: object, **kwargs: object) -> OddCursor:
        raise AssertionError("not ours to use")


def test_what_the_caller_made_of_its_connection_does_not_matter(shop: Shop) -> None:
    connection = shop.connect(row_factory=dict_row, cursor_factory=OddCursor)
    connection.adapters.register_loader("text", IntLoader)
    connection.prepare_threshold = 0
    with connection:
        first = shop.cue.schedule(1, queue="mail", key="k", connection=connection)
        assert shop.cue.schedule(2, queue="mail", key="k", connection=connection).id == first.id
    assert connection.prepare_threshold == 0
    assert shop.waiting("mail") == 1


def test_ten_thousand_are_stored_in_one_transaction(shop: Shop) -> None:
    items = [{"payload": n, "priority": n % 10} for n in range(10_000)]
    with shop.connect() as connection:
        tally = shop.cue.schedule_many(items, queue="mail", connection=connection)
        assert (tally.accepted, tally.existing, len(tally.ids)) == (10_000, 0, 10_000)
        connection.rollback()
        assert shop.waiting("mail") == 0
        shop.cue.schedule_many(items, queue="mail", connection=connection)
        with pytest.raises(InvalidInput, match="item 2"):
            shop.cue.schedule_many([{}, {"priority": 11}], connection=connection)
    assert shop.waiting("mail") == 10_000


def test_a_long_transaction_keeps_nobody_from_a_queue_but_who_deletes_it(shop: Shop) -> None:
    shop.cue.schedule(0, queue="mail", delay=60)
    with shop.connect() as connection:
        shop.cue.schedule(1, queue="mail", connection=connection)
        shop.cue.schedule(2, queue="mail")
        shop.cue.set_queue("mail", max_attempts=5)
        shop.cue.pause("mail")
        shop.cue.resume("mail")
        assert len(shop.cue.claim("mail", "somebody")) == 1
    assert shop.waiting("mail") == 3


def test_a_queue_is_not_deleted_while_a_transaction_stores_a_job_in_it(shop: Shop) -> None:
    shop.cue.cancel(shop.cue.schedule(0, queue="mail", delay=60).id)
    refusals = []

    def delete() -> None:
        try:
            shop.cue.delete_queue("mail")
        except Exception as refusal:
            refusals.append(refusal)

    with shop.connect() as connection:
        job = shop.cue.schedule(1, queue="mail", connection=connection)
        thread = threading.Thread(target=delete)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(PATIENCE_SECONDS)
    assert [type(one).__name__ for one in refusals] == ["Conflict"]
    assert shop.cue.job(job.id) == job


def test_a_connection_to_another_database_is_refused_and_stays_usable(shop: Shop) -> None:
    name = f"other_{uuid4().hex}"
    with shop.connect(autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            with psycopg.connect(shop.url, dbname=name) as other:
                other.execute("CREATE TABLE mine (n int)")
                with pytest.raises(InvalidInput, match="/connection: .* another database"):
                    shop.cue.schedule(1, connection=other)
                other.execute("INSERT INTO mine VALUES (1)")
            there = f"{shop.url.rpartition('/')[0]}/{name}?schema={shop.schema}"
            with (
                Scheduler(there) as cue,
                shop.connect() as here,
                pytest.raises(InvalidInput, match="another database"),
            ):
                cue.schedule(1, connection=here)
        finally:
            connection.execute(f"DROP DATABASE {name} (FORCE)".encode())


@pytest.mark.parametrize(
    "given", [7, "postgresql://here", object()], ids=lambda given: type(given).__name__
)
def test_what_is_no_connection_is_refused_by_name(shop: Shop, given: object) -> None:
    with pytest.raises(InvalidInput, match="psycopg 3.*SQLAlchemy.*Django") as refused:
        shop.cue.schedule(1, connection=given)
    assert refused.value.pointer == "/connection"
    assert type(given).__qualname__ in refused.value.detail


@pytest.mark.parametrize("kind", ["memory", "sqlite", "hostile"])
def test_other_stores_refuse_a_connection(kind: str, tmp_path: Path) -> None:
    stores: dict[str, Store] = {
        "memory": MemoryStore(SystemClock()),
        "sqlite": SqliteStore(tmp_path / "jobs.db", SystemClock()),
        "hostile": HostileStore(MemoryStore(SystemClock()), seed=0),
    }
    with psycopg.connect(postgres_url()) as connection, Scheduler(stores[kind]) as cue:
        with pytest.raises(NotSupported, match="only a PostgreSQL store .* without connection="):
            cue.schedule(1, connection=connection)
        with pytest.raises(NotSupported, match="only a PostgreSQL store"):
            cue.schedule_many([{}], connection=connection)


def test_a_client_refuses_a_connection_before_it_sends_anything() -> None:
    with Client("http://127.0.0.1:9") as cue:
        with pytest.raises(NotSupported, match="Scheduler\\('postgresql://…'\\)"):
            cue.schedule(1, connection=object())
        with pytest.raises(NotSupported, match="a Client sends jobs to a server"):
            cue.schedule_many([{}], connection=object())
