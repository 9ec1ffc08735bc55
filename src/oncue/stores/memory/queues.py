"""Queues in memory: settings, counts, and the end of what has been kept long enough."""

from __future__ import annotations

from collections import Counter

from oncue.core.event import Bounds
from oncue.core.lifecycle import FINAL, State
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue, QueueStats, why_kept
from oncue.core.record import Record
from oncue.core.retention import Pruned, Retention, forgotten_before, loose_before, of_rule
from oncue.ports.queues import QueueDeletion
from oncue.stores.memory.events import MemoryEvents
from oncue.stores.memory.rules import RuleRecord
from oncue.stores.memory.schedules import MemorySchedules


class MemoryQueues(MemoryEvents, MemorySchedules):
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
            oldest = min(self._waiting_until(name), default=None)
            shown = {state: counts[state] for state in State}
            return QueueStats(shown, oldest, put_off=len(self._put_off_of(name)))

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
            jobs = (one for one in self._records.values() if one.queue == name)
            schedules = (
                one.name
                for one in self._schedules.values()
                if one.queue == name and one.emits is None
            )
            rules = (one.rule.name for one in self._rules.values() if one.rule.queue == name)
            why = why_kept(
                name,
                unfinished=any(job.state not in FINAL for job in jobs),
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

    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """Events go all at once."""
        with self._writing():
            before = kept.finished_before
            removed = [self._prune(name, before[name], now, limit) for name in before]
            forgotten = self._prune_remembered(now, limit)
            self._prune_events(now, kept.bounds)
            return Pruned(sum(removed), max(*removed, forgotten, 0) >= limit)

    def _prune(self, name: str, finished_before: Moment, now: Moment, limit: int) -> int:
        over = self._finished(finished_before, limit, queue=name)
        for record in over:
            if (record.finished_at or now) < forgotten_before(now):
                del self._records[record.id]
            else:
                self._forget(record)
        return len(over)

    def _prune_remembered(self, now: Moment, limit: int) -> int:
        self._settled = {word: until for word, until in self._settled.items() if until > now}
        over = self._finished(forgotten_before(now), limit, queue=None)
        for record in over:
            del self._records[record.id]
        return len(over)

    def _finished(self, before: Moment, limit: int, *, queue: str | None) -> list[Record]:
        """The jobs of a queue that finished before a moment, the oldest first. None: those that
        are only remembered, of every queue."""
        over = [
            (record.finished_at, record.id, record)
            for record in self._records.values()
            if (record.hidden if queue is None else record.queue == queue and not record.hidden)
            and record.finished_at is not None
            and record.finished_at < before
        ]
        return [record for _, _, record in sorted(over)[:limit]]

    def _prune_events(self, now: Moment, bounds: Bounds) -> None:
        for record in self._rules.values():
            self._prune_rule(record, bounds)
        decided = {number for record in self._rules.values() for number in record.decided}
        before = loose_before(now, bounds)
        for logged in list(self._events.values()):
            if logged.number not in decided and logged.received_at < before:
                del self._events[logged.number]
                for event_id in (logged.event.id, *logged.other_ids):
                    del self._events_by_id[event_id]
                del self._events_by_fact[logged.event.fact]

    def _prune_rule(self, record: RuleRecord, bounds: Bounds) -> None:
        kept = of_rule(record.rule, record.newest, bounds)
        for wait, before in zip(record.waits, kept.accepted_before, strict=True):
            if before is not None:
                wait.prune(before)
        for number in list(record.decided):
            stamp = self._events[number].event.stamp
            if kept.decided_before is not None and stamp < kept.decided_before:
                del record.decided[number]
                record.repeated.pop(number, None)
