"""A scheduler on PostgreSQL with a table of its user beside it; a server to break, and stores that
give up early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.stores.postgresql import database
from tests.contract.desk import Desk
from tests.servers.fixtures import server as server
from tests.stores.postgres import open_postgres, url_of
from tests.stores.postgresql.faults import SOON

SHARDS = 2


class Shop:
    """A scheduler, and the database in which it and its user have their tables."""

    def __init__(self) -> None:
        self.cue = Scheduler(open_postgres(SystemClock(), SHARDS))
        self.schema: str = self.cue.store.db.address.schema  # type: ignore[attr-defined]
        self.url = url_of(self.schema).partition("?")[0]
        self.orders = f"orders_of_{self.schema}"
        with self.connect(autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {self.orders} (n text NOT NULL)".encode())

    def connect(self, **options: object) -> psycopg.Connection:
        return psycopg.connect(self.url, **options)  # type: ignore[arg-type]

    @property
    def insert(self) -> str:
        """A statement of the user."""
        return f"INSERT INTO {self.orders} (n) VALUES ('an order')"

    def ordered(self) -> int:
        """How often that was committed."""
        with self.connect() as connection:
            row = connection.execute(f"SELECT count(*) FROM {self.orders}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def waiting(self, queue: str) -> int:
        """Jobs of a queue that others see."""
        return sum(self.cue.stats(queue).counts.values())

    def close(self) -> None:
        with self.connect(autocommit=True) as connection:
            connection.execute(f"DROP TABLE {self.orders}".encode())
        self.cue.close()


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.close()


@pytest.fixture
def open_transaction(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    """Of a user; closed, and so rolled back, before the shop."""
    connection = shop.connect()
    yield connection
    connection.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    clock = FakeClock()
    with closing(open_postgres(clock, 4)) as store:
        yield Desk(store, clock)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that are opened give up after a second."""
    monkeypatch.setattr(database, "REPEAT_SECONDS", SOON)
    monkeypatch.setattr(database, "CONNECT_SECONDS", SOON)
    session = database.SESSION.replace(str(database.STATEMENT_MS), str(round(1000 * SOON)), 1)
    monkeypatch.setattr(database, "SESSION", session)
