"""Queues in memory: settings, counts, and their end."""

from __future__ import annotations

from collections import Counter

from oncue.core.lifecycle import FINAL, State
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue, QueueStats, why_kept
from oncue.core.retention import forgotten_before
from oncue.ports.queues import QueueDeletion
from oncue.stores.memory.rules import MemoryRules
from oncue.stores.memory.schedules import MemorySchedules


class MemoryQueues(MemoryRules, MemorySchedules):
    """Implements `oncue.ports.queues.QueueStore`."""

    def queues(self) -> list[Queue]:
        with self._lock:
            return [self._settings[name] for name in sorted(self._settings)]

    def put_queue(self, seen: Queue | None, queue: Queue) -> bool:
        with self._writing():
            if self._settings.get(queue.name) != seen:
                return False
            self._settings[queue.name] = queue
            self._announce(None, 0)
            return True

    def stats(self, name: str) -> QueueStats:
        with self._lock:
            counts = Counter(
                record.shown_state
                for record in self._records.values()
                if record.queue == name and not record.hidden
            )
            returns = [r.not_before or 0 for r in self._put_off.values() if r.queue == name]
            dues = [*returns, *(turn.due_at for turn in self._lines[name])]
            shown = {state: counts[state] for state in State}
            return QueueStats(shown, min(dues, default=None), put_off=len(returns))

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

    def delete_queue(self, name: str, now: Moment, limit: int) -> QueueDeletion:
        with self._writing():
            mine = [one for one in self._records.values() if one.queue == name and not one.hidden]
            schedules = [
                one.name
                for one in self._schedules.values()
                if one.queue == name and one.emits is None
            ]
            rules = [one.rule.name for one in self._rules.values() if one.rule.queue == name]
            why = why_kept(
                name,
                unfinished=any(one.state not in FINAL for one in mine),
                schedule=min(schedules, default=None),
                rule=min(rules, default=None),
            )
            if why is not None:
                return QueueDeletion("kept", why)
            if name not in self._settings:
                return QueueDeletion("unknown")
            if self._prune(name, LATEST, now, limit) == limit:
                return QueueDeletion("more")
            del self._settings[name]
            self._buckets.pop(name, None)
            self._announce(None, 0)
            return QueueDeletion("deleted")

    def _prune(self, name: str, finished_before: Moment, now: Moment, limit: int) -> int:
        over = [
            (record.finished_at, record.id, record)
            for record in self._records.values()
            if record.queue == name
            and not record.hidden
            and record.finished_at is not None
            and record.finished_at < finished_before
        ]
        for finished_at, job_id, record in sorted(over)[:limit]:
            if finished_at is not None and finished_at < forgotten_before(now):
                del self._records[job_id]
            else:
                self._forget(record)
        return len(over[:limit])
