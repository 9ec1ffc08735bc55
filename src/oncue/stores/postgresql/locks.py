"""The locks of shards. They are advisory locks of the server, which end with the transaction.

A dispatcher that claims a range holds the lock of the shard alone. Whoever changes a waiting job
shares it, so that no range comes to cover the job meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from oncue.stores.postgresql.tx import PgTx


@lru_cache(maxsize=65_536)
def shard_lock(schema: str, queue: str, shard: int) -> int:
    """The number of the lock. If two shards have the same, they wait for each other."""
    digest = blake2b(f"{schema}/{queue}/{shard}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def share(tx: PgTx, numbers: Iterable[int]) -> None:
    """Share these locks until the end of the transaction. In one order, against deadlocks."""
    wanted = sorted(set(numbers))
    if wanted:
        tx.run("locks", "share", {"numbers": wanted})


def hold(tx: PgTx, number: int) -> None:
    """Hold a lock alone until the end of the transaction."""
    tx.run("locks", "hold", {"number": number})
