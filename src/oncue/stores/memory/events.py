"""Events in memory, and what rules decide on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import inf

from oncue.core.cursor import Cursor, number_at
from oncue.core.event import Bounds, Event
from oncue.core.firing import Decision, FiredJob
from oncue.core.moment import Moment, to_datetime
from oncue.core.publication import (
    Conclusion,
    Decided,
    EventFilter,
    EventPage,
    Fired,
    LoggedEvent,
    Published,
    conclude,
)
from oncue.core.record import Record
from oncue.core.rule import matched
from oncue.core.stamp import to_datetime as instant_of
from oncue.stores.memory.rules import EventRecord, MemoryRules, RuleRecord


class MemoryEvents(MemoryRules):
    """Implements `oncue.ports.events.EventStore`."""

    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        with self._writing():
            self._refuse_taken(events)
            return [self._publish(event, now, bounds) for event in events]

    def _publish(self, event: Event, now: Moment, bounds: Bounds) -> Published:
        known = self._events_by_fact.get(event.fact)
        logged = known or self._log(event, now)
        self._remember(logged, event.id)
        answers: list[Decided] = []
        jobs: list[Fired] = []
        fresh = known is None
        for name in sorted(self._rules):
            record = self._rules[name]
            if not matched(record.rule, logged.event):
                continue
            if logged.number in record.decided:
                answers += _repeat(record, logged.number, now)
            else:
                fresh = True
                concluded = self._decide(record, logged, now, bounds)
                record.decided[logged.number] = concluded.decisions
                answers += concluded.decisions
                jobs += concluded.fired
        return Published(logged.event, not fresh, tuple(answers), tuple(jobs))

    def _decide(
        self, record: RuleRecord, logged: EventRecord, now: Moment, bounds: Bounds
    ) -> Conclusion:
        rule, event = record.rule, logged.event
        validated = matched(rule, event)
        concluded = conclude(
            rule,
            event,
            validated,
            record.newest,
            bounds,
            now,
            record.newest_by,
            lambda place, stamp: self._first_at(record.waits[place], stamp),
            record.keep_pair(),
        )
        for place in validated:
            if concluded.decision is Decision.ACCEPTED:
                record.accept(place, event.stamp, logged.number)
            elif concluded.decision is Decision.STALE:
                record.waits[place].stale = True
        if concluded.job is not None:
            self._fire(record, concluded.job, now)
        return concluded

    def _fire(self, record: RuleRecord, fired: FiredJob, now: Moment) -> None:
        job = Record.of(fired.job, now)
        job.rule, job.instant = fired.rule, instant_of(fired.instant)
        self._add(job)
        record.rule = replace(record.rule, last_instant=fired.instant, last_job_id=fired.job.id)

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        before = inf if after is None else number_at(after)
        with self._lock:
            numbers = sorted((n for n in self._events if n < before), reverse=True)
            shown = (
                (number, one)
                for number in numbers
                if (one := self._logged(number, wanted)) is not None
            )
            found = list(islice(shown, limit + 1))
            page = found[:limit]
            end = str(page[-1][0]) if len(found) > limit else None
            return EventPage([one for _, one in page], end)

    def _logged(self, number: int, wanted: EventFilter) -> LoggedEvent | None:
        decisions = [
            one
            for name in sorted(self._rules)
            if wanted.rule in (None, name)
            for part in (self._rules[name].decided, self._rules[name].repeated)
            for one in part.get(number, ())
            if wanted.decision in (None, one.decision)
        ]
        if not decisions and wanted != EventFilter():
            return None
        logged = self._events[number]
        return LoggedEvent(logged.event, to_datetime(logged.received_at), tuple(decisions))


def _repeat(record: RuleRecord, number: int, now: Moment) -> list[Decided]:
    """The answer to a repetition: the first decisions, marked as duplicates."""
    before = record.repeated.get(number)
    times = 1 if before is None else before[0].times + 1
    record.repeated[number] = [
        replace(one, decision=Decision.DUPLICATE, decided_at=to_datetime(now), times=times)
        for one in record.decided[number]
    ]
    return record.repeated[number]
