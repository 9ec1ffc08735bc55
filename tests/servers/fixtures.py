"""Fixtures of servers, for the `conftest.py` of those who break them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A PostgreSQL of the test."""
    with PostgresServer(tmp_path / "server") as server:
        yield server
