"""The end of what has been kept long enough, in memory."""

from __future__ import annotations

from oncue.core.event import Bounds
from oncue.core.moment import Moment
from oncue.core.retention import Pruned, Retention, forgotten_before, loose_before, of_rule
from oncue.stores.memory.events import MemoryEvents
from oncue.stores.memory.queues import MemoryQueues
from oncue.stores.memory.rules import RuleRecord


class MemoryPruning(MemoryQueues, MemoryEvents):
    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """See `oncue.ports.queues.QueueStore.prune`. Events go all at once."""
        with self._writing():
            before = kept.finished_before
            removed = [self._prune(name, before[name], now, limit) for name in before]
            removed.append(self._prune_remembered(now, limit))
            self._prune_events(now, kept.bounds)
            return Pruned(sum(removed[:-1]), max(removed) >= limit)

    def _prune_remembered(self, now: Moment, limit: int) -> int:
        for word in [word for word, until in self._settled.items() if until <= now]:
            del self._settled[word]
        over = [
            record.id
            for record in self._records.values()
            if record.hidden and (record.finished_at or now) < forgotten_before(now)
        ]
        for job_id in over[:limit]:
            del self._records[job_id]
        return len(over[:limit])

    def _prune_events(self, now: Moment, bounds: Bounds) -> None:
        for mine in self._rules.values():
            self._prune_rule(mine, bounds)
        decided = {number for mine in self._rules.values() for number in mine.decided}
        before = loose_before(now, bounds)
        for record in list(self._events.values()):
            if record.number not in decided and record.received_at < before:
                del self._events[record.number]
                del self._events_by_id[record.event.id]
                del self._events_by_fact[record.event.fact]

    def _prune_rule(self, mine: RuleRecord, bounds: Bounds) -> None:
        kept = of_rule(mine.rule, mine.newest, bounds)
        for wait, before in zip(mine.waits, kept.accepted_before, strict=True):
            if before is not None:
                wait.prune(before)
        if kept.decided_before is None:
            return
        for number in list(mine.decided):
            if self._events[number].event.stamp < kept.decided_before:
                del mine.decided[number]
                mine.repeated.pop(number, None)
