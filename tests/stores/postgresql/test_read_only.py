"""Servers that take no writes, for a while or for good."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.lifecycle import State
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk
from tests.servers.postgres import PostgresServer
from tests.stores.postgresql.faults import (
    PATIENCE,
    eventually,
    in_thread,
    new_desk,
)


def set_read_only(server: PostgresServer, switch: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {switch}".encode())
        connection.execute("SELECT pg_reload_conf()")

    def is_set() -> bool:
        with psycopg.connect(server.url) as connection:
            row = connection.execute("SHOW default_transaction_read_only").fetchone()
            return row is not None and row[0] == switch

    eventually(is_set)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_takes_no_writes_is_told_from_one_that_is_broken(
    server: PostgresServer,
) -> None:
    desk = new_desk(server)
    with closing(desk.store):
        claimed = desk.take("a")
        desk.add("b")
        set_read_only(server, "on")
        calls = (lambda: desk.add("c"), lambda: desk.complete(claimed), lambda: desk.claim())
        for call in calls:
            with pytest.raises(StoreUnavailable, match="no writes"):
                call()
        assert sorted(desk.listed()) == ["a", "b"]
        set_read_only(server, "off")
        assert desk.complete(claimed) is None
        assert desk.claimed_ids() == ["b"]


def test_a_write_waits_for_a_server_that_soon_takes_writes_again(server: PostgresServer) -> None:
    desk = new_desk(server)
    with closing(desk.store):
        desk.add("a")
        set_read_only(server, "on")
        with in_thread(lambda: desk.cancel("a")) as cancelling:
            eventually(lambda: rolled_back(server))
            set_read_only(server, "off")
            assert cancelling.result(PATIENCE).refused is None
        assert desk.state("a") is State.CANCELLED


def rolled_back(server: PostgresServer) -> bool:
    """Whether a transaction was; the server counts a little later."""
    with psycopg.connect(server.url) as connection:
        row = connection.execute(
            "SELECT xact_rollback > 0 FROM pg_stat_database WHERE datname = 'postgres'"
        ).fetchone()
        return row is not None and bool(row[0])


def test_of_two_servers_the_one_is_used_that_takes_writes(
    server: PostgresServer, tmp_path: Path
) -> None:
    with PostgresServer(tmp_path / "other", durable=False) as other:
        for one in (server, other):
            new_desk(one).store.close()
        set_read_only(server, "on")
        hosts = f"127.0.0.1:{server.port},127.0.0.1:{other.port}"
        url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        clock = FakeClock()
        with closing(PgStore(PgAddress.read(url), clock)) as store:
            desk = Desk(store, clock)
            desk.add("a")
            set_read_only(server, "off")
            set_read_only(other, "on")
            desk.add("b")
            assert desk.listed() == ["b"]
        with closing(new_desk(other).store) as store:
            assert Desk(store, clock).listed() == ["a"]
