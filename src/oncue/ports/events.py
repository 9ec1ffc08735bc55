"""The store, as far as events go: publishing them to the rules, listing them.

The store does not decide. Inside each rule's transaction it asks `core` what becomes of the
event and at which instant the rule fires, and gives it one way to look: the newest accepted stamp
of a dependency up to a time. Such a look must cost the same however many events were accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.core.cursor import Cursor
from oncue.core.event import Bounds, Event
from oncue.core.moment import Moment
from oncue.core.publication import EventFilter, EventPage, Published


class EventStore(Protocol):
    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        """Let every rule that an event matches decide on it; an answer for each event, in order.

        Rules are found by an index: the exact key, for FILE also the path's ancestors. They decide
        in the order of their names. Decision, accepted event, job and last instant of one rule are
        one transaction, with the rule locked: two events that only together meet a rule fire it
        once, whichever node they come to. After a crash some rules may have decided; publishing the
        event again lets the others decide and changes nothing for these. The instants of a rule's
        jobs only grow, so it never has two jobs with one instant.

        Raises `EventIdTaken` before anything is stored if an id belongs to another event, in the
        store or in this call.
        """

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        """Events, the last that arrived first, each with the decisions that are wanted; where a
        rule or a decision is wanted, only events that have one. A
        page may be short and still have a next. Without a rule, refused by a store that lacks
        `all-events`."""
