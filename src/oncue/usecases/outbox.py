"""Jobs that are stored in a transaction of the caller, by stores that have an `outbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue.core.errors import NotSupported

if TYPE_CHECKING:
    from oncue.ports.outbox import Outbox
    from oncue.ports.store import Store

_WITHOUT = "Call it without connection= once your transaction is committed."


def outbox_of(store: Store) -> Outbox:
    """Where jobs are stored in transactions of the caller; refused by stores that cannot."""
    outbox: Outbox | None = getattr(store, "outbox", None)
    if outbox is None:
        raise NotSupported(
            "connection=: only a PostgreSQL store (postgresql://…) can store jobs in your own "
            f"transaction, and this is another one. {_WITHOUT}"
        )
    return outbox


def refuse_connection(connection: object) -> None:
    """What a client does with a connection."""
    if connection is not None:
        raise NotSupported(
            "connection=: a Client sends jobs to a server, which cannot take part in your "
            "transaction. Open the PostgreSQL store itself: Scheduler('postgresql://…'). "
            f"Or: {_WITHOUT[0].lower()}{_WITHOUT[1:]}"
        )
