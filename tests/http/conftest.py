from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.server import Server, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for a whole module: tests keep apart by their queues, keys and owners."""
    folder: Path = tmp_path_factory.mktemp("server")
    with running_server(folder) as running:
        yield running
