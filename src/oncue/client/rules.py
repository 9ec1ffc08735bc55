"""Rules and events, asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from oncue.client.asking import Asking, encode
from oncue.client.connection import AnswerLost, Request, path, query
from oncue.core import payload as payloads
from oncue.core import stamp as stamps
from oncue.core.errors import InvalidInput, NotFound
from oncue.core.event import Event, read_event
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter, EventPage, LoggedEvent, Published
from oncue.core.rule import Dependency, Rule, check_rule_name, read_dependencies
from oncue.core.standing import Standing
from oncue.wire import rules as wire
from oncue.wire.converting import read

PAGE = 500
_ANY_TIME: stamps.Stamp = 2**63 - 1  # what lies too far ahead is for the server's clock to say


class RemoteRules(Asking):
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
        fields = {
            "dependencies": [one.as_dict() for one in read_dependencies(dependencies)],
            "enabled": enabled,
            "queue": queue,
            "payload": msgspec.Raw(payloads.encode(payload)),
        }
        place = path("rules", check_rule_name(name))
        return read(Rule, self._ask(Request("PUT", place, encode(fields)), wire.Rule))

    def rule(self, name: str) -> Rule:
        """The rule as it is now."""
        return read(Rule, self._ask(Request("GET", _place(name)), wire.Rule))

    def rules(self) -> Iterator[Rule]:
        """All rules by name, fetched page by page."""
        after: str | None = None
        while True:
            request = Request("GET", "/rules" + query({"limit": PAGE, "cursor": after}))
            body = self._ask(request, wire.Rules)
            yield from (read(Rule, one) for one in body.items)
            if body.next_cursor is None:
                return
            after = body.next_cursor

    def delete_rule(self, name: str) -> None:
        """Forget a rule, its events and its decisions; its jobs stay."""
        request = Request("DELETE", _place(name), repeatable=False)
        try:
            self.connection.ask(request)
        except AnswerLost:  # a second request would be refused because of the first
            if self._rule_is_there(name):
                self.connection.ask(request)

    def _rule_is_there(self, name: str) -> bool:
        try:
            self.rule(name)
        except NotFound:
            return False
        return True

    def publish(
        self, events: Event | Mapping[str, Any] | Sequence[Event | Mapping[str, Any]]
    ) -> list[Published]:
        """Let the rules decide on an event, or on up to 1,000 in order; jobs that they fire are
        stored when this returns. An event is `{"eventType", "eventTimestamp", "eventResourceId"}`
        and may have an `eventId`. All are checked before any is stored.

        May be repeated, and is, if the answer is lost. It then calls duplicate what the first
        request had done, and names the jobs in the decisions.
        """
        if isinstance(events, Event | Mapping):
            event = _event(events, "")
            return self._publish([event], event.as_dict())
        if not isinstance(events, list | tuple):
            raise InvalidInput("must be an event or a list of events.")
        sent = [_event(one, f"/{place}") for place, one in enumerate(events)]
        return self._publish(sent, [one.as_dict() for one in sent]) if sent else []

    def _publish(self, events: list[Event], fields: Any) -> list[Published]:
        request = Request("POST", "/events", msgspec.json.encode(fields))
        answer = self._ask(request, wire.Published)
        if len(answer.events) != len(events):
            raise self.connection.not_ours("answered for other events than were sent")
        return answer.read(events)

    def event_page(
        self, wanted: EventFilter, after: int | None = None, limit: int = 50
    ) -> EventPage:
        """One page of events, the last that arrived first; may be short and still have a next."""
        asked = {"rule": wanted.rule, "decision": wanted.decision, "limit": limit, "cursor": after}
        return self._ask(Request("GET", "/events" + query(asked)), wire.LoggedEvents).read()

    def events(
        self, *, rule: str | None = None, decision: Decision | str | None = None
    ) -> Iterator[LoggedEvent]:
        """Events with what was decided on them, the last that arrived first: all, or those on which
        a rule decided, or so."""
        wanted = EventFilter(rule, None if decision is None else _decision(decision))
        after: int | None = None
        while True:
            page = self.event_page(wanted, after, PAGE)
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def explain_rule(self, name: str, at: datetime | str | None = None) -> Standing:
        """What the rule waits for at a time, now if not given, and which event would fire it."""
        when = None if at is None else stamps.render(stamps.parse(at, "/at"))
        rule = self.rule(name)
        request = Request("GET", _place(name, "explain") + query({"at": when}))
        return self._ask(request, wire.Standing).read(rule)


def _event(value: Event | Mapping[str, Any], pointer: str) -> Event:
    return value if isinstance(value, Event) else read_event(value, _ANY_TIME, pointer)


def _decision(value: str) -> Decision:
    try:
        return Decision(value)
    except ValueError:
        raise InvalidInput(f"must be one of {', '.join(Decision)}.", "/decision") from None


def _place(name: str, *more: str) -> str:
    """The path of a rule, if any rule can have the name."""
    try:
        return path("rules", check_rule_name(name), *more)
    except InvalidInput:
        raise NotFound(f"there is no rule {name!r}; `rules` lists those that there are.") from None
