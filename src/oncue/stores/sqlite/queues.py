"""Queues in SQLite."""

from __future__ import annotations

from dataclasses import replace

from oncue.core.lifecycle import State
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue, QueueStats, default_queue, why_kept
from oncue.ports.queues import QueueDeletion
from oncue.stores.relational.queue_settings import UNSET, read_queue, write_settings
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.lines import all_lines, hand_over_lines, open_range, waiting_dues
from oncue.stores.sqlite.pruning import prune_queue
from oncue.stores.sqlite.watching import queues_revision

SQL = rows.load("queues")


class SqliteQueues(StorePart):
    def queues(self) -> list[Queue]:
        """Read anew only after a change: loops ask every few seconds, and there may be many."""
        with self.db.reading() as tx:
            revision, known = queues_revision(tx), self.db.queues_read
            if known is None or known[0] != revision:
                self.db.queues_read = known = (revision, read_queues(tx))
            return list(known[1])

    @writing
    def put_queue(self, tx: rows.Tx, seen: Queue | None, queue: Queue) -> bool:
        row = rows.first(tx, SQL["named"], {"name": queue.name})
        if (None if row is None else read_queue(*row)) != seen:
            return False
        before = seen or default_queue(queue.name)
        settings = UNSET if row is None else row[1]
        if replace(before, paused=queue.paused) != queue:
            settings = write_settings(queue)
        params = {"name": queue.name, "settings": settings, "paused": queue.paused}
        tx.execute(SQL["put"], params)
        self.db.tell(None, 0)
        return True

    def stats(self, name: str) -> QueueStats:
        params = {"queue": name}
        # The jobs of a whole range are counted as it is.
        with worker_ranges.reading(self.db, "joined", to_show=True, **params) as tx:
            counts = {State.SCHEDULED: int(tx.execute(SQL["count_waiting"], params).get)}
            for statement in ("count_taken", "count_final"):
                counts |= {State(s): count for s, count in rows.fetch(tx, SQL[statement], params)}
            covered = int(tx.execute(SQL["count_covered"], params).get)
            counts[State.SCHEDULED] -= covered
            counts[State.DISPATCHED] = counts.get(State.DISPATCHED, 0) + covered
            dues = waiting_dues(tx, name, hand_over_lines(tx, name), open_range(tx, name))
            put_off, next_return = rows.first(tx, SQL["put_off"], params)
        oldest = min([*dues, next_return] if put_off else dues, default=None)
        shown = {state: counts.get(state, 0) for state in State}
        return QueueStats(shown, oldest, put_off=put_off)

    def due_counts(
        self, name: str, start: Moment, until: Moment, step_ms: int
    ) -> dict[Moment, int]:
        bounds = {"queue": name, "start": start, "until": until, "step": step_ms}
        counts: dict[Moment, int] = {}
        with worker_ranges.reading(self.db, to_show=True, queue=name) as tx:
            for line, _ in all_lines(tx, name):
                for step, count in rows.fetch(tx, SQL["due_counts"], {**bounds, "line": line}):
                    moment = start + step * step_ms
                    counts[moment] = counts.get(moment, 0) + count
        return dict(sorted(counts.items()))

    @writing
    def delete_queue(self, tx: rows.Tx, name: str, now: Moment, limit: int) -> QueueDeletion:
        unfinished, schedule, rule, known = rows.first(tx, SQL["in_use"], {"name": name})
        why = why_kept(name, unfinished=bool(unfinished), schedule=schedule, rule=rule)
        if why is not None:
            return QueueDeletion("kept", why)
        if not known:
            return QueueDeletion("unknown")
        if prune_queue(tx, name, LATEST, now, limit) == limit:
            return QueueDeletion("more")
        tx.execute(SQL["delete"], {"name": name})
        self.db.known_queues.discard(name)
        self.db.tell(None, 0)
        return QueueDeletion("deleted")


def read_queues(tx: rows.Tx) -> list[Queue]:
    return [read_queue(*row) for row in rows.fetch(tx, SQL["names"])]
