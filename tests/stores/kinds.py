"""How a store of each kind is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oncue.core.lacks import Lack
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from tests.stores.dynamo import open_dynamo
from tests.stores.hostile import HostileStore
from tests.stores.lacking import EVERY_LACK, lacking
from tests.stores.postgres import open_postgres

KINDS = ("memory", "sqlite", "hostile", "postgresql", "dynamodb")
SERVED = frozenset({"dynamodb", "postgresql"})
"""Kinds whose calls wait for a server: long matrices are sampled there."""
SHARDS = 4  # of a queue on the hostile store and in DynamoDB

LACKS: dict[str, frozenset[Lack]] = {"hostile": EVERY_LACK, "dynamodb": EVERY_LACK}
"""What a store of each kind cannot do, if anything."""


def open_kind(kind: str, file: Path, clock: Clock, seed: int = 0, shards: int = SHARDS) -> Store:
    """An empty store. Memory and SQLite have one shard for each queue."""
    match kind:
        case "memory":
            return MemoryStore(clock)
        case "sqlite":
            return SqliteStore(file, clock)
        case "postgresql":
            return open_postgres(clock, shards)
        case "dynamodb":
            return open_dynamo(clock, shards)
    return HostileStore(lacking(MemoryStore(clock, shards=shards)), seed=seed)


def store_maker(
    kind: str, folder: Path, seed: int = 0, shards: int = SHARDS
) -> Callable[[Clock], Store]:
    """Opens a new store of that kind at each call; files are in the folder."""
    opened: list[Store] = []

    def make(clock: Clock) -> Store:
        file = folder / f"{len(opened)}.db"
        opened.append(open_kind(kind, file, clock, seed, shards))
        return opened[-1]

    return make
