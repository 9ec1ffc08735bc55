"""Rules and events, asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import msgspec

from oncue.client.asking import Asking, encode
from oncue.client.connection import Call, path, query
from oncue.core import stamp as stamps
from oncue.core.cursor import Cursor
from oncue.core.event import Event
from oncue.core.publication import EventFilter, EventPage, Published
from oncue.core.rule import Rule
from oncue.core.standing import Standing
from oncue.usecases.rules import RuleVerbs, possible_rule
from oncue.wire import rules as wire
from oncue.wire.converting import read

_rule = partial(read, Rule)


class RemoteRules(Asking, RuleVerbs):
    def _put_rule(self, rule: Rule) -> Rule:
        fields = {
            "dependencies": [one.as_dict() for one in rule.dependencies],
            "enabled": rule.enabled,
            "queue": rule.queue,
            "payload": msgspec.Raw(rule.payload_json),
        }
        return self._ask(Call("PUT", path("rules", rule.name), encode(fields)), wire.Rule, _rule)

    def rule(self, name: str) -> Rule:
        return self._ask(Call("GET", path("rules", possible_rule(name))), wire.Rule, _rule)

    def rules(self) -> Iterator[Rule]:
        return self._listed("/rules", wire.Rules, _rule)

    def delete_rule(self, name: str) -> None:
        self._delete("rules", possible_rule(name))

    def _latest(self) -> stamps.Stamp:
        return 2**63 - 1  # what lies too far ahead is for the server's clock to say

    def _publish(self, events: Sequence[Event], *, alone: bool) -> list[Published]:
        fields = [event.as_dict() for event in events]
        request = Call("POST", "/events", msgspec.json.encode(fields[0] if alone else fields))
        return self._ask(request, wire.Published, lambda body: body.read(events))

    def event_page(
        self, wanted: EventFilter, after: Cursor | None = None, limit: int = 50
    ) -> EventPage:
        asked = {"rule": wanted.rule, "decision": wanted.decision, "limit": limit, "cursor": after}
        request = Call("GET", "/events" + query(asked))
        return self._ask(request, wire.LoggedEvents, wire.LoggedEvents.read)

    def explain_rule(self, name: str, at: datetime | str | None = None) -> Standing:
        when = None if at is None else stamps.render(stamps.parse(at, "/at"))
        rule = self.rule(name)
        request = Call("GET", path("rules", name, "explain") + query({"at": when}))
        return self._ask(request, wire.Standing, lambda body: body.read(rule))
