"""The URL of a PostgreSQL store. It may hold a password: no text that is made here repeats it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from oncue.core.errors import InvalidInput

DEFAULT_SCHEMA = "oncue"
POOL_SIZE = 10
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FORM = "write it as postgresql://USER@HOST/DATABASE, with ?schema=… for another schema than oncue"
_CHOICES = {"listen": ("auto", "yes", "no"), "migrate": ("yes", "no")}
_OURS = frozenset({"schema", "pool_size", *_CHOICES})


class PgAddress(NamedTuple):
    conninfo: str
    """For libpq, which knows all other options of the URL. May hold a password."""
    shown: str
    """Server and database, for people."""
    schema: str = DEFAULT_SCHEMA
    pool_size: int = POOL_SIZE
    """How many connections a process has at most, besides the one that listens."""
    listen: str = "auto"
    """`no`: other processes are not told by NOTIFY, and look instead; for poolers that give each
    transaction another connection. `auto`: that is found out."""
    migrate: bool = True
    """Whether opening the store creates or updates its tables."""

    @classmethod
    def read(cls, url: str) -> PgAddress:
        """Refuses what is not such a URL, and every URL where psycopg is not installed."""
        try:
            parts = urlsplit(url)
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InvalidInput(f"this is not a URL; {_FORM}.", "/store") from None
        if parts.fragment or not parts.path.strip("/") or not url.startswith(f"{parts.scheme}://"):
            raise InvalidInput(f"it names no database; {_FORM}.", "/store")
        told = {name: value for name, value in pairs if name in _OURS}
        rest = urlencode([pair for pair in pairs if pair[0] not in _OURS])
        _require_driver()
        return cls(
            urlunsplit(("postgresql", parts.netloc, parts.path, rest, "")),
            f"{parts.netloc.rpartition('@')[2] or 'this machine'}/{unquote(parts.path.strip('/'))}",
            **_options(told),
        )


def _options(told: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = dict(told)
    if not _SCHEMA.fullmatch(told.get("schema", DEFAULT_SCHEMA)):
        raise InvalidInput("the schema is a name of lower-case letters, digits and '_'.", "/store")
    if "pool_size" in told:
        size = told["pool_size"]
        if not (size.isdecimal() and 1 <= int(size[:5]) <= 1000):
            raise InvalidInput("pool_size is a number from 1 to 1000.", "/store")
        options["pool_size"] = int(size)
    for name, allowed in _CHOICES.items():
        if told.get(name, allowed[0]) not in allowed:
            raise InvalidInput(f"{name} is one of {', '.join(allowed)}.", "/store")
    if "migrate" in told:
        options["migrate"] = told["migrate"] == "yes"
    return options


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "PostgreSQL needs psycopg: pip install 'oncue[postgres]'.", "/store"
        ) from None
