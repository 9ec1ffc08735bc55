"""The PostgreSQL store, whole."""

from __future__ import annotations

from collections.abc import Callable, Collection

from oncue.core.errors import StoreUnusable
from oncue.core.moment import Moment
from oncue.core.retention import Pruned, Retention
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, StoreFacts, Traits
from oncue.stores.postgresql import schema
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.bulk import PgBulk
from oncue.stores.postgresql.clock import DatabaseClock
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.known_lines import KnownLines
from oncue.stores.postgresql.listing import PgListing
from oncue.stores.postgresql.news import PgNews
from oncue.stores.postgresql.outbox import PgOutbox
from oncue.stores.postgresql.queues import PgQueues
from oncue.stores.postgresql.range_asked import ShardPatience
from oncue.stores.postgresql.readying import Expiries
from oncue.stores.postgresql.relational import PgRelational
from oncue.stores.postgresql.settings import KnownSettings
from oncue.stores.postgresql.shards import LineHead
from oncue.stores.postgresql.transfer import PgTransfer

DEFAULT_SHARDS = 4


class PgStore(PgQueues, PgRelational, PgListing, PgBulk, PgTransfer):
    """`oncue.ports.store.Store` on a schema of a PostgreSQL database. Without a clock of the
    caller, time is that of the server."""

    def __init__(
        self, address: PgAddress, clock: Clock | None = None, *, shards: int = DEFAULT_SHARDS
    ) -> None:
        self.db = PgDatabase(address)
        self.shards = shards
        self._settings = KnownSettings()
        try:
            self.secret = schema.prepare(self.db)
            self.clock = clock or DatabaseClock(self.db)
        except BaseException:
            self.db.close()
            raise
        self._known_lines = KnownLines(self.clock)
        self._patience = ShardPatience(self.clock)
        self._expiries = Expiries(self.clock)
        self.queues()  # known from the beginning: new jobs go to the right shards
        self._news = PgNews(
            self.db, self._look_for_news, self._known_lines, lambda: self.clock, self._revision
        )
        self.db.on_commit = self._news.note_news
        self.outbox = PgOutbox(self, self._news, self.secret)
        self.traits = Traits(
            notice_seconds=self._news.rest_seconds,
            is_remote=True,
            groups=4,
        )

    def _revision(self) -> str:
        return str(self.db.once(lambda tx: tx.run("queues", "revision").get))

    def _look_for_news(self, queues: Collection[str] | None) -> tuple[str, dict[str, Moment]]:
        """When each of these queues (None: of all) may have something to take, or earlier. So
        many statements, however many queues there are."""
        found = self.queues()
        names = [
            one.name for one in found if not one.paused and (queues is None or one.name in queues)
        ]
        begun = self._known_lines.begin_everywhere({name: self._shards_of(name) for name in names})
        asked = {"queues": names}
        [revision], lines, returns = self.db.once(
            lambda tx: tx.together(
                ("queues", "revision", None),
                ("claims", "lines_of", asked),
                ("claims", "returns_of", asked),
            )
        )
        dues: dict[str, Moment] = dict(returns)
        heads: dict[str, list[LineHead]] = {}
        for queue, *head, at in lines:
            heads.setdefault(queue, []).append(LineHead._make(head))
            dues[queue] = min(at, dues.get(queue, at))
        for look in begun:
            self._known_lines.learn(look, heads.get(look.queue, ()))
        return str(revision[0]), dues

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self._news.watch(listener, queues)

    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        jobs = self._prune_jobs(kept, now, limit)
        with self._read() as tx:
            are_over = self._are_events_over(tx, now, kept.bounds)
        more = are_over and self._prune_events(now, kept.bounds, limit)
        return Pruned(jobs.jobs, jobs.more or more)

    def describe(self) -> StoreFacts:
        address = self.db.address
        with self.db.reading() as tx:
            version = tx.connection.info.server_version
            found = schema.stored_schema(self.db, tx.connection)
            if found is None:
                raise StoreUnusable(
                    f"{address.shown}: schema {address.schema} had tables that are gone. Restore a "
                    "backup, or run 'oncue migrate' to begin with empty ones."
                )
        details = {
            "kind": "postgresql",
            "place": address.shown,
            "schema_name": address.schema,
            "postgresql": f"{version // 10_000}.{version % 10_000}",
            "schema": found,
            "listens": self._news.listens,
            "notice_seconds": self.traits.notice_seconds,
        }
        return StoreFacts("postgresql", details, schema=found)

    def close(self) -> None:
        self._news.close()
        self.outbox.close()
        self.db.close()
