"""The embedded default: one SQLite file, safe for many threads and many processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from oncue.clock import SystemClock
from oncue.core.errors import StoreUnusable
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, StoreFacts, Traits
from oncue.stores.sqlite.changes import SqliteChanges
from oncue.stores.sqlite.claims import SqliteClaims
from oncue.stores.sqlite.connection import file_system, pragma, require_current, tables
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.jobs import SqliteJobs
from oncue.stores.sqlite.presence import steps
from oncue.stores.sqlite.pruning import SqlitePruning
from oncue.stores.sqlite.queues import SqliteQueues
from oncue.stores.sqlite.ranges import SqliteRanges
from oncue.stores.sqlite.reclaims import SqliteReclaims
from oncue.stores.sqlite.relational import SqliteRelational
from oncue.stores.sqlite.statements import load, migrations
from oncue.stores.sqlite.transfer import SqliteTransfer
from oncue.stores.sqlite.watching import WATCH_SECONDS


class SqliteStore(
    SqliteJobs,
    SqliteChanges,
    SqliteClaims,
    SqliteReclaims,
    SqliteRanges,
    SqliteQueues,
    SqlitePruning,
    SqliteRelational,
    SqliteTransfer,
):
    """`oncue.ports.store.Store` on one file. Its clock is the one it was given: on a single machine
    every process reads the same."""

    def __init__(self, path: str | Path, clock: Clock | None = None) -> None:
        self.db = Database(Path(path))
        self.clock: Clock = clock or SystemClock()
        with self.db.reading() as tx:
            self.secret = bytes(tx.execute(load("queues")["meta"], {"name": "secret"}).get)
            self._tables = tables(tx)
        self.traits = Traits(notice_seconds=2 * WATCH_SECONDS)

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self.db.watching.watch(listener, queues)

    def describe(self) -> StoreFacts:
        path = str(self.db.path)
        with self.db.reading() as tx:
            schema = self._require_whole(tx)
            synchronous = int(str(pragma(tx, "synchronous")))
            details = {
                "kind": "sqlite",
                "path": path,
                "sqlite": apsw.sqlite_lib_version(),
                "schema": schema,
                "journal_mode": pragma(tx, "journal_mode"),
                "synchronous": ("OFF", "NORMAL", "FULL", "EXTRA")[synchronous],
                "file_system": file_system(self.db.path),
                "notice_seconds": self.traits.notice_seconds,
            }
        return StoreFacts("sqlite", details, path, schema)

    def _require_whole(self, tx: apsw.Connection) -> int:
        """The version of the schema, if it is the one in use and has the tables it had."""
        schema = require_current(tx, self.db.path)
        lost = self._tables - tables(tx)
        if schema < len(migrations()):
            raise StoreUnusable(
                f"{self.db.path}: an older schema was put in place while it was in use. "
                "Restart every program that uses it."
            )
        if lost:
            raise StoreUnusable(
                f"{self.db.path}: it had tables that are gone: {', '.join(sorted(lost))}. "
                f"Restore a backup: {steps(self.db.path)}"
            )
        return schema

    def close(self) -> None:
        self.db.close()
