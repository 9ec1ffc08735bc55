"""Rules in DynamoDB: their settings, and what is known of their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from oncue.core.cursor import MOST_ITEMS
from oncue.core.moment import Moment, to_datetime
from oncue.core.rule import Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import to_text
from oncue.stores.dynamodb.filed_rule import (
    FiledRule,
    FiledWait,
    Torn,
    is_deleted,
    new_rule,
    read_rule,
)
from oncue.stores.dynamodb.jobs import MOST_RACES, DynamoJobs, too_many_races
from oncue.stores.dynamodb.looks import Looks
from oncue.stores.dynamodb.writes import Item, Put, Remove, Write, unchanged


class DynamoRules(DynamoJobs):
    """Implements `oncue.ports.rules.RuleStore`."""

    def _read_rules(self, names: Iterable[str]) -> dict[str, FiledRule]:
        """Those of these rules that there are."""
        found: dict[str, FiledRule] = {}
        left = list(dict.fromkeys(names))
        for _ in range(MOST_RACES):
            if not left:
                return found
            items = self.table.read(
                key for name in left for key in (keys.rule(name), keys.settings(name))
            )
            torn: list[str] = []
            for name in left:
                try:
                    one = read_rule(
                        name, items.get(keys.rule(name)), items.get(keys.settings(name))
                    )
                except Torn:
                    torn.append(name)
                else:
                    found |= {} if one is None else {name: one}
            left = torn
        raise too_many_races()

    def put_rule(self, rule: Rule, now: Moment) -> Rule:
        at = to_datetime(now)
        for _ in range(MOST_RACES):
            was = self._read_rules([rule.name]).get(rule.name)
            if was is None:
                then = new_rule(replace(rule, created_at=at, updated_at=at))
                then = then._replace(rule=replace(then.rule, last_instant=None, last_job_id=None))
            else:
                then = was.set(rule, at)
            if self._save_rule(was, then, now):
                return then.rule
        raise too_many_races()

    def _save_rule(self, was: FiledRule | None, then: FiledRule, now: Moment) -> bool:
        """Write a rule with its settings, unless it has changed. Events find it by items that come
        first: without the rule they say nothing."""
        known = () if was is None else was.waits
        tokens = {wait.token for wait in known}
        added = [wait for wait in then.waits if wait.token not in tokens]
        tokens = {wait.token for wait in then.waits}
        gone = [wait for wait in known if wait.token not in tokens]
        seen = self._deleted_ver(then.name) if was is None else was.ver
        ver = max(now, seen + 1)
        then = then._replace(ver=ver, settings_ver=ver, touched=then.touched or bool(gone))
        writes: list[Write] = [
            Put(then.as_head(), unchanged(seen)),
            Put(then.as_settings()),
            *(Put(dropped(then, wait, now)) for wait in gone),
        ]
        if was is None:
            writes.append(Put({"pk": keys.RULES, "sk": then.name}))
        matches = [wait.match(then.name) for wait in added]
        self.table.write(match_item(then.name, wait) for wait in added)
        if self.table.transact(writes):
            self.table.write(removed=matches)
            return False
        return True

    def _deleted_ver(self, name: str) -> int:
        """The version that a deleted rule has left; 0: none."""
        head = self.table.get(keys.rule(name))
        return head["ver"] if head is not None and is_deleted(head) else 0

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        return list(islice(self._every_rule(after or "", limit), limit))

    def _every_rule(self, after: str = "", page: int = MOST_ITEMS) -> Iterator[Rule]:
        """All rules behind that name, by name; so many are read at a time."""
        while True:
            names = [item["sk"] for item in self.table.query(keys.RULES, after, limit=page)]
            known = self._read_rules(names)
            yield from (known[name].rule for name in names if name in known)
            if len(names) < page:
                return
            after = names[-1]

    def delete_rule(self, name: str) -> bool:
        now = self.clock.now()
        for _ in range(MOST_RACES):
            known = self._read_rules([name]).get(name)
            if known is None:
                return False
            writes: list[Write] = [
                Put(known.as_deleted_head(now), unchanged(known.ver)),
                Remove(keys.settings(name)),
                Remove(keys.Key(keys.RULES, name)),
                Put(_deleted(known)),
            ]
            if not self.table.transact(writes):
                return True
        raise too_many_races()

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        known = self._read_rules([name]).get(name)
        if known is None:
            return None
        looks = Looks(self.table, known)
        seen = self.table.each(lambda wait: _sighting(looks, wait, at), known.waits)
        return Sightings(known.rule, tuple(seen))


def _sighting(looks: Looks, wait: FiledWait, at: Stamp) -> Sighting:
    newest = looks.newest(wait, at)
    event = None if newest is None else looks.first_at(wait, newest)
    return Sighting(event, wait.newest, wait.stale)


def match_item(rule: str, wait: FiledWait) -> Item:
    """By it events find a rule."""
    return {**wait.match(rule)._asdict(), "rule": rule}


def dropped(rule: FiledRule, wait: FiledWait, now: Moment) -> Item:
    """What is left to be removed of a dependency. Events find the rule by it for as long as there
    are decisions from before `since`, so that these are found."""
    key = keys.dropped(rule.name, rule.identity, wait.token)
    its = wait.dependency
    return {**key._asdict(), "type": str(its.type), "key": its.key, "since": now}


def _deleted(rule: FiledRule) -> Item:
    """What is left to be removed of a rule."""
    waits = [[wait.token, wait.dependency.type, wait.dependency.key] for wait in rule.waits]
    key = {"pk": keys.DELETED_RULES, "sk": rule.identity}
    return {**key, "rule": rule.name, "rec": to_text(waits)}
