"""Queues in memory: settings, counts, and the end of what has been kept long enough."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.queues import QueueStats
from oncue.stores.memory.record import Record
from oncue.stores.memory.shelves import Shelves

REMEMBERED_MS = 86_400_000  # how long ids chosen by clients outlive their jobs: a day


class MemoryQueues(Shelves):
    """Implements `oncue.ports.queues.QueueStore`."""

    def queues(self) -> list[Queue]:
        with self._lock:
            holding = {record.queue for record in self._records.values() if not record.hidden}
            return [self._queue(name) for name in sorted(holding | self._settings.keys())]

    def put_queue(self, queue: Queue) -> None:
        with self._writing():
            paused = self._queue(queue.name).paused
            self._settings[queue.name] = replace(queue, paused=paused)
            self._announce(None, 0)

    def set_paused(self, name: str, paused: bool) -> None:
        with self._writing():
            self._settings[name] = replace(self._queue(name), paused=paused)
            self._announce(None, 0)

    def stats(self, name: str) -> QueueStats:
        with self._lock:
            counts = Counter(
                record.shown_state
                for record in self._records.values()
                if record.queue == name and not record.hidden
            )
            dues = [r.due_at for r in self._put_off.values() if r.queue == name]
            first_in_line = self._lines[name].next_due()
            if first_in_line is not None:
                dues.append(first_in_line)
            return QueueStats({state: counts[state] for state in State}, min(dues, default=None))

    def due_counts(
        self, name: str, start: Moment, until: Moment, step_ms: int
    ) -> dict[Moment, int]:
        with self._lock:
            counts = Counter(
                start + (record.due_at - start) // step_ms * step_ms
                for record in self._records.values()
                if record.queue == name
                and record.state is State.SCHEDULED
                and start <= record.due_at < until
            )
            return dict(sorted(counts.items()))

    def prune(self, name: str, finished_before: Moment, now: Moment, limit: int) -> int:
        with self._writing():
            over = [
                (record.finished_at, record.id, record)
                for record in self._records.values()
                if record.queue == name
                and record.finished_at is not None
                and _is_over(record, record.finished_at, finished_before, now)
            ]
            for finished_at, job_id, record in sorted(over)[:limit]:
                if finished_at + REMEMBERED_MS <= now:
                    del self._records[job_id]
                else:
                    self._forget(record)
            return len(over[:limit])


def _is_over(record: Record, finished_at: Moment, finished_before: Moment, now: Moment) -> bool:
    if record.hidden:
        return finished_at + REMEMBERED_MS <= now
    return finished_at < finished_before
