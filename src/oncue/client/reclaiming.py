"""A reclaim run at a server."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue import reclaimwire
from oncue.client.asking import Asking
from oncue.client.connection import Request
from oncue.core import reclaim
from oncue.core.reclaim import ReclaimReport


class RemoteReclaiming(Asking):
    def reclaim(self, **parameters: Any) -> ReclaimReport:
        """Look once through the live claims for those silent longer than `reclaim_age_minutes`, and
        retry or fail them, as `Scheduler.reclaim` does; takes the scope `admin`. Never asked twice:
        if the answer is lost, another run does what is left."""
        asked = reclaim.parameters(parameters)
        request = Request(
            "POST",
            "/reclaim",
            msgspec.json.encode(reclaimwire.members(asked)),
            repeatable=False,
            wait_seconds=float(asked.maximum_execution_seconds),
        )
        return reclaimwire.report(self._ask(request, dict[str, Any]))
