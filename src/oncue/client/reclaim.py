"""A reclaim run at a server."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.client.asking import Asking
from oncue.client.connection import Request
from oncue.core import reclaim
from oncue.core.reclaim import ReclaimReport
from oncue.wire import reclaim as wire
from oncue.wire.converting import written


class RemoteReclaiming(Asking):
    def reclaim(self, **parameters: Any) -> ReclaimReport:
        """Look once through the live claims for those silent longer than `reclaim_age_minutes`, and
        retry or fail them, as `Scheduler.reclaim` does; takes the scope `admin`. Never asked twice:
        if the answer is lost, another run does what is left."""
        asked = reclaim.parameters(parameters)
        request = Request(
            "POST",
            "/reclaim",
            msgspec.json.encode(written(wire.ReclaimParameters, asked)),
            repeatable=False,
            wait_seconds=float(asked.maximum_execution_seconds),
        )
        return self._ask(request, wire.ReclaimReport, wire.ReclaimReport.read)
