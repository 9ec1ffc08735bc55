"""Rules and events out of DynamoDB and into it, for dump and restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from oncue.core.cursor import Cursor, Page
from oncue.core.dumped import DumpedEvent
from oncue.core.event import Bounds, Fact
from oncue.core.firing import Decision
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.publication import Decided, LoggedEvent
from oncue.core.standing import Sightings
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.chains import Chain, DynamoChains, Judge, Judgement
from oncue.stores.dynamodb.event_log import Received
from oncue.stores.dynamodb.filed_event import (
    FiledEvent,
    arrival_at,
    decision_key,
    read_decision,
)
from oncue.stores.dynamodb.filed_rule import FiledRule, former_wait, restored
from oncue.stores.dynamodb.jobs import rounds
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.rules import dropped, match_item
from oncue.stores.dynamodb.writes import Item

LOOSE_MS = Bounds().loose_seconds * 1000


class DynamoRulesTransfer(DynamoChains):
    def export_events(self, after: Cursor | None, limit: int) -> Page[DumpedEvent]:
        places, end = self._arrivals("" if after is None else arrival_at(after), limit)
        known = self._known_events(
            (keys.read_fact(place["fact"]) for place in places), self.clock.now()
        )
        here = {one.arrival: one for one in known.values()}
        events = [here[place["sk"]] for place in places if place["sk"] in here]
        return Page(self._dumped(events), end)

    def _arrivals(self, after: str, limit: int) -> tuple[list[Item], Cursor | None]:
        """The next events in the order of arrival, and where to go on. Of each shard a part is
        read; the order is known as far as every shard was read."""
        each = max(1, 2 * limit // keys.ARRIVAL_SHARDS)
        shards = map(keys.arrivals, range(keys.ARRIVAL_SHARDS))
        parts = self.table.each(
            lambda shard: list(self.table.query(shard, after, limit=each)), shards
        )
        ends = [part[-1]["sk"] for part in parts if len(part) == each]
        places = sorted((item for part in parts for item in part), key=lambda item: item["sk"])
        sure = [item for item in places if not ends or item["sk"] <= min(ends)][:limit]
        more = bool(ends) or len(sure) < len(places)
        return sure, sure[-1]["sk"] if more else None

    def _dumped(self, events: Sequence[FiledEvent]) -> list[DumpedEvent]:
        """Events with what the rules that there are decided on them."""
        rules, names = self._rules_of(events)
        wanted = {one.arrival: [rules[name] for name in names[one.fact]] for one in events}
        items = self.table.read(
            decision_key(rule, one) for one in events for rule in wanted[one.arrival]
        )
        accepted = self.table.read(
            key for one in events for rule in wanted[one.arrival] for key in _accepted(rule, one)
        )
        return [_dumped(one, wanted[one.arrival], items, accepted) for one in events]

    def admit_rules(self, rules: Sequence[Sightings], events: Sequence[DumpedEvent]) -> int:
        now = self.clock.now()
        every = [event for dumped in events for event in dumped.under_each_id]
        ids = self._refuse_taken(every, now)
        for seen in rules:
            if not self._read_rules([seen.rule.name]):
                self._save_rule(None, restored(seen), now)
        return sum(
            self._admit_events(list(part.values()), ids)
            for part in rounds(dict(enumerate(events)), lambda one: [one.logged.event.fact])
        )

    def _admit_events(self, events: Sequence[DumpedEvent], ids: dict[str, Item]) -> int:
        """Events, each of which is here once; how many were stored. `ids` are what the table has
        of their ids."""
        now = self.clock.now()
        names = {one.rule for dumped in events for one in dumped.logged.decisions}
        rules = self._read_rules(names)
        known, fresh = self._log(_received(events, rules), ids, now)
        by_fact = {dumped.logged.event.fact: dumped for dumped in events}
        by_rule: dict[str, list[FiledEvent]] = {}
        for fact, dumped in by_fact.items():
            for name in {one.rule for one in dumped.logged.decisions} & rules.keys():
                by_rule.setdefault(name, []).append(known[fact])
        self._restore_former(events, rules)
        chains = self._chains(by_rule, rules, _judge(by_fact))
        self._skip_decided(chains, (known[fact].arrival for fact in fresh))
        self._run(chains, now)
        return len(fresh)

    def _restore_former(
        self, events: Sequence[DumpedEvent], rules: Mapping[str, FiledRule]
    ) -> None:
        """Dependencies that rules had when they decided on these events, and no longer have: by
        them the decisions are found."""
        former: dict[Key, Item] = {}
        for one in (one for dumped in events for one in dumped.logged.decisions):
            rule = rules.get(one.rule)
            known = () if rule is None else (wait.dependency.identity for wait in rule.waits)
            if rule is None or one.dependency.identity in known:
                continue
            wait = former_wait(one.dependency)
            for item in (match_item(rule.name, wait), dropped(rule, wait, self.clock.now())):
                former[Key(item["pk"], item["sk"])] = item
        self.table.write(former.values())


def _received(events: Sequence[DumpedEvent], rules: Mapping[str, FiledRule]) -> list[Received]:
    """Their places in the order of arrival are as they are here, whatever their clocks said."""
    moments = [from_datetime(dumped.logged.received_at) for dumped in events]
    received: list[Received] = []
    for dumped, at, place in zip(events, moments, accumulate(moments, max), strict=True):
        is_decided = any(one.rule in rules for one in dumped.logged.decisions)
        until = None if is_decided else at + LOOSE_MS
        received.append(Received(dumped.logged.event, at, place, until, dumped.other_ids))
    return received


def _judge(dumps: Mapping[Fact, DumpedEvent]) -> Judge:
    """Lets a rule decide as it did in the store from which it comes."""

    def judge(chain: Chain, one: FiledEvent) -> Judgement:
        dumped, rule = dumps[one.fact], chain.rule
        mine = [
            (position, its)
            for position, its in enumerate(dumped.logged.decisions)
            if its.rule == rule.name
        ]
        first = [its for _, its in mine if its.decision is not Decision.DUPLICATE]
        again = [its for _, its in mine if its.decision is Decision.DUPLICATE]
        held = {its.dependency.identity for at, its in mine if at in dumped.accepted}
        waits = enumerate(rule.waits)
        accepted = [place for place, wait in waits if wait.dependency.identity in held]
        if not again:
            return Judgement(first, accepted)
        at = again[0].decided_at
        times, repeated_at = again[0].times, None if at is None else from_datetime(at)
        return Judgement(first, accepted, times=times, repeated_at=repeated_at)

    return judge


def _accepted(rule: FiledRule, one: FiledEvent) -> list[Key]:
    """Where a rule would have the event among those that it accepted."""
    return [
        keys.accepted(rule.name, wait.token, one.event.stamp, one.arrival) for wait in rule.waits
    ]


def _dumped(
    one: FiledEvent,
    rules: Sequence[FiledRule],
    items: Mapping[Key, Item],
    accepted: Mapping[Key, Item],
) -> DumpedEvent:
    decisions: list[Decided] = []
    still: list[int] = []
    for rule in rules:
        item = items.get(decision_key(rule, one))
        if item is None:
            continue
        held = {
            wait.dependency.identity
            for wait, key in zip(rule.waits, _accepted(rule, one), strict=True)
            if key in accepted
        }
        for place, its in enumerate(read_decision(item).every, len(decisions)):
            decisions.append(its)
            if its.decision is Decision.ACCEPTED and its.dependency.identity in held:
                still.append(place)
    received_at = to_datetime(one.received_at)
    logged = LoggedEvent(one.event, received_at, tuple(decisions))
    return DumpedEvent(logged, tuple(still), one.other_ids)
