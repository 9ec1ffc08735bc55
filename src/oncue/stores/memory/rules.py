"""Rules in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest

from oncue.core.moment import Moment, to_datetime
from oncue.core.rule import Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.memory.rulebook import Rulebook, RuleRecord, Wait


class MemoryRules(Rulebook):
    """Implements `oncue.ports.rules.RuleStore`."""

    def put_rule(self, rule: Rule, now: Moment) -> Rule:
        at = to_datetime(now)
        with self._lock:
            known = self._rules.get(rule.name)
            if known is None:
                waits = [Wait(dependency) for dependency in rule.dependencies]
                created = replace(rule, created_at=at, updated_at=at)
                known = self._rules[rule.name] = RuleRecord(created, waits)
            else:
                self._unindex(known)
                self._replace_rule(known, rule, now)
            self._index(known)
            return known.rule

    def _replace_rule(self, record: RuleRecord, rule: Rule, now: Moment) -> None:
        kept = {wait.dependency.identity: wait for wait in record.waits}
        record.waits = [
            kept.get(dependency.identity) or Wait(dependency) for dependency in rule.dependencies
        ]
        for wait, dependency in zip(record.waits, rule.dependencies, strict=True):
            wait.dependency = dependency
        record.rule = replace(
            rule,
            created_at=record.rule.created_at,
            updated_at=to_datetime(now),
            last_instant=record.rule.last_instant,
            last_job_id=record.rule.last_job_id,
        )

    def rule(self, name: str) -> Rule | None:
        with self._lock:
            record = self._rules.get(name)
            return None if record is None else record.rule

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        with self._lock:
            names = nsmallest(limit, (name for name in self._rules if name > (after or "")))
            return [self._rules[name].rule for name in names]

    def delete_rule(self, name: str, now: Moment) -> bool:
        with self._lock:
            record = self._rules.pop(name, None)
            if record is None:
                return False
            self._unindex(record)
            return True

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        with self._lock:
            record = self._rules.get(name)
            if record is None:
                return None
            return Sightings(record.rule, tuple(self._sighting(wait, at) for wait in record.waits))

    def _sighting(self, wait: Wait, at: Stamp) -> Sighting:
        newest = wait.newest_by(at)
        event = None if newest is None else self._events[wait.first_at(newest)].event
        return Sighting(event, wait.newest, wait.stale)
