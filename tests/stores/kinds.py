"""How a store of each kind is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oncue.core.lacks import Lack
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from tests.stores.hostile import HostileStore
from tests.stores.lacking import EVERY_LACK, lacking

KINDS: dict[str, Callable[[Path, Clock, int], Store]] = {
    "memory": lambda _file, clock, _seed: MemoryStore(clock),
    "sqlite": lambda file, clock, _seed: SqliteStore(file, clock),
    "hostile": lambda _file, clock, seed: HostileStore(lacking(MemoryStore(clock)), seed=seed),
}

LACKS: dict[str, frozenset[Lack]] = {"hostile": EVERY_LACK}
"""What a store of each kind cannot do, if anything."""


def store_maker(kind: str, folder: Path, seed: int = 0) -> Callable[[Clock], Store]:
    """Opens a new store of that kind at each call; files are in the folder."""
    opened: list[Store] = []

    def make(clock: Clock) -> Store:
        opened.append(KINDS[kind](folder / f"{len(opened)}.db", clock, seed))
        return opened[-1]

    return make
