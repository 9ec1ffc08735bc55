"""A store on the session's server, a server to break, and stores that give up early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.stores.postgresql import database
from tests.contract.desk import Desk
from tests.servers.postgres import PostgresServer
from tests.stores.postgres import open_postgres
from tests.stores.postgresql.faults import (
    SOON,
)


@pytest.fixture
def desk() -> Iterator[Desk]:
    clock = FakeClock()
    with closing(open_postgres(clock, 4)) as store:
        yield Desk(store, clock)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path) as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that are opened give up after a second."""
    monkeypatch.setattr(database, "REPEAT_SECONDS", SOON)
    monkeypatch.setattr(database, "CONNECT_SECONDS", SOON)
    session = database.SESSION.replace(str(database.STATEMENT_MS), str(round(1000 * SOON)), 1)
    monkeypatch.setattr(database, "SESSION", session)
