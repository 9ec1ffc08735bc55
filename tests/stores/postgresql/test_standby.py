"""A primary dies and its standby takes over: what is not known is said, and all else goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from urllib.parse import quote

import psycopg
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.lifecycle import State
from oncue.stores.postgresql import news
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.connections import insistent
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk
from tests.servers.postgres import PostgresServer
from tests.servers.standby import PostgresPair
from tests.stores.postgresql.faults import PATIENCE, eventually, in_thread

HOUR_MS = 3_600_000
AHEAD = """
CREATE SCHEMA ahead;
CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$
  SELECT pg_catalog.clock_timestamp()
    + CASE current_setting('port') WHEN '{port}' THEN interval '1 hour' ELSE interval '0' END
$$
"""
"""A function that is found before the one of the server: the clock of one server is ahead."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PostgresPair]:
    with PostgresPair(tmp_path) as pair:
        yield pair


def desk_at(url: str) -> Desk:
    clock = FakeClock()
    return Desk(PgStore(PgAddress.read(url), clock), clock)


def waits_for_standby(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        return bool(connection.execute(query).fetchall())


def has_tables(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT to_regclass('oncue.jobs') IS NOT NULL").fetchone()
        return row == (True,)


def test_everything_goes_on_at_the_standby_that_took_over(
    pair: PostgresPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims of before are good, and news are heard, on connections to the other server."""
    told: list[str | None] = []
    desk, other = desk_at(pair.url), desk_at(pair.url)
    with closing(desk.store), closing(other.store):
        other.store.watch(lambda queue, due_at: told.append(queue))
        claimed = desk.take("a")
        desk.add("b")
        pair.fail_over()
        assert sorted(desk.listed()) == ["a", "b"]
        assert desk.complete(claimed) is None
        assert desk.claimed_ids() == ["b"]
        monkeypatch.setattr(news, "LISTEN_SECONDS", 3600.0)  # for rests that begin now

        def is_heard() -> bool:
            """Also by a look, until the last rest of the usual length is over."""
            told.clear()
            desk.add(queue="q2")
            time.sleep(0.05)
            return bool(told)

        for _ in range(3):
            eventually(is_heard)


def test_a_commit_of_which_the_new_primary_knows_nothing_is_told_and_not_repeated(
    pair: PostgresPair,
) -> None:
    """The old primary waits for a standby that has become its successor, and then dies."""
    desk = desk_at(pair.url)
    with closing(desk.store):
        desk.add("a", due_in=60)
        old = pair.primary
        pair.standby.promote()
        with in_thread(lambda: desk.cancel("a")) as cancelling:
            eventually(lambda: waits_for_standby(old))
            old.stop("immediate")
            with pytest.raises(StoreUnavailable, match="not known whether it was made"):
                cancelling.result(PATIENCE)
        assert desk.state("a") is State.SCHEDULED
        assert desk.cancel("a").refused is None


@pytest.mark.usefixtures("impatient")
def test_a_standby_is_used_for_writes_as_soon_as_it_has_taken_over(pair: PostgresPair) -> None:
    desk_at(pair.url).store.close()
    eventually(lambda: has_tables(pair.standby))
    desk = desk_at(pair.standby.url)
    with closing(desk.store):
        assert desk.listed() == []
        with pytest.raises(StoreUnavailable, match="no writes"):
            desk.add("a")
        pair.fail_over()
        assert desk.add("a") == "a"


def test_the_time_is_that_of_the_server_that_took_over(pair: PostgresPair) -> None:
    """The clock of the first one is an hour ahead: by it, jobs would be delivered early."""
    with psycopg.connect(pair.primary.url, autocommit=True) as connection:
        connection.execute(AHEAD.format(port=pair.primary.port).encode())
    option = quote("-csearch_path=ahead,pg_catalog")
    with closing(PgStore(PgAddress.read(f"{pair.url}&options={option}"))) as store:
        before = store.clock.now()
        pair.fail_over()
        store.queues()
        assert before - store.clock.now() > HOUR_MS / 2


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_nobody_can_be_asked_about_is_not_known(server: PostgresServer) -> None:
    desk = desk_at(server.url)
    with closing(desk.store):
        desk.add("a", due_in=60)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            connection.execute("SELECT pg_reload_conf()")
        with in_thread(lambda: desk.cancel("a")) as cancelling:
            eventually(lambda: waits_for_standby(server))
            server.stop("immediate")
            with pytest.raises(StoreUnavailable, match="not known whether it was made"):
                cancelling.result(PATIENCE)


def test_a_server_that_is_back_is_found_at_once(server: PostgresServer) -> None:
    server.stop("immediate")
    with in_thread(lambda: insistent(Event(), PATIENCE).connect(server.url)) as connecting:
        server.start()
        connecting.result(PATIENCE).close()
    server.stop("immediate")
    closing_now = Event()
    closing_now.set()
    with pytest.raises(psycopg.OperationalError):
        insistent(closing_now, PATIENCE).connect(server.url)


def test_a_server_that_does_not_answer_keeps_nobody_from_the_next_one(
    server: PostgresServer,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{server.port}"
        desk = desk_at(f"postgresql://postgres@{hosts}/postgres?connect_timeout=2&pool_size=2")
        with closing(desk.store):
            assert desk.add("a") == "a"
