"""A rule that decides on events, one after the other.

What it decides goes into the table some events at a time: one transaction, which is done only if
the rule is as it was read. Otherwise the rule is read again, and decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oncue.core.firing import Decision, FiredJob
from oncue.core.moment import Moment
from oncue.core.pair import Markers
from oncue.core.publication import Conclusion, Decided, Fired
from oncue.core.record import Record
from oncue.core.rule import matched
from oncue.core.stamp import Stamp
from oncue.core.stamp import to_datetime as instant_of
from oncue.stores.dynamodb.event_log import DynamoEventLog
from oncue.stores.dynamodb.filed_event import (
    FiledDecision,
    FiledEvent,
    accepted_item,
    decision_key,
    marker_item,
    read_decision,
)
from oncue.stores.dynamodb.filed_rule import FiledRule
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.looks import Looks
from oncue.stores.dynamodb.writes import ABSENT, TRANSACT_AT_ONCE, Item, Put, Write, has, unchanged

JOB_ITEMS = 2  # of a fired job: its record and its place in line


class Judgement(NamedTuple):
    """What a rule makes of an event."""

    first: Sequence[Decided]
    accepted: Sequence[int] = ()
    """Places of the dependencies that accept it …"""
    stale: Sequence[int] = ()
    """… and of those for which it is stale."""
    job: FiredJob | None = None
    times: int = 0
    """How often it was repeated, in the store that it comes from."""
    repeated_at: Moment | None = None

    @property
    def fired(self) -> list[Fired]:
        """The job as the publisher is told of it, if there is one."""
        return [] if self.job is None else [Fired(self.job.rule, self.job.job.id, self.job.instant)]


@dataclass(slots=True)
class Chain:
    """The events on which one rule has yet to decide, in order."""

    rule: FiledRule
    looks: Looks
    left: list[FiledEvent]
    judge: Judge
    answers: dict[str, Judgement] = field(default_factory=dict)
    """By arrival, those that are stored."""
    decided: dict[str, FiledDecision] = field(default_factory=dict)
    """What was decided before, by arrival."""
    races: int = 0

    @property
    def most(self) -> int:
        """How many decisions fit in a transaction."""
        markers = 0 if self.rule.pair is None else len(self.rule.pair.pair.places)
        return (TRANSACT_AT_ONCE - 1) // (1 + len(self.rule.waits) + JOB_ITEMS + markers)

    @property
    def markers(self) -> Markers | None:
        filed, waits = self.rule.pair, self.rule.waits
        if filed is None:
            return None
        return Markers(
            filed.pair,
            lambda place, t: self.looks.newest_marker(waits[place], filed.newest_of(place), t),
        )

    def accept(self, places: Sequence[int], one: FiledEvent) -> list[Item]:
        """Note that dependencies accept an event. What goes into the table for it."""
        name, filed, items = self.rule.name, self.rule.pair, list[Item]()
        for place in places:
            wait, stamp = self.rule.waits[place], one.event.stamp
            self.looks.accept(wait, one)
            items.append(accepted_item(name, wait.token, one))
            if filed is not None and filed.pair.is_marker(place, stamp, self._newest):
                self.looks.mark(wait, stamp)
                self.rule = self.rule.mark(place, stamp)
                items.append(marker_item(name, wait.token, stamp))
        return items

    def _newest(self, place: int, t: Stamp) -> Stamp | None:
        return self.looks.newest(self.rule.waits[place], t)


Judge = Callable[[Chain, FiledEvent], Judgement]


class Link(NamedTuple):
    """Decisions of a rule that are stored together."""

    verdicts: dict[str, Judgement]
    rule: FiledRule
    """As it is then."""
    before: list[Item]
    together: list[Write]


class DynamoChains(DynamoEventLog):
    def _chains(
        self,
        wanted: Mapping[str, Sequence[FiledEvent]],
        rules: Mapping[str, FiledRule],
        judge: Judge,
    ) -> list[Chain]:
        """Chains for rules by name, in that order."""
        return [
            Chain(rules[name], Looks(self.table, rules[name]), list(wanted[name]), judge)
            for name in sorted(wanted)
        ]

    def _skip_decided(self, chains: Iterable[Chain], fresh: Iterable[str] = ()) -> None:
        """Take out what was decided before. On `fresh` events, by arrival, nobody has decided."""
        new = frozenset(fresh)
        places = {
            decision_key(chain.rule, one): chain
            for chain in chains
            for one in chain.left
            if one.arrival not in new
        }
        for key, item in self.table.read(places).items():
            found = read_decision(item)
            places[key].decided[found.filed.arrival] = found
        for chain in chains:
            chain.left = [one for one in chain.left if one.arrival not in chain.decided]

    def _run(self, chains: Sequence[Chain], now: Moment) -> None:
        """Let each rule decide on all that is left."""
        left = [chain for chain in chains if chain.left]
        while left:
            links = self.table.each(lambda chain: self._link(chain, now), left)
            self.table.write(item for link in links for item in link.before)
            done = self.table.apply([link.together for link in links])
            lost: list[Chain] = []
            for chain, link, was in zip(left, links, done, strict=True):
                if was:
                    self._stored(chain, link)
                else:
                    lost.append(chain)
            self._read_again(lost)
            left = [chain for chain in left if chain.left]

    def _stored(self, chain: Chain, link: Link) -> None:
        chain.answers |= link.verdicts
        chain.left = chain.left[len(link.verdicts) :]
        chain.rule, chain.races = link.rule, 0
        for verdict in link.verdicts.values():
            if verdict.job is not None:
                self._news.add(verdict.job.job.queue, verdict.job.job.due_at)

    def _read_again(self, chains: Sequence[Chain]) -> None:
        """The rules have changed. One that was deleted decides on nothing; one that was created
        again under its name is asked as if it had been there from the beginning."""
        if not chains:
            return
        rules = self._read_rules(chain.rule.name for chain in chains)
        for chain in chains:
            chain.races += 1
            if chain.races > MOST_RACES:
                raise too_many_races()
            rule = rules.get(chain.rule.name)
            if rule is None:
                chain.left = []
                continue
            chain.rule, chain.looks = rule, Looks(self.table, rule)
            chain.left = [one for one in chain.left if matched(rule.rule, one.event)]
        self._skip_decided(chains)

    def _link(self, chain: Chain, now: Moment) -> Link:
        """Decide on as many events as fit in one transaction."""
        was = chain.rule
        chain.rule = was.keep_pair()
        verdicts: dict[str, Judgement] = {}
        writes: list[Write] = []
        accepted: dict[str, Put] = {}  # several events may make one marker
        before: list[Item] = []
        for one in chain.left[: chain.most]:
            verdict = verdicts[one.arrival] = chain.judge(chain, one)
            decision = FiledDecision(
                decision_key(was, one), one, tuple(verdict.first), *verdict[4:]
            )
            writes.append(Put(decision.as_item(), ABSENT))
            for item in chain.accept(verdict.accepted, one):
                accepted[item["sk"]] = Put(item)
            chain.rule = _after(chain.rule, one, verdict)
            if verdict.job is not None:
                together, parts = self._fired(verdict.job, now)
                writes += together
                before += parts
        then = chain.rule._replace(ver=was.next_ver(now), touched=True)
        head = Put(then.as_head(), unchanged(was.ver))
        return Link(verdicts, then, before, [head, *writes, *accepted.values()])

    def _fired(self, fired: FiredJob, now: Moment) -> tuple[list[Write], list[Item]]:
        """What creates the job of a rule."""
        record = Record.of(fired.job, now)
        record.rule, record.instant = fired.rule, instant_of(fired.instant)
        known = self._register([record.queue], now)[record.queue]
        return self._creation(record, known, now)

    def _repeat(self, decisions: Iterable[FiledDecision], now: Moment) -> dict[Key, FiledDecision]:
        """Count repetitions of events; the decisions as they are then. Those of which a rule that
        was deleted meanwhile is gone are left out."""
        there: dict[Key, FiledDecision] = {}
        left = {one.key: one for one in decisions}
        for _ in range(MOST_RACES):
            if not left:
                return there
            then = [one.repeat(now) for one in left.values()]
            done = self.table.write_each(
                [Put(one.as_item(), has("ver", one.times)) for one in then]
            )
            there |= {one.key: one for one, was in zip(then, done, strict=True) if was}
            items = self.table.read(key for key in left if key not in there)
            left = {key: read_decision(item) for key, item in items.items()}
        raise too_many_races()


def _after(rule: FiledRule, one: FiledEvent, verdict: Judgement) -> FiledRule:
    """The rule when it has so decided."""
    rule = rule.accept(verdict.accepted, one.event.stamp).note_stale(verdict.stale)
    if verdict.job is None:
        return rule
    return rule.fire(verdict.job.instant, verdict.job.job.id)


def verdict_of(concluded: Conclusion, validated: Sequence[int]) -> Judgement:
    """What a conclusion means for the dependencies that the event validates."""
    return Judgement(
        concluded.decisions,
        validated if concluded.decision is Decision.ACCEPTED else (),
        validated if concluded.decision is Decision.STALE else (),
        concluded.job,
    )
