"""The reclaimer of a tick, whose process does not live until the next one."""

from __future__ import annotations

import secrets

from oncue.core.missed import JUMP_MS, Look, Missed, missed_since
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer

HOUR_MS = 3_600_000
TICKS_MISSED = 3  # more in a row are an outage


class TickReclaimer(Reclaimer):
    """A sandbox that stood still between two ticks tells nothing by its monotonic clock, so only
    the wall clock is used. Each tick records its look: so the next one knows that nothing was
    missed, and need not read all live claims to move their leases."""

    def __init__(self, node: Node, tick_seconds: float) -> None:
        super().__init__(node)
        self._tick = f"tick {secrets.token_hex(8)}"
        self._gap_ms = round(TICKS_MISSED * tick_seconds * 1000)

    def _origin(self) -> str:
        return self._tick

    def _is_to_be_recorded(self, look: Look, recorded: Look | None, running: bool) -> bool:
        return look.needs_recording(recorded)

    def _missed_since(self, recorded: Look | None, look: Look) -> Missed | None:
        if self._last_look is None and recorded is not None:
            passed_ms = look.wall - recorded.wall
            if -JUMP_MS <= passed_ms <= self._gap_ms:
                return None
        return missed_since(self._last_look, recorded, look, away=self._away, gap_ms=self._gap_ms)

    def _has_leases_astray(self, look: Look, recorded: Look | None) -> bool:
        """Asked by the first tick of an hour."""
        if recorded is None or look.wall // HOUR_MS == recorded.wall // HOUR_MS:
            return False
        return super()._has_leases_astray(look, recorded)
