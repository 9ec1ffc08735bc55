"""Dump and restore in memory: everything out, everything in, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from oncue.core.cursor import Cursor, Page, number_at
from oncue.core.dumped import DumpedEvent, DumpedJob, key_taken
from oncue.core.firing import Decision
from oncue.core.lifecycle import FINAL
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.publication import Decided, LoggedEvent
from oncue.core.standing import Sightings
from oncue.stores.memory.rules import DependencyRecord, EventRecord, MemoryRules, RuleRecord


class MemoryTransfer(MemoryRules):
    """Implements `oncue.ports.transfer.TransferStore`."""

    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        with self._lock:
            ids = nsmallest(limit, (known for known in self._records if known > (after or "")))
            jobs = [DumpedJob.of(self._records[known]) for known in ids]
            return Page(jobs, ids[-1] if len(ids) == limit else None)

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        with self._writing():
            return sum(self._admit(dumped) for dumped in jobs)

    def _admit(self, dumped: DumpedJob) -> int:
        job = dumped.job
        if job.id in self._records:
            return 0
        held = job.key is not None and (job.queue, job.key) in self._keys
        if held and job.state not in FINAL:
            raise key_taken(job)
        self._add(dumped.as_record())
        return 1

    def export_events(self, after: Cursor | None, limit: int) -> Page[DumpedEvent]:
        start = 0 if after is None else number_at(after)
        with self._lock:
            numbers = nsmallest(limit, (n for n in self._events if n > start))
            events = [self._dumped_event(self._events[number]) for number in numbers]
            return Page(events, str(numbers[-1]) if len(numbers) == limit else None)

    def _dumped_event(self, record: EventRecord) -> DumpedEvent:
        decisions: list[Decided] = []
        accepted: list[int] = []
        for name in sorted(self._rules):
            rule = self._rules[name]
            held = {
                wait.dependency.identity
                for wait in rule.waits
                if (record.event.stamp, record.number) in wait.accepted
            }
            for one in rule.decided.get(record.number, ()):
                if one.decision is Decision.ACCEPTED and one.dependency.identity in held:
                    accepted.append(len(decisions))
                decisions.append(one)
            decisions += rule.repeated.get(record.number, ())
        received_at = to_datetime(record.received_at)
        logged = LoggedEvent(record.event, received_at, tuple(decisions))
        return DumpedEvent(logged, tuple(accepted), tuple(record.other_ids))

    def admit_rules(self, rules: Sequence[Sightings], events: Sequence[DumpedEvent]) -> int:
        with self._lock:
            self._refuse_taken([event for dumped in events for event in dumped.under_each_id])
            for seen in rules:
                waits = [
                    DependencyRecord(dependency, newest=one.newest_stamp, stale=one.stale)
                    for dependency, one in zip(seen.rule.dependencies, seen.of, strict=True)
                ]
                self._rules.setdefault(seen.rule.name, RuleRecord(seen.rule, waits))
            return sum(self._admit_event(one) for one in events)

    def _admit_event(self, dumped: DumpedEvent) -> bool:
        logged = dumped.logged
        known = self._events_by_fact.get(logged.event.fact)
        record = known or self._log(logged.event, from_datetime(logged.received_at))
        for event in dumped.under_each_id:
            self._remember(record, event.id)
        for name in {one.rule for one in logged.decisions} & self._rules.keys():
            rule = self._rules[name]
            if record.number in rule.decided:
                continue
            for position, one in enumerate(logged.decisions):
                if one.rule != name:
                    continue
                part = rule.repeated if one.decision is Decision.DUPLICATE else rule.decided
                part.setdefault(record.number, []).append(one)
                if position in dumped.accepted:
                    _accept(rule, one, record)
        return known is None


def _accept(rule: RuleRecord, decided: Decided, record: EventRecord) -> None:
    for place, wait in enumerate(rule.waits):
        if wait.dependency.identity == decided.dependency.identity:
            rule.accept(place, record.event.stamp, record.number)
