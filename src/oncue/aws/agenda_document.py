"""An AgendaProgress as its endpoint answers: JSON whose names are found whatever their case.

Fields that the reclaimer does not know are kept byte for byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from oncue.core.agenda import (
    AgendaRecord,
    AgendaVerdict,
    Threshold,
    details,
    last_update,
    state_of,
)
from oncue.core.errors import ServerUnusable
from oncue.core.moment import Moment, render
from oncue.core.reclaim import ForeignTable

STATE = "processingState"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_DECISIONS = {"fail": "COMPLETE", "retry": "WAITING"}

Fields = dict[str, Raw]


class AgendaDocument(NamedTuple):
    """One AgendaProgress, as it was answered."""

    id: str
    fields: Fields
    table: ForeignTable

    @classmethod
    def read(cls, record_id: str, body: bytes, table: ForeignTable) -> AgendaDocument:
        try:
            document = cls(record_id, msgspec.json.decode(body, type=Fields), table)
        except UNREADABLE:
            raise ServerUnusable("the endpoint did not answer with a JSON object.") from None
        if document._state_name is None:
            raise ServerUnusable(f"the endpoint answered without {table.state}.")
        return document

    def record(self, row: AgendaRecord) -> AgendaRecord:
        """What decides. The time is that of the row if the answer has none."""
        state, message = self._value(self._state_name), self._value(self._message_name)
        update, claim = map(self._timed, (self.table.time, self.table.claim_time))
        is_known = (update, claim) != (None, None)
        return AgendaRecord(
            self.id,
            state_of(state, message),
            last_update(update, claim) if is_known else row.updated_at,
            self._count("attemptsCompleted"),
            self._count("maximumAttempts"),
            self._is_retryable(),
        )

    def changed(
        self, seen: AgendaRecord, verdict: AgendaVerdict, threshold: Threshold, now: Moment
    ) -> bytes:
        """The document to be written: a new state, its message, one more diagnostic event, and the
        number of attempts where that changes."""
        facts = details(seen, verdict, threshold, now)
        event = {
            "time": render(now),
            "code": verdict.code,
            "message": verdict.message,
            "attempt": seen.attempt,
            "details": facts,
        }
        failed = verdict.decision == "fail"
        changes: dict[str, Any] = {
            self._state_name or STATE: _DECISIONS[verdict.decision],
            self._spelled("diagnosticEvents"): [*self._events(), self._as_events_are(event)],
        }
        if failed or self._message_name:
            name = self._message_name or f"{self._state_name}Message"
            changes[name] = "failed" if failed else None
        if verdict.attempts_completed is not None:
            changes[self._spelled("attemptsCompleted")] = verdict.attempts_completed
        return msgspec.json.encode({**self.fields, **changes})

    @property
    def _state_name(self) -> str | None:
        return self._named(self.table.state) or self._named(STATE)

    @property
    def _message_name(self) -> str | None:
        return self._named(f"{self._state_name}Message")

    def _named(self, name: str) -> str | None:
        """The field of that name, as the document spells it."""
        if name in self.fields:
            return name
        wanted = name.lower()
        return next((field for field in self.fields if field.lower() == wanted), None)

    def _spelled(self, name: str) -> str:
        """The name as the document has it, or would have it: with a capital if its state has."""
        return self._named(name) or _capital(name, (self._state_name or STATE)[0].isupper())

    def _value(self, name: str | None) -> Any:
        if name is None:
            return None
        try:
            return msgspec.json.decode(self.fields[name])
        except UNREADABLE:
            raise ServerUnusable(
                f"the endpoint answered with {name} that cannot be read."
            ) from None

    def _timed(self, name: str | None) -> Any:
        return None if name is None else self._value(self._named(name))

    def _count(self, name: str) -> int | None:
        value = self._value(self._named(name))
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ServerUnusable(f"the endpoint answered with {name} that is not a number.")
        return value

    def _events(self) -> list[Raw]:
        name = self._named("diagnosticEvents")
        if name is None:
            return []
        try:
            return msgspec.json.decode(self.fields[name], type=list[Raw] | None) or []
        except UNREADABLE:
            raise ServerUnusable(f"the endpoint answered with {name} that is no list.") from None

    def _last_event(self) -> dict[str, Any]:
        events = self._events()
        try:
            last = msgspec.json.decode(events[-1]) if events else None
        except UNREADABLE:  # it is kept as it is; it only gives no hint
            return {}
        return last if isinstance(last, dict) else {}

    def _as_events_are(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with names that begin as those of the last event do."""
        names = [*self._last_event(), self._state_name or STATE]
        return {_capital(name, names[0][:1].isupper()): value for name, value in event.items()}

    def _is_retryable(self) -> bool | None:
        """The hint in the document, or in its last event, or in the details of that."""
        outer, event = self._value(self._named("retryable")), self._last_event()
        nested = _any_case(event, "details")
        inner = _any_case(nested, "retryable") if isinstance(nested, dict) else None
        hints = (outer, _any_case(event, "retryable"), inner)
        return next((hint for hint in hints if isinstance(hint, bool)), None)


def _any_case(fields: dict[str, Any], name: str) -> Any:
    return next((value for field, value in fields.items() if field.lower() == name), None)


def _capital(name: str, wanted: bool) -> str:
    return name[0].upper() + name[1:] if wanted else name
