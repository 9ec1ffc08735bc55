"""Events in a store on SQL: publishing them to the rules, and listing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from oncue.core.cursor import Cursor, number_at
from oncue.core.event import Bounds, Event
from oncue.core.moment import Moment, to_datetime
from oncue.core.publication import Decided, EventFilter, EventPage, LoggedEvent, Published
from oncue.stores.relational.part import RelationalPart, X
from oncue.stores.relational.publication import Publication, PublishProgress
from oncue.stores.relational.rules import decided
from oncue.stores.relational.rules import event as event_of
from oncue.stores.relational.tx import RelationalTx

_LAST = 2**63 - 1


class RelationalEvents(RelationalPart[X]):
    """Implements `oncue.ports.events.EventStore`."""

    def _publication(self, tx: X, now: Moment, bounds: Bounds) -> Publication[X]:
        return Publication(self, tx, now, bounds)

    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        parts: list[list[Published]] = [[] for _ in events]
        progress = PublishProgress()

        def some(tx: X) -> tuple[list[tuple[int, Published]], PublishProgress]:
            return self._publication(tx, now, bounds).some(events, progress)

        while progress.position < len(events):
            added, progress = self._write(some)
            for position, part in added:
                parts[position].append(part)
        return [_joined(of_event) for of_event in parts]

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        before = _LAST if after is None else number_at(after)
        params: dict[str, Any] = {"before": before, "limit": limit}
        with self._read() as tx:
            name = "page"
            if wanted.decision is not None:
                name, params["decision"] = "page_decision", str(wanted.decision)
            if wanted.rule is not None:
                rule = tx.run("rules", "rule", {"name": wanted.rule}).fetchone()
                if rule is None:
                    return EventPage([], None)
                name, params["rule_n"] = "page_rule", rule[0]
                params.setdefault("decision", None)
            found = tx.rows("events", name, params)
            decisions = _decisions_of(tx, [row[0] for row in found], wanted)
        items = [
            LoggedEvent(event_of(row), to_datetime(row[5]), tuple(decisions[row[0]]))
            for row in found
            if decisions[row[0]] or wanted == EventFilter()
        ]
        return EventPage(items, str(found[-1][0]) if len(found) == limit else None)


def _decisions_of(
    tx: RelationalTx, ns: Sequence[int], wanted: EventFilter
) -> defaultdict[int, list[Decided]]:
    found: defaultdict[int, list[Decided]] = defaultdict(list)
    if not ns:
        return found
    for n, rule, *row in tx.rows("events", "decisions_of", {"ns": tx.numbers(ns)}):
        one = decided(rule, row)
        if wanted.rule in (None, rule) and wanted.decision in (None, one.decision):
            found[n].append(one)
    for ones in found.values():
        ones.sort(key=lambda one: (one.rule, one.decision == "DUPLICATE"))
    return found


def _joined(parts: Sequence[Published]) -> Published:
    """What several transactions did about one event."""
    return Published(
        parts[0].event,
        all(part.duplicate for part in parts),
        tuple(one for part in parts for one in part.decisions),
        tuple(job for part in parts for job in part.jobs),
    )
