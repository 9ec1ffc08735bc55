"""Every test in here runs on every store. Stores get the fake clock: nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.lacks import Lack
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore

from .board import Board
from .desk import Desk

OpenStore = Callable[[Clock], Store]


def _open_memory(_: Path, clock: Clock) -> Store:
    return MemoryStore(clock)


def _open_sqlite(path: Path, clock: Clock) -> Store:
    from oncue.stores.sqlite import SqliteStore

    return SqliteStore(path, clock=clock)


STORES = {"memory": _open_memory, "sqlite": _open_sqlite}
LACKS: dict[str, frozenset[Lack]] = {}
"""What each kind of store cannot do, if anything."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need what their store lacks (`@pytest.mark.needs`)."""

    def is_asked_too_much(item: pytest.Item) -> bool:
        needed = {word for mark in item.iter_markers("needs") for word in mark.args}
        case = getattr(item, "callspec", None)
        return bool(case and needed & LACKS.get(case.params.get("open_store"), frozenset()))

    config.hook.pytest_deselected(items=[one for one in items if is_asked_too_much(one)])
    items[:] = [one for one in items if not is_asked_too_much(one)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens empty stores of the kind under test, and closes them at the end."""
    opened: list[Store] = []
    numbers = count()

    def open_one(clock: Clock) -> Store:
        store = STORES[request.param](tmp_path / f"{next(numbers)}.db", clock)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore, clock: FakeClock) -> Store:
    return open_store(clock)


@pytest.fixture
def desk(store: Store, clock: FakeClock) -> Desk:
    return Desk(store, clock)


@pytest.fixture
def twin(store: Store, clock: FakeClock) -> Iterator[Store]:
    """Another node on the same data: a second connection, or the same memory."""
    from oncue.stores.sqlite import SqliteStore

    if not isinstance(store, SqliteStore):
        yield store
        return
    other = SqliteStore(store.db.path, clock=clock)
    yield other
    other.close()


@pytest.fixture
def board(store: Store, clock: FakeClock) -> Board:
    return Board(store, clock)
