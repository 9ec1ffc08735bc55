"""The reclaim run as a use case: started by people, by a timer elsewhere, or over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.engine.alarm import Alarm
from oncue.usecases.local import Local

if TYPE_CHECKING:  # see `Local`
    from oncue.core.reclaim import ReclaimParameters, ReclaimReport
    from oncue.engine.reclaimrun import ReclaimRun


class LocalReclaim(Local):
    def reclaim(self, **parameters: Any) -> ReclaimReport:
        """Look once through the live claims for those silent longer than `reclaim_age_minutes`, and
        retry or fail them. Parameters: see `ReclaimParameters`. With `log_reclaim_only` nothing is
        written, and the report tells what would be."""
        from oncue.core import reclaim

        run = started(self, reclaim.parameters(parameters))
        while (rest := run.step()) is not None:
            self._pause(rest)
        return run.report

    def _pause(self, seconds: float) -> None:
        Alarm(self.clock).pause(seconds)


def started(cue: Local, parameters: ReclaimParameters) -> ReclaimRun:
    """A run over the store of a scheduler, to be stepped by the caller."""
    from oncue.engine.reclaimrun import ReclaimRun

    return ReclaimRun(cue.engine.node, parameters)
