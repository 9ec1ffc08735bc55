"""The store, as far as rules go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.core.moment import Moment
from oncue.core.rule import Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sightings


class RuleStore(Protocol):
    def put_rule(self, rule: Rule, now: Moment) -> Rule:
        """Create the rule, or give the one of that name these fields; the rule as it is now.

        A changed rule stays the same rule: it keeps its last instant, its decisions, and the
        accepted events of each dependency that keeps its type and resource. A new dependency has
        none; one that is gone loses them, also if it comes back. Fires nothing.
        """

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        """Rules in the order of their names, strictly after `after`."""

    def delete_rule(self, name: str) -> bool:
        """Forget the rule, its accepted events and its decisions; its jobs stay. Whether there was
        one. A rule created under the name later is another: it has no last instant."""

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        """The rule, and what is known of each of its dependencies at `at`; None: there is no such
        rule."""
