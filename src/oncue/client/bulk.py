"""Bulk verbs at a server: asked for part by part, until it says that that was all."""

from __future__ import annotations

from typing import Any

from oncue.client.asking import Asking, encode
from oncue.client.connection import Request, path
from oncue.client.jobs import filter_fields
from oncue.core.bulk import SAMPLE, BulkOrder, BulkOutcome, BulkVerb
from oncue.ports.clock import Clock
from oncue.usecases.bulk import BulkOptions, BulkVerbs, order_of
from oncue.wire import jobs as wire


class RemoteChanges(Asking, BulkVerbs):
    clock: Clock

    def _carry_out(self, verb: BulkVerb, options: BulkOptions, **how: Any) -> BulkOutcome:
        order = order_of(verb, options, self.clock.now(), **how)
        everything = options.get("everything", False)
        monotonic, progress = self.clock.monotonic, options.get("progress")
        ends = None if order.seconds is None else monotonic() + order.seconds
        outcome = BulkOutcome(next_cursor=options.get("cursor"))
        while True:
            self._part(order, how, everything, outcome)
            if progress is not None:
                progress(outcome)
            over = ends is not None and monotonic() >= ends
            if outcome.next_cursor is None or outcome.matched == order.limit or over:
                return outcome

    def _part(
        self, order: BulkOrder, how: dict[str, Any], everything: bool, outcome: BulkOutcome
    ) -> None:
        fields = {
            "filter": filter_fields(order.wanted),
            "everything": everything,
            "dry_run": order.dry_run,
            "limit": None if order.limit is None else order.limit - outcome.matched,
            "cursor": outcome.next_cursor,
            **how,
        }
        verb = order.change.verb
        # A job that was retried and has failed since would be retried again; with the others,
        # what was done once is found done.
        repeatable = order.dry_run or verb is not BulkVerb.RETRY
        request = Request("POST", path("jobs", verb), encode(fields), repeatable=repeatable)
        body, sample = self._ask(
            request, wire.BulkOutcome, lambda body: (body, [one.read() for one in body.sample])
        )
        outcome.matched += body.matched
        outcome.changed += body.changed
        outcome.key_taken += body.key_taken
        outcome.sample += sample[: SAMPLE - len(outcome.sample)]
        outcome.next_cursor = body.next_cursor
