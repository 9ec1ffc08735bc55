from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue import Client, Scheduler
from tests.http.server import Server, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for a whole module: tests keep apart by their queues, keys and owners."""
    folder: Path = tmp_path_factory.mktemp("server")
    with running_server(folder) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def cue(server: Server) -> Iterator[Scheduler]:
    """The same store, without the server."""
    with Scheduler(server.store) as cue:
        yield cue
