"""Bulk verbs at a server: asked for part by part, until it says that that was all."""

from __future__ import annotations

from oncue.client.asking import Asking, encode
from oncue.client.connection import Call, path
from oncue.client.jobs import filter_fields
from oncue.core.bulk import SAMPLE, BulkOrder, BulkOutcome, BulkVerb
from oncue.core.job import JobFilter
from oncue.usecases.bulk import BulkVerbs
from oncue.wire import jobs as wire


class RemoteBulk(Asking, BulkVerbs):
    def _part(self, order: BulkOrder, outcome: BulkOutcome) -> float:
        change = order.change
        fields = {
            "filter": filter_fields(order.wanted),
            "everything": order.wanted == JobFilter(),
            "dry_run": order.dry_run,
            "limit": None if order.limit is None else order.limit - outcome.matched,
            "cursor": outcome.next_cursor,
            "running": change.running or None,
            "queue": change.queue,
            "priority": change.priority,
        }
        # A job that was retried and has failed since would be retried again; with the others,
        # what was done once is found done.
        repeatable = order.dry_run or change.verb is not BulkVerb.RETRY
        place = path("jobs", change.verb)
        request = Call("POST", place, encode(fields), repeatable=repeatable)
        body, sample = self._ask(
            request, wire.BulkOutcome, lambda body: (body, [one.read() for one in body.sample])
        )
        outcome.matched += body.matched
        outcome.changed += body.changed
        outcome.key_taken += body.key_taken
        outcome.sample += sample[: SAMPLE - len(outcome.sample)]
        outcome.next_cursor = body.next_cursor
        return 0.0
