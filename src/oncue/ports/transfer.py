"""The store, as far as dump and restore go: everything out, everything in, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.core.cursor import Cursor, Page
from oncue.core.dumped import DumpedEvent, DumpedJob
from oncue.core.standing import Sightings


class TransferStore(Protocol):
    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        """A page of all jobs, finished and remembered ones too, each with its history. Jobs that
        change meanwhile are seen once, as they were or as they are."""

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        """Store jobs as they are, state and all; those whose id is there are left alone. How many
        were stored. A job whose key is held by another unfinished one is refused (KeyTaken)."""

    def export_events(self, after: Cursor | None, limit: int) -> Page[DumpedEvent]:
        """A page of all events in the order in which they arrived, each with what the rules decided
        on it. The rules themselves are listed by `rules` and `sightings`."""

    def admit_rules(self, rules: Sequence[Sightings], events: Sequence[DumpedEvent]) -> int:
        """Store rules as they are, with the last instant, and of each dependency the newest stamp
        and whether an event was stale; then events in this order, with the decisions on them. How
        many events were stored.

        A rule whose name is there is left alone, and so is an event that is there. A decision is
        stored if the store has the rule and that rule has not decided on the event; decisions of
        other rules are left out. An id that belongs to another event is refused (EventIdTaken).
        Nothing fires.
        """
