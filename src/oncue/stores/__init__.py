"""Stores: the adapters that keep state durably. `open_store` finds one by its URL."""

from __future__ import annotations

from pathlib import Path

from oncue.core.errors import InvalidInput
from oncue.core.redaction import shown_url
from oncue.core.text import quoted
from oncue.ports.clock import Clock
from oncue.ports.store import Store


def open_store(url: str, clock: Clock | None = None) -> Store:
    """The store that a URL names: `sqlite:///relative.db`, `sqlite:////absolute.db`,
    `postgresql://USER@HOST/DATABASE`, `dynamodb://TABLE?region=…`, `memory:`."""
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon and not rest.strip("/"):
        from oncue.stores.memory import MemoryStore

        return MemoryStore(clock)
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        from oncue.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest[3:]), clock)
    if scheme == "sqlite":
        raise InvalidInput(
            f"{quoted(shown_url(url))} names no file; write sqlite:///jobs.db for a file in this "
            "folder, or sqlite:////var/lib/jobs.db (four slashes) for an absolute path.",
            "/store",
        )
    if scheme in ("postgresql", "postgres"):
        from oncue.stores.postgresql.address import PgAddress

        place = PgAddress.read(url)  # before the import of what needs psycopg
        from oncue.stores.postgresql.store import PgStore

        return PgStore(place, clock)
    if scheme == "dynamodb":
        from oncue.stores.dynamodb.address import TableAddress

        address = TableAddress.read(url)  # before the import of what needs boto3
        from oncue.stores.dynamodb.store import DynamoStore

        return DynamoStore.open(address, clock)
    raise InvalidInput(
        f"there is no store for {quoted(shown_url(url))}; the ones that exist are sqlite:///FILE, "
        "postgresql://USER@HOST/DATABASE, dynamodb://TABLE?region=… and memory:.",
        "/store",
    )
