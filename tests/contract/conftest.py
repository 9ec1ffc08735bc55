"""Every test in here runs on every store. Stores get the fake clock: nothing sleeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from tests.stores.kinds import KINDS, LACKS, SHARDS, store_maker
from tests.stores.nodes import another_node

from .board import Board
from .desk import Desk

OpenStore = Callable[[Clock], Store]
OpenAnother = Callable[[], Store]
HOSTILE_SEED = int(os.environ.get("ONCUE_HOSTILE_SEED", "0"))


class Opened:
    """Opens stores of one kind, and closes them at the end."""

    def __init__(self, kind: str, folder: Path, shards: int) -> None:
        self._open = store_maker(kind, folder, HOSTILE_SEED, shards)
        self._stores: list[Store] = []

    def __call__(self, clock: Clock) -> Store:
        """A new empty store."""
        self._stores.append(self._open(clock))
        return self._stores[-1]

    def another(self, first: Store) -> Store:
        """Another node on the same data: a second store object."""
        self._stores.append(another_node(first))
        return self._stores[-1]

    def close(self) -> None:
        for store in self._stores:
            store.close()


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


@pytest.fixture(params=KINDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Queues have four shards where the kind has any, or one if the test is marked `one_shard`."""
    shards = 1 if request.node.get_closest_marker("one_shard") else SHARDS
    opened = Opened(request.param, tmp_path, shards)
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
