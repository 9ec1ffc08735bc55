"""Queues in PostgreSQL: settings, what is in them, and the end of what was kept long enough."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from oncue.core.errors import HeldByOthers
from oncue.core.ids import REMEMBERED_MS
from oncue.core.lifecycle import State
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue, QueueStats, default_queue, in_open_use, why_kept
from oncue.core.retention import Pruned, Retention, forgotten_before
from oncue.ports.queues import QueueDeletion
from oncue.stores.postgresql import shards
from oncue.stores.postgresql.locks import Waited, be_patient, hold, patient
from oncue.stores.postgresql.ranges import PgRanges
from oncue.stores.postgresql.settings import rows_of
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.queue_settings import UNSET, read_queue, write_settings

QUEUE_PATIENCE_MS = 1000  # others who store jobs in the queue wait behind it


class PgQueues(PgRanges):
    """Implements `oncue.ports.queues.QueueStore`, but for the pruning of events."""

    def queues(self) -> list[Queue]:
        """Read again only if they have changed: loops ask all the time."""
        at = self.clock.monotonic()
        [mark] = self.db.once(lambda tx: tx.rows("queues", "mark"))
        known = self._settings.all_of(mark, at)
        if known is not None:
            return known
        with self.db.reading() as tx:
            [mark], found = tx.together(("queues", "mark", None), ("queues", "all", None))
        queues = [read_queue(*row) for row in found]
        self._settings.learn(queues, mark, at)
        return queues

    def put_queue(self, seen: Queue | None, queue: Queue) -> bool:
        try:
            stored = self.db.write(partial(self._put_queue, seen, queue))
        except Waited:
            raise HeldByOthers(in_open_use(queue.name)) from None
        if stored:
            self._settings.put(queue)
        return stored

    def _put_queue(self, seen: Queue | None, queue: Queue, tx: PgTx) -> bool:
        with patient():
            be_patient(tx, QUEUE_PATIENCE_MS)
            hold(tx, self._queue_lock(queue.name))
            row = rows_of(tx, [queue.name], lock=True).get(queue.name)
        if (None if row is None else row.queue) != seen:
            return False
        before = seen or default_queue(queue.name)
        if replace(before, paused=queue.paused) != queue:
            settings = write_settings(queue)
        else:
            settings = tx.run("queues", "settings", {"name": queue.name}).get or UNSET
        values = {"name": queue.name, "settings": settings, "paused": queue.paused}
        with patient():
            tx.run("queues", "put", {**values, "keeps_history": queue.keeps_history})
        self._settings_changed(tx)
        return True

    def _settings_changed(self, tx: PgTx) -> None:
        tx.run("queues", "changed")
        tx.tell(None, 0)

    def stats(self, name: str) -> QueueStats:
        params = {"name": name}
        with self.db.reading() as tx:
            waiting, covered, put_off = tx.rows("queues", "count_waiting", params)[0]
            counts = {State.SCHEDULED: waiting - covered + put_off}
            for statement in ("count_taken", "count_final"):
                counts |= {State(one): n for one, n in tx.rows("queues", statement, params)}
            ranges = [one for one in shards.ranges_of(tx, [name]) if one.is_open]
            heads = shards.first_outside(tx, name, shards.lines(tx, name), ranges)
            dues = [line.due_at for line in heads]
            if put_off:
                dues += [at for _, at in tx.rows("claims", "returns_of", {"queues": [name]})]
        counts[State.DISPATCHED] = counts.get(State.DISPATCHED, 0) + covered
        shown = {state: counts.get(state, 0) for state in State}
        return QueueStats(shown, min(dues, default=None), put_off=put_off)

    def due_counts(
        self, name: str, start: Moment, until: Moment, step_ms: int
    ) -> dict[Moment, int]:
        params = {"name": name, "start": start, "until": until, "step": step_ms}
        found = self.db.once(lambda tx: tx.rows("queues", "due_counts", params))
        return dict(found)

    def delete_queue(self, name: str, now: Moment, limit: int) -> QueueDeletion:
        try:
            return self.db.write(partial(self._delete_queue, name, now, limit))
        except Waited:
            return QueueDeletion("kept", in_open_use(name))

    def _delete_queue(self, name: str, now: Moment, limit: int, tx: PgTx) -> QueueDeletion:
        with patient():
            be_patient(tx, QUEUE_PATIENCE_MS)
            for number in (self.outbox_lock(name), self._queue_lock(name)):  # the longer wait first
                hold(tx, number)
            unfinished, schedule, rule, known = tx.rows("queues", "in_use", {"name": name})[0]
            why = why_kept(name, unfinished=unfinished, schedule=schedule, rule=rule)
            if why is not None:
                return QueueDeletion("kept", why)
            if not known:
                return QueueDeletion("unknown")
            if self._prune_queue(name, LATEST, now, limit, tx) == limit:
                return QueueDeletion("more")
            tx.run("queues", "delete", {"name": name})
        self._settings_changed(tx)
        return QueueDeletion("deleted")

    def _prune_jobs(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """A transaction for each queue, so that none is long."""
        before = kept.finished_before
        with self.db.reading() as tx:
            oldest = tx.rows("queues", "oldest_finished")
            remembered = tx.run("queues", "is_forgettable", {"now": now}).get
        removed = [
            self.db.write(partial(self._prune_queue, name, before[name], now, limit))
            for name, finished_at in oldest
            if finished_at < before.get(name, 0)
        ]
        forgotten = self.db.write(partial(self._forget, now, limit)) if remembered else 0
        return Pruned(sum(removed), max(*removed, forgotten, 0) >= limit)

    def _prune_queue(self, name: str, before: Moment, now: Moment, limit: int, tx: PgTx) -> int:
        """Remove finished jobs of a queue; those whose ids are remembered are hidden. How many."""
        params = {"name": name, "before": before, "limit": limit}
        ids = [row[0] for row in tx.rows("queues", "prunable", params)]
        if ids:
            bounds = {"ids": ids, "forgotten_before": forgotten_before(now)}
            gone = {row[0] for row in tx.rows("queues", "prune", bounds)}
            left = [one for one in ids if one not in gone]
            if left:
                tx.run("queues", "hide", {"ids": left, "remembered_ms": REMEMBERED_MS})
            tx.run("jobs", "remove_operations", {"ids": ids})
        return len(ids)

    def _forget(self, now: Moment, limit: int, tx: PgTx) -> int:
        """Remove ids that were only remembered. How many."""
        params = {"now": now, "limit": limit}
        ids = [row[0] for row in tx.rows("queues", "forgettable", params)]
        if ids:
            tx.run("jobs", "remove", {"ids": ids})
        return len(ids)
