"""What tests of a PostgreSQL store in trouble have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.sharing import Taker
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk, Q
from tests.servers.postgres import PostgresServer

PATIENCE = 30.0
SOON = 1.0  # seconds that stand for the ten and thirty of a store in use


def eventually(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, "it does not come about"
        time.sleep(0.01)


def store_of(desk: Desk) -> PgStore:
    assert isinstance(desk.store, PgStore)
    return desk.store


def address_of(desk: Desk) -> PgAddress:
    return store_of(desk).db.address


def another(desk: Desk, **fields: Any) -> Desk:
    """Another node on the same data."""
    store = PgStore(address_of(desk)._replace(**fields), desk.clock, shards=4)
    return Desk(store, desk.clock)


def new_desk(server: PostgresServer, **options: str) -> Desk:
    """On the server of the test."""
    clock = FakeClock()
    query = "".join(f"&{name}={value}" for name, value in options.items())
    return Desk(PgStore(PgAddress.read(f"{server.url}?schema=oncue{query}"), clock), clock)


@contextmanager
def somebody(desk: Desk) -> Iterator[psycopg.Connection[Any]]:
    """Another program on the server, in the schema of the store."""
    with psycopg.connect(address_of(desk).conninfo) as connection:
        connection.execute(f"SET search_path = {address_of(desk).schema}".encode())
        connection.commit()
        yield connection


def cut(desk: Desk, query: str = "%") -> int:
    """End the store's connections whose last statement is like this. How many there were."""
    sql = (
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name = 'oncue' AND pid <> pg_backend_pid() AND query LIKE %s "
        "AND query LIKE %s"
    )
    with psycopg.connect(address_of(desk).conninfo, autocommit=True) as connection:
        return len(connection.execute(sql, [query, f"%{address_of(desk).schema}%"]).fetchall())


def waits_for_a_lock(desk: Desk) -> bool:
    sql = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND application_name = 'oncue' AND query LIKE %s"
    )
    with psycopg.connect(address_of(desk).conninfo, autocommit=True) as connection:
        return bool(connection.execute(sql, [f"%{address_of(desk).schema}%"]).fetchall())


@contextmanager
def in_thread(call: Callable[[], Any]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call)


def take_and_complete(desk: Desk, worker: str, nonce: str) -> list[str]:
    """As a worker does it who asks again if it got no answer. The jobs whose completion was
    acknowledged."""
    again = False
    while True:
        try:
            takers = [Taker(worker, 100)]
            [claims] = desk.store.claim([Q], takers, desk.now, nonce=nonce, again=again)
            break
        except StoreUnavailable:
            again = True
    return [claim.id for claim in claims if desk.complete(claim) is None]
