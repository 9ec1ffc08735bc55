"""What a rule has accepted, looked at by one who knows the version of the rule."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from oncue.core.event import Event
from oncue.core.stamp import Stamp
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed_event import FiledEvent, accepted_event
from oncue.stores.dynamodb.filed_rule import FiledRule, FiledWait
from oncue.stores.dynamodb.table import Table


class AcceptedEvent(NamedTuple):
    stamp: Stamp
    arrival: str
    event: Event


class Looks:
    """What the table had when the rule was read, and what was accepted since. Each look is at most
    one request for one item; most need none, because the head of the rule knows the newest."""

    def __init__(self, table: Table, rule: FiledRule) -> None:
        self._table = table
        self._pk = keys.rule(rule.name).pk
        self._kept = {wait.token: wait.kept for wait in rule.waits}
        self._stored: dict[tuple[str, Stamp], AcceptedEvent | None] = {}
        """The first that the table has, by dependency and stamp."""
        self._added: dict[str, list[AcceptedEvent]] = {}
        self._marked: dict[str, list[Stamp]] = {}

    def accept(self, wait: FiledWait, filed: FiledEvent) -> None:
        one = AcceptedEvent(filed.event.stamp, filed.arrival, filed.event)
        insort(self._added.setdefault(wait.token, []), one, key=_place)

    def mark(self, wait: FiledWait, stamp: Stamp) -> None:
        insort(self._marked.setdefault(wait.token, []), stamp)

    def newest_marker(self, wait: FiledWait, newest: Stamp | None, t: Stamp) -> Stamp | None:
        """The newest marker of the dependency that is ≤ t. `newest` is the newest of all."""
        if newest is None or newest <= t:
            return newest
        found = [stamp for stamp in self._marked.get(wait.token, []) if stamp <= t]
        above, upto = keys.all_markers(wait.token), keys.marker_at(wait.token, t)
        items = self._table.query(self._pk, above, upto, limit=1, backwards=True)
        return max([*found, *(item["stamp"] for item in items)], default=None)

    def newest(self, wait: FiledWait, t: Stamp) -> Stamp | None:
        """The newest accepted stamp of the dependency that is ≤ t."""
        added = self._added.get(wait.token, [])
        place = bisect_right(added, t, key=lambda one: one.stamp)
        found = [added[place - 1].stamp] if place else []
        stored = self._newest_stored(wait.token, t)
        return max(found if stored is None else [*found, stored], default=None)

    def _newest_stored(self, wait: str, t: Stamp) -> Stamp | None:
        kept = self._kept[wait]
        if kept is None or kept <= t:
            return kept
        above, upto = keys.all_accepted(wait), keys.accepted_at(wait, t) + "#" + keys.LAST
        items = self._table.query(self._pk, above, upto, limit=1, backwards=True)
        return next((accepted_event(item)[1].stamp for item in items), None)

    def first_at(self, wait: FiledWait, stamp: Stamp) -> Event | None:
        """The first event that was accepted for the dependency with this stamp."""
        found = [one for one in self._added.get(wait.token, []) if one.stamp == stamp]
        stored = self._first_stored(wait.token, stamp)
        every = found if stored is None else [*found, stored]
        return min(every, key=_place).event if every else None

    def _first_stored(self, wait: str, stamp: Stamp) -> AcceptedEvent | None:
        kept = self._kept[wait]
        if kept is None or kept < stamp:
            return None
        if (wait, stamp) not in self._stored:
            at = keys.accepted_at(wait, stamp) + "#"
            items = self._table.query(self._pk, at, at + keys.LAST, limit=1)
            found = (AcceptedEvent(stamp, *accepted_event(item)) for item in items)
            self._stored[wait, stamp] = next(found, None)
        return self._stored[wait, stamp]


def _place(one: AcceptedEvent) -> tuple[Stamp, str]:
    return one.stamp, one.arrival
