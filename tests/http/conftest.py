from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue import Client, Scheduler
from tests.http.server import Server, running_server
from tests.stores.postgres import own_url

ON_HOSTILE_TOO = frozenset({"test_jobs", "test_batch", "test_fencing", "test_workers"})
"""Modules whose tests run on the hostile store, too: those about the life of jobs."""
ON_POSTGRESQL_TOO = frozenset({"test_tasks", "test_agenda"})
"""… and on PostgreSQL: those in which HTTP is that of other systems."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.split(".")[-1]
    if "server" in metafunc.fixturenames:
        kinds = ["sqlite"]
        kinds += ["hostile"] if module in ON_HOSTILE_TOO else []
        kinds += ["postgresql"] if module in ON_POSTGRESQL_TOO else []
        if len(kinds) > 1:
            metafunc.parametrize("server", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One server for a whole module: tests keep apart by their queues, keys and owners."""
    folder: Path = tmp_path_factory.mktemp("server")
    kind = getattr(request, "param", "sqlite")
    weather = "calm" if kind == "hostile" else None
    store = own_url() if kind == "postgresql" else None
    with running_server(folder, weather=weather, store=store) as running:
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
