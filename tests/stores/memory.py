"""Two nodes on one memory store."""

from __future__ import annotations

from oncue.stores.memory import MemoryStore


def another_node(store: MemoryStore) -> MemoryStore:
    """A second store object on the same state."""
    other = object.__new__(type(store))
    other.__dict__ = store.__dict__
    return other
