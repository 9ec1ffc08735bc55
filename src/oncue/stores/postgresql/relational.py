"""What `stores/relational` needs of PostgreSQL: transactions, and publications under locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from oncue.core.event import Bounds
from oncue.core.moment import Moment
from oncue.stores.postgresql.joined import PgJoined
from oncue.stores.postgresql.made import PgMade
from oncue.stores.postgresql.publication import PgPublication
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.nouns import RelationalNouns

T = TypeVar("T")


class PgRelational(PgMade, RelationalNouns[PgJoined]):
    """What SQLite has from its one writer holds here by locks. In one order: queues and shards of
    jobs that are withdrawn, events, rules by name, the rest, and last the revision."""

    def _write(self, call: Callable[[PgJoined], T], *, synced: bool = True) -> T:
        def run(tx: PgTx) -> T:
            joined = PgJoined(tx)
            if not synced:
                joined.do("made", "not_synced", {})
            answer = call(joined)
            joined.flush()
            if joined.has_changed_settings:  # last: everybody who changes settings waits for it
                joined.run("queues", "changed")
            return answer

        return self.db.write(run)

    @contextmanager
    def _read(self) -> Iterator[PgJoined]:
        with self.db.reading() as tx:
            yield PgJoined(tx)

    def _publication(self, tx: PgJoined, now: Moment, bounds: Bounds) -> PgPublication:
        return PgPublication(self, tx, now, bounds)
