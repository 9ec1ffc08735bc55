"""A place whose poller makes steps by hand, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncue.engine.poller import Poller
from tests.integration.patient.place import Place


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """No poller runs by itself."""
    monkeypatch.setattr(Poller, "start", lambda self: None)


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.cue.close()
