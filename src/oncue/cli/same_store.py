"""Whether two URLs name the same store, however they are written."""

from __future__ import annotations

import os
from typing import Any

from oncue.core.errors import OncueError

_PLACE = ("host", "hostaddr", "dbname", "service")
_PORT = "5432"


def are_same(one: str, other: str) -> bool:
    """As far as the URLs tell: a machine may have several names."""
    return one == other or _named(one) == _named(other)


def _named(url: str) -> tuple[Any, ...]:
    """What the URL names, without what only says how to get there. One that cannot be read names
    nothing that another does."""
    scheme, _, rest = url.partition(":")
    try:
        if scheme == "sqlite":
            return scheme, os.path.realpath(rest.removeprefix("///"))
        if scheme == "dynamodb":
            from oncue.stores.dynamodb.address import TableAddress

            return scheme, *TableAddress.read(url)
        if scheme in ("postgresql", "postgres"):
            return "postgresql", *_database(url)
    except OncueError:
        pass
    return (url,)


def _database(url: str) -> tuple[str | None, ...]:
    from psycopg.conninfo import conninfo_to_dict

    from oncue.stores.postgresql.address import PgAddress

    address = PgAddress.read(url)
    parts = {name: str(value) for name, value in conninfo_to_dict(address.conninfo).items()}
    return address.schema, parts.get("port") or _PORT, *(parts.get(name) for name in _PLACE)
