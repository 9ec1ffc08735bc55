"""The URL of a PostgreSQL store. It may hold a password: no text that is made here repeats it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from oncue.core.errors import InvalidInput
from oncue.core.redaction import shown_url
from oncue.core.text import quoted, suggestion

DEFAULT_SCHEMA = "oncue"
POOL_SIZE = 10
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,56}")  # with a word before it, also that of a channel
_FORM = "write it as postgresql://USER@HOST/DATABASE, with ?schema=… for another schema than oncue"
_ESCAPES = "In names and passwords: / is %2F, : is %3A, @ is %40, ? is %3F, # is %23, % is %25."
_LOGIN = re.compile(r"(?:[^\s%:@/]|%[0-9a-fA-F]{2})*(?::(?:[^\s%:@/]|%[0-9a-fA-F]{2})*)?")
_HOST = r"(?:\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|[\w.~%-]*)(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_DATABASE = re.compile(r"[^\s:@/]*")
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
        login, _, hosts = parts.netloc.rpartition("@")
        database = parts.path.removeprefix("/")
        if not url.startswith(f"{parts.scheme}://"):
            raise InvalidInput(f"this is not a URL; {_FORM}.", "/store")
        whole = (_LOGIN.fullmatch(login), _HOSTS.fullmatch(hosts), _DATABASE.fullmatch(database))
        if parts.fragment or None in whole:
            raise InvalidInput(f"this cannot be read; {_FORM}. {_ESCAPES}", "/store")
        if not database:
            raise InvalidInput(f"it names no database; {_FORM}.", "/store")
        given = {name: value for name, value in pairs if name in _OURS}
        # As they were written: libpq does not take a plus for a space.
        rest = "&".join(
            one for one in parts.query.split("&") if unquote(one.partition("=")[0]) not in _OURS
        )
        _require_driver()
        # `urlunsplit` would leave out the slashes of a host that is not named.
        conninfo = f"postgresql://{parts.netloc}{parts.path}" + (f"?{rest}" if rest else "")
        _check_options(url, [name for name, _ in pairs if name not in _OURS])
        _check(conninfo)
        return cls(conninfo, f"{hosts or 'this machine'}/{unquote(database)}", **_options(given))

    def __repr__(self) -> str:
        return f"PgAddress({self.shown!r}, schema={self.schema!r})"


def _check_options(url: str, names: list[str]) -> None:
    from psycopg.pq import Conninfo

    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    unknown = [name for name in names if name not in known]
    if unknown:
        # In a URL with a password it may be a piece of that: then only a known one is named.
        near = next(filter(None, (suggestion(name, known | _OURS) for name in unknown)), "")
        which = "one in the URL (not shown: it may be part of the password)"
        if shown_url(url) == url:
            which, near = quoted(unknown[0]), suggestion(unknown[0], known | _OURS)
        ours = ", ".join(sorted(_OURS))
        raise InvalidInput(
            f"there is no such option: {which}.{near} Known are {ours}, and those of libpq.",
            "/store",
        )


def _check(conninfo: str) -> None:
    """libpq quotes what it cannot read, with the password in it: so nothing of that is told."""
    from psycopg import Error
    from psycopg import conninfo as libpq

    try:
        libpq.conninfo_to_dict(conninfo)
    except Error:
        raise InvalidInput(f"libpq cannot read it; {_FORM}. {_ESCAPES}", "/store") from None


def _options(given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = dict(given)
    if not _SCHEMA.fullmatch(given.get("schema", DEFAULT_SCHEMA)):
        text = "the schema is a name of at most 57 lower-case letters, digits and '_'."
        raise InvalidInput(text, "/store")
    if "pool_size" in given:
        size = given["pool_size"]
        if not (size.isdecimal() and 1 <= int(size[:5]) <= 1000):
            raise InvalidInput("pool_size is a number from 1 to 1000.", "/store")
        options["pool_size"] = int(size)
    for name, allowed in _CHOICES.items():
        if given.get(name, allowed[0]) not in allowed:
            raise InvalidInput(f"{name} is one of {', '.join(allowed)}.", "/store")
    if "migrate" in given:
        options["migrate"] = given["migrate"] == "yes"
    return options


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "PostgreSQL needs psycopg: pip install 'oncue[postgres]'.", "/store"
        ) from None
