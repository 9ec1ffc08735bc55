"""Connections of others: which psycopg connection is behind what a caller gives. SQLAlchemy and
Django are not imported: a program that has one of their connections has imported them."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import psycopg
from psycopg.pq import PipelineStatus

from oncue.core.errors import InvalidInput

C = TypeVar("C", psycopg.Connection[Any], psycopg.AsyncConnection[Any])
_SYNC = (
    "a Connection of psycopg 3, a Connection or Session of SQLAlchemy on postgresql+psycopg, "
    "or django.db.connection of Django 4.2 or later with psycopg 3"
)
_ASYNC = (
    "an AsyncConnection of psycopg 3, or an AsyncConnection or AsyncSession of SQLAlchemy on "
    "postgresql+psycopg"
)


def borrowed(given: Any) -> psycopg.Connection[Any]:
    """The connection on which the caller's statements run."""
    found = given
    if _is(found, "sqlalchemy.orm", "Session", "scoped_session"):
        found = found.connection()
    if _is(found, "sqlalchemy.engine", "Connection"):
        if not found.in_transaction():
            found.begin()  # as its own `execute` does: else its `commit` would do nothing
        found = found.connection.driver_connection
    elif _is_django(found):
        found.ensure_connection()
        found = found.connection
    if isinstance(found, psycopg.Connection):
        return _unpiped(found)
    if isinstance(found, psycopg.AsyncConnection) or _is_async(found):
        instead = f"Use AsyncScheduler for it, or in a handler complete_async, or give {_SYNC}"
        raise _refused(given, found, instead)
    raise _refused(given, found, f"Give {_SYNC}")


async def borrowed_async(given: Any) -> psycopg.AsyncConnection[Any]:
    """The same for asyncio."""
    found = given
    if _is(found, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session"):
        found = await found.connection()
    if _is(found, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        if not found.in_transaction():
            await found.begin()
        found = found.sync_connection.connection.driver_connection
    if isinstance(found, psycopg.AsyncConnection):
        return _unpiped(found)
    raise _refused(given, found, f"Give {_ASYNC}")


def _unpiped(connection: C) -> C:
    """In the pipeline mode of psycopg, answers come after the call."""
    if connection.info.pipeline_status != PipelineStatus.OFF:
        raise InvalidInput("it is in pipeline mode. Leave that mode first.", "/connection")
    return connection


def _is_async(given: object) -> bool:
    kinds = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    return _is(given, "sqlalchemy.ext.asyncio", *kinds)


def _is(given: object, module: str, *names: str) -> bool:
    """Whether it is of one of these classes, which may not be there."""
    loaded = sys.modules.get(module)
    kinds = tuple(kind for name in names if (kind := getattr(loaded, name, None)) is not None)
    return isinstance(given, kinds)


def _is_django(given: object) -> bool:
    """`django.db.connection` stands for the connection of its thread, so its class is another."""
    if "django.db" not in sys.modules:
        return False
    return getattr(given, "vendor", "") == "postgresql" and hasattr(given, "ensure_connection")


def _refused(given: object, found: object, instead: str) -> InvalidInput:
    kind = _name(given) if found is given else f"{_name(given)} on {_name(found)}"
    return InvalidInput(f"{kind} cannot be used here. {instead}.", "/connection")


def _name(given: object) -> str:
    kind = type(given)
    return f"{kind.__module__}.{kind.__qualname__}"
