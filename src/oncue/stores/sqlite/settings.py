"""The settings of queues as a transaction in SQLite sees them: read again only after a change."""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.queue import Queue, default_queue
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.queues import read_queues
from oncue.stores.sqlite.watching import settings_revision


class KnownQueues(NamedTuple):
    revision: int
    """Of the settings."""
    queues: dict[str, Queue]
    without_history: frozenset[str]
    """The queues that keep no history."""

    def of(self, name: str) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = default_queue(name)
        return queue


def queue_settings(db: Database, tx: rows.Tx) -> KnownQueues:
    revision, known = settings_revision(tx), db.settings
    if known is None or known.revision != revision:
        queues = read_queues(tx)
        without_history = frozenset(queue.name for queue in queues if not queue.keeps_history)
        known = KnownQueues(revision, {queue.name: queue for queue in queues}, without_history)
        if not db.watching.settings_changed:  # else this transaction may yet be undone
            db.settings = known
    return known
