"""The reclaimer: silent or overlong claims → retry or fail; expired waiting jobs → cancelled.

It needs no leader: the store applies a verdict only to a claim that is still as it was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from oncue.core.errors import StoreUnavailable
from oncue.core.job import Lapse
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.retry import Verdict, after_lapse
from oncue.engine.verdicts import carry_out
from oncue.ports.claims import ClaimStore
from oncue.ports.clock import Clock
from oncue.telemetry import Telemetry

PAGE = 500
LONGEST_REST_SECONDS = 2.0  # bounds the takeover: leases shorter than the rest begin during it
SHORTEST_REST_SECONDS = 0.05
LONGEST_GRACE_SECONDS = 300.0
JUMP_MS = 1000  # less is drift and the delays of a busy machine

logger = logging.getLogger("oncue.engine")


class Reclaimer:
    """While the store was away no heartbeat could arrive, and when the wall clock is set forward or
    the machine was asleep nobody could have sent one: leases are judged as if that time had not
    passed, for as long as it lasted."""

    def __init__(
        self,
        store: ClaimStore,
        clock: Clock,
        policy: Callable[[str], Queue],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._telemetry = telemetry or Telemetry(clock)
        self._away_since: Moment | None = None
        self._answered_at: Moment | None = None
        self._looked: tuple[Moment, float] | None = None
        self._grace_ms = 0
        self._grace_until: Moment = 0

    def step(self) -> float:
        """Expire and reclaim one page; full page: go again; else rest until the next lapse."""
        try:
            return self._pass()
        except StoreUnavailable:
            if self._away_since is None:
                self._away_since = self._answered_at or self._clock.now()
            raise

    def _pass(self) -> float:
        now = self._clock.now()
        expired = self._store.expire(now, PAGE)
        if expired:
            self._telemetry.expired(expired)
            logger.info("%d jobs expired before they were taken", expired)
        grace_ms = self._grace(now)
        lapses = self._store.lapses(now - grace_ms, PAGE)
        if lapses:
            self._reclaim(lapses, now)
        self._answered_at = now
        if expired >= PAGE or len(lapses) >= PAGE:
            return 0.0
        next_lapse = self._store.next_lapse()
        if next_lapse is None:
            return LONGEST_REST_SECONDS
        rest = (next_lapse + grace_ms - self._clock.now()) / 1000
        return min(max(rest, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    def _reclaim(self, lapses: Sequence[Lapse], now: Moment) -> None:
        if len(lapses) >= PAGE:
            logger.warning("%d claims lapsed at once: were all workers away?", len(lapses))
        verdicts: list[tuple[Lapse, Verdict, bool]] = []
        for lapse in lapses:
            queue = self._policy(lapse.queue)
            verdicts.append((lapse, after_lapse(lapse, queue, now), queue.keeps_history))
        carry_out(self._store, self._telemetry, verdicts, now)

    def _grace(self, now: Moment) -> int:
        """By how many milliseconds leases are extended at the moment."""
        in_force = self._grace_ms if now < self._grace_until else 0
        away_ms = 0 if self._away_since is None else max(now - self._away_since, 0)
        missed_ms = max(away_ms, self._jump_ms(now))
        self._away_since = None
        if missed_ms > 0:
            in_force += missed_ms
            # Long enough for every worker that lives to be heard again, whatever was missed.
            self._grace_ms = in_force
            self._grace_until = now + min(in_force, round(LONGEST_GRACE_SECONDS * 1000))
            logger.warning(
                "the store was away or the clock jumped: leases extended by %.3f s", in_force / 1000
            )
        return in_force

    def _jump_ms(self, now: Moment) -> int:
        """By how much the wall clock ran ahead of the monotonic one since the last look."""
        monotonic = self._clock.monotonic()
        before, self._looked = self._looked, (now, monotonic)
        if before is None:
            return 0
        jump_ms = now - before[0] - round((monotonic - before[1]) * 1000)
        return jump_ms if jump_ms > JUMP_MS else 0
