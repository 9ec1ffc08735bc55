"""Events in DynamoDB, and what rules decide on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oncue.core.cursor import Cursor
from oncue.core.event import Bounds, Event, Fact
from oncue.core.lacks import refuse_all_events
from oncue.core.moment import Moment
from oncue.core.publication import Decided, EventFilter, EventPage, Published, conclude
from oncue.core.rule import matched
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.chains import Chain, DynamoChains, Judge, Judgement, verdict_of
from oncue.stores.dynamodb.event_log import Received
from oncue.stores.dynamodb.filed_event import FiledEvent, arrival_at, read_decision
from oncue.stores.dynamodb.filed_rule import FiledRule
from oncue.stores.dynamodb.jobs import rounds


class RuleAnswer(NamedTuple):
    """What one rule says to an event."""

    told: Sequence[Decided]
    verdict: Judgement | None = None
    """None: it decided before."""


class DynamoEvents(DynamoChains):
    """Implements `oncue.ports.events.EventStore`."""

    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        ids = self._refuse_taken(events, now)
        first: dict[Fact, Event] = {}
        named: dict[Fact, dict[str, None]] = {}
        for event in events:
            first.setdefault(event.fact, event)
            named.setdefault(event.fact, {})[event.id] = None
        names = self._matching(first)
        rules = self._read_rules(name for some in names.values() for name in some)
        until = now + bounds.loose_seconds * 1000
        received = [
            Received(
                *(event, now, now, None if _matched(names[fact], rules, event) else until),
                other_ids=tuple(named[fact])[1:],
            )
            for fact, event in first.items()
        ]
        known, fresh = self._log(received, ids, now)
        judge = _judge(now, bounds)
        answers: dict[int, Published] = {}
        for part in rounds(dict(enumerate(events)), lambda event: [event.fact]):
            if answers:
                fresh, rules = set(), self._read_rules(rules)
            logged = [known[event.fact] for event in part.values()]
            wanted = {one.fact: _matched(names[one.fact], rules, one.event) for one in logged}
            answered = self._decide(logged, wanted, rules, fresh, judge, now)
            answers |= dict(zip(part, answered, strict=True))
        self._release_undecided(received, known, answers.values(), now, bounds)
        self._news.tell()
        return [answers[at] for at in range(len(events))]

    def _release_undecided(
        self,
        received: Sequence[Received],
        known: Mapping[Fact, FiledEvent],
        answers: Iterable[Published],
        now: Moment,
        bounds: Bounds,
    ) -> None:
        """Events are kept for rules. If these were gone when they were asked, it was in vain."""
        decided = {answer.event.fact for answer in answers if answer.decisions}
        kept = [one.fact for one in received if one.until is None and one.fact not in decided]
        self._release([known[fact] for fact in kept], now, bounds.loose_seconds * 1000)

    def _decide(
        self,
        events: Sequence[FiledEvent],
        wanted: Mapping[Fact, Sequence[str]],
        rules: Mapping[str, FiledRule],
        fresh: set[Fact],
        judge: Judge,
        now: Moment,
    ) -> list[Published]:
        """Let rules decide on events, each of which is here once. `wanted`: the rules that it
        matches."""
        by_rule: dict[str, list[FiledEvent]] = {}
        for one in events:
            for name in wanted[one.fact]:
                by_rule.setdefault(name, []).append(one)
        chains = self._chains(by_rule, rules, judge)
        self._skip_decided(chains, (one.arrival for one in events if one.fact in fresh))
        self._run(chains, now)
        decided = {arrival for chain in chains for arrival in chain.answers}
        self._hold([one for one in events if one.fact not in fresh and one.arrival in decided])
        repeated = self._repeat((one for chain in chains for one in chain.decided.values()), now)
        answers: dict[str, list[RuleAnswer]] = {one.arrival: [] for one in events}
        for chain in chains:
            for arrival, verdict in chain.answers.items():
                answers[arrival].append(RuleAnswer(verdict.first, verdict))
            for arrival, before in chain.decided.items():
                if before.key in repeated:
                    answers[arrival].append(RuleAnswer(repeated[before.key].repeated))
        return [_published(one, one.fact in fresh, answers[one.arrival]) for one in events]

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        refuse_all_events(wanted)
        last = None if after is None else arrival_at(after)
        rule = self._read_rules([wanted.rule or ""]).get(wanted.rule or "")
        if rule is None:
            return EventPage([], None)
        every = keys.all_decisions(rule.identity)
        upto = every + (keys.LAST if last is None else last)
        items = self.table.query(
            keys.rule(rule.name).pk, every, upto, limit=limit + 1, backwards=True
        )
        found = [read_decision(item) for item in items]
        found = [one for one in found if one.filed.arrival != last]
        page = found[:limit]
        shown = (one.shown(wanted.decision) for one in page)
        end = page[-1].filed.arrival if len(found) >= limit else None
        return EventPage([one for one in shown if one is not None], end)


def _judge(now: Moment, bounds: Bounds) -> Judge:
    """Lets a rule decide on an event that arrives."""

    def judge(chain: Chain, one: FiledEvent) -> Judgement:
        rule, looks = chain.rule, chain.looks
        validated = matched(rule.rule, one.event)
        concluded = conclude(
            rule.rule,
            one.event,
            validated,
            rule.newest,
            bounds,
            now,
            lambda place, t: looks.newest(rule.waits[place], t),
            lambda place, stamp: looks.first_at(rule.waits[place], stamp),
            chain.markers,
        )
        return verdict_of(concluded, validated)

    return judge


def _matched(names: Iterable[str], rules: Mapping[str, FiledRule], event: Event) -> list[str]:
    """Those of the rules that match the event."""
    return [name for name in names if name in rules and matched(rules[name].rule, event)]


def _published(one: FiledEvent, is_fresh: bool, answers: Sequence[RuleAnswer]) -> Published:
    """The answer for an event. Those of the rules are in the order of their names."""
    verdicts = [answer.verdict for answer in answers if answer.verdict is not None]
    return Published(
        one.event,
        not is_fresh and not verdicts,
        tuple(decided for answer in answers for decided in answer.told),
        tuple(fired for verdict in verdicts for fired in verdict.fired),
    )
