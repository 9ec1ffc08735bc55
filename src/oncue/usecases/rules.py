"""Rules and events: say what must hold, publish what happened, ask why nothing happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from oncue.core import payload as payloads
from oncue.core import stamp as stamps
from oncue.core.errors import InvalidInput, NotFound, TooLarge
from oncue.core.event import Bounds, Event, latest_stamp, read_event
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter, EventPage, LoggedEvent, Published
from oncue.core.rule import PAYLOAD_LIMIT_BYTES, Dependency, Rule, check_rule_name, read_rule
from oncue.core.standing import Standing, explain
from oncue.engine.engine import Engine
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.telemetry.counters import Telemetry

PUBLISHED_AT_ONCE = 10_000
_PAGE = 500

logger = logging.getLogger("oncue.rules")


class Rules:
    store: Store
    clock: Clock
    engine: Engine
    telemetry: Telemetry

    @property
    def bounds(self) -> Bounds:
        """How far off an event's time may lie, and how long events are kept. May be replaced; the
        same in every process, please."""
        return self.engine.pruner.bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self.engine.pruner.bounds = bounds

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
        rule = new_rule(name, dependencies, enabled, queue, payload)
        return self.store.put_rule(rule, self.clock.now())

    def rule(self, name: str) -> Rule:
        """The rule as it is now."""
        found = self.store.rule(_plain(name))
        if found is None:
            raise _unknown(name)
        return found

    def rules(self) -> Iterator[Rule]:
        """All rules by name, fetched page by page."""
        after: str | None = None
        while page := self.store.rules(after, _PAGE):
            yield from page
            after = page[-1].name

    def delete_rule(self, name: str) -> None:
        """Forget a rule, its events and its decisions; its jobs stay."""
        if not self.store.delete_rule(_plain(name), self.clock.now()):
            raise _unknown(name)

    def publish(
        self, events: Event | Mapping[str, Any] | Sequence[Event | Mapping[str, Any]]
    ) -> list[Published]:
        """Let the rules decide on an event, or on several in order; jobs that they fire are stored
        when this returns. An event is `{"eventType", "eventTimestamp", "eventResourceId"}` and
        may have an `eventId`. All are checked before any is stored. May be repeated."""
        now = self.clock.now()
        latest = latest_stamp(stamps.of_moment(now), self.bounds)
        if isinstance(events, Event | Mapping):
            read = [_event(events, latest, "")]
        elif not isinstance(events, list | tuple):
            raise InvalidInput("must be an event or a list of events.")
        elif len(events) > PUBLISHED_AT_ONCE:
            raise InvalidInput(
                f"{len(events):,} events at once; at most {PUBLISHED_AT_ONCE:,} are taken. Send "
                "several lists."
            )
        else:
            read = [_event(one, latest, f"/{place}") for place, one in enumerate(events)]
        published = list(self.store.publish(read, now, self.bounds)) if read else []
        self.telemetry.count("jobs_created", sum(len(one.jobs) for one in published))
        log_fired(published)
        return published

    def event_page(
        self, wanted: EventFilter, after: int | None = None, limit: int = 50
    ) -> EventPage:
        """One page of events, the last that arrived first; may be short and still have a next."""
        return self.store.events(wanted, after, limit)

    def events(
        self, *, rule: str | None = None, decision: Decision | str | None = None
    ) -> Iterator[LoggedEvent]:
        """Events with what was decided on them, the last that arrived first: all, or those on which
        a rule decided, or so."""
        wanted = EventFilter(
            None if rule is None else self.rule(rule).name,
            None if decision is None else _decision(decision),
        )
        after: int | None = None
        while True:
            page = self.store.events(wanted, after, _PAGE)
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def explain_rule(self, name: str, at: datetime | str | None = None) -> Standing:
        """What the rule waits for at a time, now if not given, and which event would fire it."""
        when = stamps.of_moment(self.clock.now()) if at is None else stamps.parse(at, "/at")
        found = self.store.sightings(_plain(name), when)
        if found is None:
            raise _unknown(name)
        return explain(found, when)


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


def _event(value: Event | Mapping[str, Any], latest: stamps.Stamp, pointer: str) -> Event:
    return read_event(value.as_dict() if isinstance(value, Event) else value, latest, pointer)


def log_fired(published: Sequence[Published]) -> None:
    """A line for each job that events have created."""
    if not logger.isEnabledFor(logging.INFO):
        return
    for job in (job for one in published for job in one.jobs):
        logger.info(
            "fired rule=%r job=%s instant=%s", job.rule, job.job_id, stamps.render(job.instant),
            extra={"job_id": job.job_id, "rule": job.rule},
        )  # fmt: skip


def _decision(value: str) -> Decision:
    try:
        return Decision(value)
    except ValueError:
        raise InvalidInput(f"must be one of {', '.join(Decision)}.", "/decision") from None


def _plain(name: str) -> str:
    """The name, if any rule can have it."""
    try:
        return check_rule_name(name)
    except InvalidInput:
        raise _unknown(name) from None


def _unknown(name: object) -> NotFound:
    return NotFound(f"there is no rule {name!r}; `rules` lists those that there are.")
