"""The locks of shards. They are advisory locks of the server, which end with the transaction.

A dispatcher that claims a range holds the lock of the shard alone. A transaction that changes a
waiting job shares the lock, so that no range comes to cover the job meanwhile.

A transaction of another program may hold locks and rows for any length of time. So a statement that
may meet one waits for a bounded time, and then raises `Waited`: others would wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b

from psycopg import errors

from oncue.stores.postgresql.tx import PgTx

NO_PATIENCE_MS = 1
"""The least that the server takes: 0 is without an end. A lock that is free is had by then."""


class Waited(Exception):
    """Somebody else has a lock for longer than it was waited for. Nothing was done."""


@contextmanager
def patient() -> Iterator[None]:
    """For statements that wait with a patience: raises `Waited` if one waited in vain."""
    try:
        yield
    except errors.LockNotAvailable:
        raise Waited from None


@lru_cache(maxsize=65_536)
def shard_lock(schema: str, queue: str, shard: int) -> int:
    """The number of the lock. If two shards have the same, they wait for each other."""
    digest = blake2b(f"{schema}/{queue}/{shard}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def hold(tx: PgTx, number: int) -> None:
    """Hold a lock alone until the end of the transaction."""
    tx.run("locks", "hold", {"number": number})


def be_patient(tx: PgTx, ms: int) -> None:
    """For so long each lock is waited for in this transaction, from here on."""
    tx.run("locks", "patience", {"ms": str(ms)})
