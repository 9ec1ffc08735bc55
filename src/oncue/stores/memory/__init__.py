"""The memory store: the reference that every other store is compared with."""

from oncue.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
