"""Rules and events: put rules, publish events, explain why a rule has not fired."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from oncue.core import payload as payloads
from oncue.core import stamp as stamps
from oncue.core.checks import choice
from oncue.core.cursor import Cursor, check_page, every_item
from oncue.core.errors import InvalidInput, NotFound, TooLarge
from oncue.core.event import Bounds, Event, latest_stamp, read_event
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter, EventPage, LoggedEvent, Published
from oncue.core.rule import PAYLOAD_LIMIT_BYTES, Dependency, Rule, check_rule_name, read_rule
from oncue.core.standing import Standing, explain
from oncue.core.text import quoted
from oncue.ports.rules import RuleStore
from oncue.usecases.local import Local, by_name

UNUSED_LOOKED_FOR = 100  # events of a rule, the last that arrived
PUBLISHED_AT_ONCE = 10_000


class RuleVerbs(ABC):
    """The methods of a scheduler and of a client about rules and events."""

    def put_rule(
        self,
        name: str,
        dependencies: Sequence[Dependency | Mapping[str, Any]],
        *,
        enabled: bool = True,
        queue: str | None = None,
        payload: Any = None,
    ) -> Rule:
        """Create a rule, or change the one of that name, which keeps its last instant and the
        events of dependencies that stay. Each of them is `{"type", "resourceId", "lifeDuration"}`.

        Jobs go to `queue`, "rules" if not given, with `payload` in their own. Fires nothing.
        """
        return self._put_rule(new_rule(name, dependencies, enabled, queue, payload))

    @abstractmethod
    def _put_rule(self, rule: Rule) -> Rule: ...

    @abstractmethod
    def rule(self, name: str) -> Rule:
        """The rule as it is now."""

    @abstractmethod
    def rules(self) -> Iterator[Rule]:
        """All rules by name, fetched page by page."""

    @abstractmethod
    def delete_rule(self, name: str) -> None:
        """Forget a rule, its events and its decisions; its jobs stay."""

    def publish(
        self, events: Event | Mapping[str, Any] | Sequence[Event | Mapping[str, Any]]
    ) -> list[Published]:
        """Let the rules decide on an event, or on several in order; jobs that they fire are stored
        when this returns. An event is `{"eventType", "eventTimestamp", "eventResourceId"}` and
        may have an `eventId`. All are checked before any is stored. A server takes 1,000 at once.

        May be repeated: decisions that were made before are then answered as duplicates, with their
        jobs. A client repeats it if the answer is lost.
        """
        found = read_events(events, self._latest())
        return self._publish(found, alone=isinstance(events, Event | Mapping)) if found else []

    @abstractmethod
    def _latest(self) -> stamps.Stamp:
        """How late the time of an event may be."""

    @abstractmethod
    def _publish(self, events: Sequence[Event], *, alone: bool) -> list[Published]:
        """`alone`: it was not a list that was given."""

    @abstractmethod
    def event_page(
        self, wanted: EventFilter, after: Cursor | None = None, limit: int = 50
    ) -> EventPage:
        """One page of events, the last that arrived first; may be short and still have a next."""

    def events(
        self, *, rule: str | None = None, decision: Decision | str | None = None
    ) -> Iterator[LoggedEvent]:
        """Events with what was decided on them, the last that arrived first: all, or those on which
        a rule decided, or so."""
        wanted = EventFilter(
            None if rule is None else self.rule(rule).name,
            None if decision is None else choice(Decision, decision, "/decision"),
        )
        return every_item(partial(self.event_page, wanted))

    @abstractmethod
    def explain_rule(self, name: str, at: datetime | str | None = None) -> Standing:
        """What the rule waits for at a time, now if not given, and which event would fire it."""


class LocalRules(Local, RuleVerbs):
    """The rules and events of a store."""

    _event_bounds: Bounds
    """Also for the engine of a forked child."""

    @property
    def bounds(self) -> Bounds:
        """How far off an event's time may lie, and how long events are kept. May be replaced: use
        the same in every process."""
        return self.engine.pruner.bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self._event_bounds = self.engine.pruner.bounds = bounds

    def _put_rule(self, rule: Rule) -> Rule:
        self._check_sendable(rule.queue, rule.payload_json)
        return self.store.put_rule(rule, self.clock.now())

    def rule(self, name: str) -> Rule:
        found = rule_of(self.store, possible_rule(name))
        if found is None:
            raise _unknown(name)
        return found

    def rules(self) -> Iterator[Rule]:
        return by_name(self.store.rules)

    def delete_rule(self, name: str) -> None:
        if not self.store.delete_rule(possible_rule(name)):
            raise _unknown(name)

    def _latest(self) -> stamps.Stamp:
        return latest_of(self)

    def _publish(self, events: Sequence[Event], *, alone: bool) -> list[Published]:
        return list(self.engine.publish(events))

    def event_page(
        self, wanted: EventFilter, after: Cursor | None = None, limit: int = 50
    ) -> EventPage:
        check_page(after, limit)
        return self.store.events(wanted, after, limit)

    def explain_rule(self, name: str, at: datetime | str | None = None) -> Standing:
        when = stamps.of_moment(self.clock.now()) if at is None else stamps.parse(at, "/at")
        found = self.store.sightings(possible_rule(name), when)
        if found is None:
            raise _unknown(name)
        wanted, most = EventFilter(found.rule.name), UNUSED_LOOKED_FOR
        logged = every_item(lambda after, _: self.store.events(wanted, after, most))
        last = list(islice(logged, most))
        stale, too_late = (_last(last, unused) for unused in (Decision.STALE, Decision.TOO_LATE))
        return explain(found, when, stale, too_late)


def _last(events: Sequence[LoggedEvent], decision: Decision) -> Event | None:
    """The first of these events, the latest first, on which a rule decided so."""
    for logged in events:
        if any(one.decision is decision for one in logged.decisions):
            return logged.event
    return None


def rule_of(store: RuleStore, name: str) -> Rule | None:
    """The rule of that name, if there is one."""
    found = store.sightings(name, 0)
    return None if found is None else found.rule


def put(cue: LocalRules, rule: Rule) -> tuple[Rule, bool]:
    """Create or change a rule, as `put_rule` does; also whether it is new."""
    is_new = rule_of(cue.store, rule.name) is None
    return cue._put_rule(rule), is_new


def new_rule(
    name: object, dependencies: object, enabled: object, queue: object, payload: object
) -> Rule:
    """The rule that these fields describe, its payload included."""
    body = payloads.encode(payload)
    if len(body) > PAYLOAD_LIMIT_BYTES:
        raise TooLarge(
            f"{len(body):,} bytes as JSON; a rule's may have {PAYLOAD_LIMIT_BYTES:,}. "
            "Store the data elsewhere and send a reference to it.",
            "/payload",
        )
    return read_rule(name, dependencies, enabled, queue, body)


def latest_of(cue: LocalRules) -> stamps.Stamp:
    """How late the time of an event may be now."""
    return latest_stamp(stamps.of_moment(cue.clock.now()), cue.bounds)


def read_events(events: object, latest: stamps.Stamp) -> list[Event]:
    """The event, or the events of a list, that these fields describe; a wrong one refuses all."""
    if isinstance(events, Event | Mapping):
        return [_event(events, latest, "")]
    if not isinstance(events, list | tuple):
        raise InvalidInput("must be an event or a list of events.")
    if len(events) > PUBLISHED_AT_ONCE:
        raise InvalidInput(
            f"{len(events):,} events at once; at most {PUBLISHED_AT_ONCE:,} are taken. Send "
            "several lists."
        )
    return [_event(one, latest, f"/{place}") for place, one in enumerate(events)]


def _event(value: object, latest: stamps.Stamp, pointer: str) -> Event:
    return read_event(value.as_dict() if isinstance(value, Event) else value, latest, pointer)


def possible_rule(name: str) -> str:
    """The name, if any rule can have it."""
    try:
        return check_rule_name(name)
    except InvalidInput:
        raise _unknown(name) from None


def _unknown(name: object) -> NotFound:
    return NotFound(f"there is no rule {quoted(name)}; `rules` lists the existing ones.")
