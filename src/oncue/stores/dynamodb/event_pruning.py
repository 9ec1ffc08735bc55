"""Forgetting in DynamoDB what rules can do without, a bounded number of items at a time.

Only rules are looked at to which something happened since they were last pruned, and what deleted
ones left. An event is forgotten when no rule has a decision on it; one that no rule waited for when
it arrived is forgotten by the table itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, takewhile

from oncue.core.event import Bounds, EventType
from oncue.core.moment import Moment
from oncue.core.retention import of_rule
from oncue.core.stamp import LATEST, Stamp
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text
from oncue.stores.dynamodb.event_log import DynamoEventLog
from oncue.stores.dynamodb.filed_event import FiledDecision, arrived_at, read_decision
from oncue.stores.dynamodb.filed_rule import FiledRule
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.leasing import MARGIN_MS
from oncue.stores.dynamodb.writes import unchanged

RULES_AT_ONCE = 100


@dataclass(slots=True)
class Removal:
    """How many items may still be removed, and how long events are kept for nobody."""

    left: int
    now: Moment
    loose_ms: int


class DynamoEventPruning(DynamoEventLog):
    def _prune_events(self, now: Moment, bounds: Bounds, limit: int) -> bool:
        """Forget what no rule needs any more; whether there may be more."""
        room = Removal(limit, now, bounds.loose_seconds * 1000)
        deleted = list(self.table.query(keys.DELETED_RULES, limit=RULES_AT_ONCE))
        for item in deleted:
            if room.left > 0:
                self._sweep_rule(item["rule"], item["sk"], from_text(item["rec"]), room)
        names, more = self._touched()
        rules = self._read_rules(names)
        for rule in rules.values():
            if room.left > 0:
                self._prune_rule(rule, bounds, room)
        return room.left <= 0 or len(deleted) >= RULES_AT_ONCE or more

    def _touched(self) -> tuple[list[str], bool]:
        """Names of rules to which something happened, and whether there may be more. One that is
        late is pruned the next time."""
        most = RULES_AT_ONCE // keys.LOOK_SHARDS + 1
        shards = map(keys.touched, range(keys.LOOK_SHARDS))
        parts = self.table.each(lambda one: list(self.table.look(one, limit=most)), shards)
        return list(chain(*parts)), any(len(part) == most for part in parts)

    def _sweep_rule(
        self, name: str, identity: str, waits: list[tuple[str, str, str]], room: Removal
    ) -> None:
        """Remove what a deleted rule left. If there is room left afterwards, it is done with."""
        self._undecide(name, identity, None, room)
        dropped = self._dropped_of(name, identity)
        for wait, kind, key in [*waits, *dropped]:
            self._unaccept(name, wait, None, room)
            if room.left > 0:
                self._remove([keys.match(EventType(kind), key, name, wait)], room)
        if room.left > 0:
            self._remove([keys.dropped(name, identity, wait) for wait, _, _ in dropped], room)
        if room.left > 0:
            self._remove([Key(keys.DELETED_RULES, identity)], room)

    def _dropped_of(self, name: str, identity: str) -> list[tuple[str, str, str]]:
        every = keys.all_dropped(identity)
        items = self.table.query(keys.rule(name).pk, every, every + keys.LAST)
        return [(item["sk"].rpartition("#")[2], item["type"], item["key"]) for item in items]

    def _prune_rule(self, rule: FiledRule, bounds: Bounds, room: Removal) -> None:
        """If there is room left afterwards, the rule is done with until something happens to it."""
        kept = of_rule(rule.rule, rule.newest, bounds)
        for wait, before in zip(rule.waits, kept.accepted_before, strict=True):
            if before is not None:
                self._unaccept(rule.name, wait.token, before, room)
            if wait.token in rule.marked:
                is_over = wait.token not in rule.paired
                self._unmark(rule.name, wait.token, LATEST + 1 if is_over else before, room)
        if kept.decided_before is not None:
            self._undecide(rule.name, rule.identity, kept.decided_before, room)
        self._prune_dropped(rule, room)
        if room.left > 0:
            then = rule.prune(kept.accepted_before)._replace(ver=rule.next_ver(room.now))
            self.table.put(then.as_head(), unchanged(rule.ver))

    def _prune_dropped(self, rule: FiledRule, room: Removal) -> None:
        """What dropped dependencies accepted goes at once. By their keys events find the rule for
        as long as it has decisions from the time when it had them."""
        every = keys.all_dropped(rule.identity)
        items = list(self.table.query(keys.rule(rule.name).pk, every, every + keys.LAST))
        if not items:
            return
        oldest = next(iter(self._oldest(rule.name, rule.identity, 1)), None)
        for item in items:
            wait = item["sk"].rpartition("#")[2]
            self._unaccept(rule.name, wait, None, room)
            since = item["since"] + MARGIN_MS
            is_over = oldest is None or arrived_at(oldest.filed.arrival) > since
            if room.left > 0 and is_over:
                match = keys.match(EventType(item["type"]), item["key"], rule.name, wait)
                self._remove([match, Key(item["pk"], item["sk"])], room)

    def _unaccept(self, name: str, wait: str, before: Stamp | None, room: Removal) -> None:
        """Remove what a dependency accepted before a stamp, or all of it."""
        if room.left <= 0:
            return
        above = keys.all_accepted(wait)
        upto = above + keys.LAST if before is None else keys.accepted_at(wait, before)
        self._remove_between(name, above, upto, room)

    def _unmark(self, name: str, wait: str, before: Stamp | None, room: Removal) -> None:
        """Remove the markers of a dependency from before a stamp."""
        if before is not None and room.left > 0:
            above, upto = keys.all_markers(wait), keys.marker_at(wait, before - 1)
            self._remove_between(name, above, upto, room)

    def _remove_between(self, name: str, above: str, upto: str, room: Removal) -> None:
        items = self.table.query(keys.rule(name).pk, above, upto, limit=room.left)
        self._remove([Key(item["pk"], item["sk"]) for item in items], room)

    def _undecide(self, name: str, identity: str, before: Stamp | None, room: Removal) -> None:
        """Remove decisions in the order of arrival, up to the first whose event still counts."""
        if room.left <= 0:
            return
        oldest = self._oldest(name, identity, room.left)
        gone = list(takewhile(lambda one: before is None or one.filed.event.stamp < before, oldest))
        over = {one.key: one.filed for one in gone}
        self._release(over.values(), room.now, room.loose_ms, over.keys())
        self._remove(list(over), room)

    def _oldest(self, name: str, identity: str, most: int) -> list[FiledDecision]:
        every = keys.all_decisions(identity)
        items = self.table.query(keys.rule(name).pk, every, every + keys.LAST, limit=most)
        return [read_decision(item) for item in items]

    def _remove(self, gone: list[Key], room: Removal) -> None:
        self.table.write(removed=gone)
        room.left -= len(gone)
