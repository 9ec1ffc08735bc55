"""What a store sends to its server, as libpq tells it."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

from oncue.stores.postgresql.store import PgStore

_MESSAGE = re.compile(r"^[FB]\t\d+\t(\w+)", re.MULTILINE)


class Journeys:
    """How often the server was asked while this was counted."""

    def __init__(self) -> None:
        self._messages: Counter[str] = Counter()
        self.count = 0
        """Journeys to the server and back: after each the store has waited for an answer. One that
        only prepares a statement is not counted: it is made once for each connection."""

    def add(self, trace: str) -> None:
        messages = _MESSAGE.findall(trace)
        self._messages.update(messages)
        self.count += messages.count("Query")
        has_asked = False
        for message in messages:
            has_asked = has_asked or message == "Execute"
            if message == "Sync":
                self.count, has_asked = self.count + has_asked, False

    @property
    def statements(self) -> int:
        return self._messages["Execute"] + self._messages["Query"]

    @property
    def rows(self) -> int:
        """Of the answers."""
        return self._messages["DataRow"]


@contextmanager
def counted(store: PgStore) -> Iterator[Journeys]:
    """On the connections of its pool."""
    found, connection_of = Journeys(), store.db.connection

    @contextmanager
    def traced() -> Iterator[psycopg.Connection[Any]]:
        with connection_of() as connection, tempfile.TemporaryFile("w+") as file:
            connection.pgconn.trace(file.fileno())
            connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            try:
                yield connection
            finally:
                connection.pgconn.untrace()
                file.seek(0)
                found.add(file.read())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.db, "connection", traced)
        yield found
