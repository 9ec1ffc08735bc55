"""Every test in here runs on every store. Stores get the fake clock: nothing sleeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from tests.stores.hostile import HostileStore
from tests.stores.memory import another_node

from .board import Board
from .desk import Desk

OpenStore = Callable[[Clock], Store]
OpenAnother = Callable[[], Store]


def _memory(_: Path, clock: Clock, first: Store | None) -> Store:
    return another_node(first) if isinstance(first, MemoryStore) else MemoryStore(clock)


def _hostile(_: Path, clock: Clock, first: Store | None) -> Store:
    if isinstance(first, HostileStore):
        return first.another_node()
    return HostileStore(MemoryStore(clock), seed=int(os.environ.get("ONCUE_HOSTILE_SEED", "0")))


def _sqlite(path: Path, clock: Clock, _: Store | None) -> Store:
    return SqliteStore(path, clock=clock)


STORES: dict[str, Callable[[Path, Clock, Store | None], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "hostile": _hostile,
}
"""How each kind is opened: with a place of its own, or once more on the data of the first."""


class Opened:
    """Opens stores of one kind, and closes them at the end."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._open = STORES[kind]
        self._folder = folder
        self._numbers = count()
        self._stores: list[tuple[Store, Path]] = []

    def __call__(self, clock: Clock) -> Store:
        """A new empty store."""
        return self._opened(self._folder / f"{next(self._numbers)}.db", clock, None)

    def another(self, first: Store) -> Store:
        """Another node on the same data: a second store object."""
        [path] = [path for store, path in self._stores if store is first]
        return self._opened(path, first.clock, first)

    def close(self) -> None:
        for store, _ in self._stores:
            store.close()

    def _opened(self, path: Path, clock: Clock, first: Store | None) -> Store:
        store = self._open(path, clock, first)
        self._stores.append((store, path))
        return store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def store(open_store: Opened, clock: FakeClock) -> Store:
    return open_store(clock)


@pytest.fixture
def desk(request: pytest.FixtureRequest, store: Store, clock: FakeClock) -> Desk:
    """Its ids are chosen by clients, or minted where a test asks for both (`BOTH_IDS`)."""
    return Desk(store, clock, minted=getattr(request, "param", "chosen") == "minted")


@pytest.fixture
def another(open_store: Opened, store: Store) -> OpenAnother:
    """Opens another node on the data of `store`."""
    return lambda: open_store.another(store)


@pytest.fixture
def twin(another: OpenAnother) -> Store:
    return another()


@pytest.fixture
def board(store: Store, clock: FakeClock) -> Board:
    return Board(store, clock)
