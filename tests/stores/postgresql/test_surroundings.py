"""What a server, a role or a machine is set to must not change what is promised."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import quote

import psycopg
import pytest

from oncue import Scheduler
from oncue.aio import AsyncScheduler
from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import InvalidInput, StoreUnavailable, StoreUnusable
from oncue.core.lifecycle import State
from oncue.stores.postgresql import database, readying
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.clock import DatabaseClock
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.outbox import PgOutbox
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.tx import PgTx
from tests.contract.desk import DELIVERY, Desk
from tests.stores.postgres import own_url
from tests.stores.postgresql.conftest import Shop
from tests.stores.postgresql.proxy import Proxy, behind, port_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_isolation_of_transactions_is_not_that_of_the_role(level: str) -> None:
    """A cancel that waited for a lock would not see what was committed before it got it."""
    option = f"-c default_transaction_isolation={level}".replace("e r", "e\\ r")
    address = PgAddress.read(f"{own_url()}&options={quote(option)}")

    def shown(tx: PgTx) -> str:
        found: str = tx.execute("SHOW transaction_isolation").get
        return found

    with closing(PgDatabase(address)) as db:
        with db.connect() as connection:
            [[default]] = connection.execute("SHOW default_transaction_isolation").fetchall()
        assert default == level
        assert (db.write(shown), db.once(shown)) == ("read committed", "read committed")


class Turned(SystemClock):
    ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_setting_the_clock_of_the_machine_changes_no_time(by_ms: int) -> None:
    with closing(PgDatabase(PgAddress.read(own_url()))) as db:
        clock = Turned()
        theirs = DatabaseClock(db, clock)
        before = theirs.now()
        clock.ahead_ms = by_ms
        assert 0 <= theirs.now() - before < 60_000


def test_who_waits_for_a_moment_wakes_when_it_has_come() -> None:
    with closing(PgDatabase(PgAddress.read(own_url()))) as db:
        ours = FakeClock()
        theirs = DatabaseClock(db, ours)
        moment = theirs.now() + 10
        ours.advance(theirs.seconds_until(moment) - 1e-5)
        assert theirs.now() == moment - 1
        ours.advance(2e-5)
        assert theirs.now() == moment
        assert theirs.seconds_until(moment) < 0 < theirs.seconds_until(moment + 1)


@contextmanager
def own_database(options: str = "") -> Iterator[str]:
    """The URL of a store in a new database."""
    server, _, schema = own_url().partition("?")
    name = f"own_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}".encode())
        try:
            yield f"{server.rpartition('/')[0]}/{name}?{schema}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_database_of_another_encoding_is_refused() -> None:
    with (
        own_database("ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'") as url,
        pytest.raises(StoreUnusable, match="is LATIN1, and oncue needs UTF8"),
    ):
        Scheduler(url)


def test_a_plain_program_is_not_told_of_connections_that_are_replaced() -> None:
    program = """
import sys, psycopg
from oncue import Scheduler

with Scheduler(sys.argv[1]) as cue:
    cue.schedule(1)
    with psycopg.connect(sys.argv[1].partition("?")[0], autocommit=True) as connection:
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
        assert connection.execute(end).fetchall()
    cue.schedule(2)
"""
    with own_database() as url:
        command = [sys.executable, "-c", program, url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- commits whose answer got lost -----------------------------------------------------------------


@pytest.mark.parametrize("in_progress", [False, True])
def test_a_commit_of_which_nothing_is_known_in_time_is_trouble_that_passes(
    monkeypatch: pytest.MonkeyPatch, *, in_progress: bool
) -> None:
    """A dispatcher and a worker repeat what met such trouble; anything else they give up."""
    clock = FakeClock()
    with closing(PgStore(PgAddress.read(own_url()), clock, shards=4)) as store:
        desk = Desk(store, clock)
        desk.set(DELIVERY)
        desk.add_many(2, queue="d")
        claim = desk.claim_range()
        with Proxy(port_of(store.db.address)) as proxy:
            far = PgStore(behind(proxy, store.db.address), clock, shards=4)
            monkeypatch.setattr(database, "REPEAT_SECONDS", 0.2 if in_progress else -1.0)
            if in_progress:
                text = f"SELECT 'in progress', {database._TIMELINE}, %(xid)s::text"
                monkeypatch.setattr(database, "_STATUS", text.replace(", %(xid)s::text", ""))
            proxy.cut("^COMMIT", "during")
            with pytest.raises(StoreUnavailable):
                if in_progress:
                    far.put_queue(None, replace(DELIVERY, name="e"))
                else:
                    far.settle_range(claim, [job.id for job in claim.jobs], {}, desk.now)
            far.close()


# -- many jobs that have expired -------------------------------------------------------------------


def test_jobs_that_have_expired_are_cancelled_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readying, "EXPIRED_AT_ONCE", 5)
    clock = FakeClock()
    with closing(PgStore(PgAddress.read(own_url()), clock, shards=4)) as store:
        desk = Desk(store, clock)
        desk.set(DELIVERY)
        old = desk.add_many(20, queue="d", expires_at=desk.now + 1000)
        clock.advance(2)
        fresh = desk.add(queue="d")
        assert [job.id for job in desk.claim_range().jobs] == [fresh]
        states = [desk.state(job_id) for job_id in old]
        assert states.count(State.CANCELLED) == 5


# -- transactions of others ------------------------------------------------------------------------


def test_an_open_transaction_keeps_only_those_waiting_who_use_its_key(shop: Shop) -> None:
    acue = AsyncScheduler(shop.cue)

    async def main() -> None:
        with shop.connect() as connection:
            shop.cue.schedule(1, queue="orders", key="k", connection=connection)
            waiting = [asyncio.create_task(_keyed(acue)) for _ in range(5)]
            await asyncio.sleep(0)
            plain = (acue.schedule(2, queue="orders") for _ in range(50))
            await asyncio.wait_for(asyncio.gather(*plain), 20)
            assert not any(one.done() for one in waiting)
            connection.rollback()
        await asyncio.gather(*waiting)

    shop.cue.schedule(0, queue="orders")  # the queue is there
    asyncio.run(main())
    assert shop.waiting("orders") == 52


async def _keyed(acue: AsyncScheduler) -> None:
    await acue.schedule(3, queue="orders", key="k")


def test_a_connection_in_pipeline_mode_is_refused(shop: Shop) -> None:
    with (
        shop.connect() as connection,
        connection.pipeline(),
        pytest.raises(InvalidInput, match="it is in pipeline mode"),
    ):
        shop.cue.schedule(1, queue="orders", connection=connection)


def test_a_handler_behind_a_pooler_prepares_nothing() -> None:
    with Scheduler(f"{own_url()}&listen=no") as cue:
        outbox = cue.store.outbox  # type: ignore[attr-defined]
        assert isinstance(outbox, PgOutbox)
        with outbox.transaction() as connection:
            assert connection.prepare_threshold is None
