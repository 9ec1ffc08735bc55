"""Stores: the adapters that keep state durably. `open_store` finds one by its URL."""

from __future__ import annotations

import re
from pathlib import Path

from oncue.core.errors import InvalidInput
from oncue.core.redaction import shown_url
from oncue.core.text import quoted, suggestion
from oncue.ports.clock import Clock
from oncue.ports.store import Store

_SCHEMES = ("sqlite", "postgresql", "dynamodb", "memory")
_KEY_AND_VALUE = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")


def store_of(given: str | Store, clock: Clock | None = None) -> Store:
    """The store that a URL names, or the store itself. What is neither is refused."""
    if isinstance(given, str):
        return open_store(given, clock)
    if isinstance(given, type) or not hasattr(given, "traits"):
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        raise InvalidInput(
            "must be a URL in text, such as 'sqlite:///jobs.db' or "
            f"'postgresql://USER@HOST/DATABASE', and is of type {kind}.",
            "/store",
        )
    return given


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
    raise _no_store(url, scheme)


def _no_store(url: str, scheme: str) -> InvalidInput:
    if _KEY_AND_VALUE.match(url):
        return InvalidInput(
            "this is a connection string of libpq, and not a URL; write it as "
            "postgresql://USER@HOST/DATABASE, or with a service as "
            "postgresql:///DATABASE?service=NAME.",
            "/store",
        )
    return InvalidInput(
        f"there is no store for {quoted(shown_url(url))}; the ones that exist are sqlite:///FILE, "
        "postgresql://USER@HOST/DATABASE, dynamodb://TABLE?region=… and memory:."
        f"{suggestion(scheme.lower(), _SCHEMES)}",
        "/store",
    )
