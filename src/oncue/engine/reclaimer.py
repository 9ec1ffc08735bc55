"""The reclaimer: silent or overlong claims → retry or fail; expired waiting jobs → cancelled.

It needs no leader: the store applies a verdict only to a claim that is still as it was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from oncue.core.errors import StoreUnavailable
from oncue.core.job import Lapse
from oncue.core.missed import Look, Missed, missed_since
from oncue.core.moment import Moment
from oncue.core.retry import after_lapse
from oncue.engine.node import Node
from oncue.engine.verdicts import carry_out
from oncue.ports.claims import ClaimFilter

PAGE = 500
LONGEST_REST_SECONDS = 2.0  # bounds the takeover: leases shorter than the rest begin during it
SHORTEST_REST_SECONDS = 0.05
WALK_EVERY_MS = 20_000

logger = logging.getLogger("oncue.engine")


class Reclaimer:
    """While the store was away, or no engine ran, heartbeats could not be received; and if the wall
    clock is set forward, they could not be sent in time. So before it judges leases, a reclaimer
    moves them by what was missed (`core/missed.py`). The store keeps the last look, so that several
    reclaimers move them once, and a restarted one knows how long no reclaimer looked."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._store, self._clock, _, self._telemetry = node
        self._last_look: Look | None = None
        self._away = False
        self._next_walk_ms = 0

    def step(self) -> float:
        """Expire and reclaim one page; more pages: go again; else rest until the next lapse."""
        began = self._look()
        try:
            return self._pass()
        except StoreUnavailable:
            self._last_look = self._last_look or began
            self._away = True
            raise

    def overslept(self) -> None:
        """The next step comes much later than planned: this process stood still, and unless another
        engine ran, no heartbeat was received."""
        self._away = True

    def check_clock(self) -> None:
        """Judge leases at once if the clock was turned since the last look. For dispatchers, from
        any thread, before they take over what looks like an open range whose lease has ended."""
        if self._last_look is not None:
            look = self._look()
            if missed_since(self._last_look, None, look) is not None:
                self._judge_leases()

    def _look(self) -> Look:
        clock = self._clock
        return Look(self._origin(), round(clock.monotonic() * 1000), clock.now())

    def _origin(self) -> str:
        return self._clock.origin()

    def _pass(self) -> float:
        look, next_lapse = self._judge_leases()
        self._last_look, self._away = look, False
        now = look.wall
        if next_lapse is None or next_lapse > now:
            return self._rest(next_lapse)
        expired = self._store.expire(now, PAGE)
        if expired:
            self._telemetry.count("expired", expired)
            logger.info("%d jobs expired before they were taken", expired)
        lapsed = ClaimFilter(lapsed_by=now)
        cursor, reclaimed = None, 0
        while not reclaimed:  # a page whose claims are all being settled just now is passed by
            page = self._store.live_claims(lapsed, cursor, PAGE)
            if missed_since(look, None, self._look()) is not None:  # turned in between: judge again
                return SHORTEST_REST_SECONDS
            reclaimed = self._reclaim(page.items, now)
            cursor = page.next
            if cursor is None:
                break
        if expired >= PAGE or page.next is not None:
            return 0.0
        next_lapse = self._store.leases().next_lapse
        if next_lapse is not None and next_lapse <= now and not (expired or reclaimed):
            return LONGEST_REST_SECONDS  # it cannot be ended yet: its range is open, or it is held
        return self._rest(next_lapse)

    def _rest(self, next_lapse: Moment | None) -> float:
        if next_lapse is None:
            return LONGEST_REST_SECONDS
        rest = (next_lapse - self._clock.now()) / 1000
        return min(max(rest, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    def _judge_leases(self) -> tuple[Look, Moment | None]:
        """Move leases that would be judged wrongly, and record a look now and then while any runs.
        The look by which claims may be judged, and when the next one lapses."""
        look = self._look()
        running, last_look, next_lapse = self._store.leases()
        missed = self._missed_since(last_look, look)
        if missed is None and not self._is_to_be_recorded(look, last_look, running):
            return look, next_lapse
        astray = missed is None and self._has_leases_astray(look, last_look)
        applied = self._store.judge_leases(partial(self._judge, astray))
        if running:
            _warn_of(applied)
        return look, next_lapse if applied is None else self._store.leases().next_lapse

    def _is_to_be_recorded(self, look: Look, recorded: Look | None, running: bool) -> bool:
        return running and look.needs_recording(recorded)

    def _missed_since(self, recorded: Look | None, look: Look) -> Missed | None:
        return missed_since(self._last_look, recorded, look, away=self._away)

    def _has_leases_astray(self, look: Look, recorded: Look | None) -> bool:
        """All live claims are read for that, so it is asked now and then."""
        if look.monotonic_ms < self._next_walk_ms:
            return False
        self._next_walk_ms = look.monotonic_ms + WALK_EVERY_MS
        return self._store.has_leases_astray(look.wall)

    def _judge(self, astray: bool, recorded: Look | None) -> tuple[Look, Missed | None] | None:
        """`astray`: leases are to be judged even if nothing was missed."""
        look = self._look()
        if recorded is not None and recorded.is_later_than(look):
            return None
        missed = self._missed_since(recorded, look)
        return look, Missed() if missed is None and astray else missed

    def _reclaim(self, lapses: Sequence[Lapse], now: Moment) -> int:
        """How many were reclaimed."""
        if not lapses:
            return 0
        if len(lapses) >= PAGE:
            logger.warning("%d claims lapsed at once: were all workers away?", len(lapses))
        queue_of = self._node.policies
        verdicts = [(lapse, after_lapse(lapse, queue_of(lapse.queue), now)) for lapse in lapses]
        return carry_out(self._node, verdicts, now).total()


def _warn_of(missed: Missed | None) -> None:
    if missed is not None and missed.claims_ms:
        logger.warning(
            "no engine ran, the store was away or the clock was set forward: leases extended by "
            "%.3f s, at most to their full length from now",
            missed.claims_ms / 1000,
        )
