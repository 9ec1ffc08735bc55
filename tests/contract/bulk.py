"""A bulk verb over a filter, said briefly."""

from __future__ import annotations

from typing import Any

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.job import JobFilter
from oncue.usecases.bulk import BulkDone, change_all

from .desk import Desk
from .promises import found_by

CANCEL, RUN, RETRY = BulkVerb.CANCEL, BulkVerb.RUN, BulkVerb.RETRY
MOVE, REPRIORITISE = BulkVerb.MOVE, BulkVerb.REPRIORITISE


class Bulk:
    """A bulk verb over one filter, from the moment at which it is made."""

    def __init__(self, desk: Desk, verb: BulkVerb, wanted: JobFilter, **how: Any) -> None:
        usual: dict[BulkVerb, dict[str, Any]] = {
            MOVE: {"queue": "target"},
            REPRIORITISE: {"priority": 7},
        }
        self.desk = desk
        self.change = BulkChange(verb, desk.now, **{**usual.get(verb, {}), **how})
        self.wanted = wanted

    def found(self, limit: int = 100) -> list[str]:
        """All ids, page by page."""
        return found_by(self.desk.store, self.change, self.wanted, limit)

    def apply(self, job_ids: list[str]) -> BulkDone:
        return change_all(self.desk.store, self.change, self.wanted, job_ids, self.desk.now)

    def carry_out(self, limit: int = 100) -> BulkDone:
        """Page by page, each changed before the next is looked for."""
        changed = key_taken = 0
        after: str | None = None
        while True:
            page = self.desk.store.find_all(self.change, self.wanted, after, limit)
            done = self.apply(page.items)
            changed, key_taken = changed + done.changed, key_taken + done.key_taken
            if page.next is None:
                return BulkDone(changed, key_taken)
            after = page.next


def bulk(desk: Desk, verb: BulkVerb, *, how: dict[str, Any] | None = None, **wanted: Any) -> Bulk:
    return Bulk(desk, verb, JobFilter(**wanted), **(how or {}))
