"""Leases when the wall clock was turned, or when no heartbeat could be received.

Leases and timeouts end at moments of the wall clock, because several processes judge them. Each
reclaimer therefore compares how far the wall clock moved since the last look with how much time
really passed. Time that did not pass, or in which no engine ran, is not held against a claim.
Decisions only: a store applies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncue.core.moment import Moment

# Less than this is drift, the delay of a busy machine, or callers that overtake each other.
JUMP_MS = 1000
# A running engine looks every two seconds. A gap longer than this means that none ran.
LONGEST_GAP_MS = 5000
RECORD_EVERY_MS = 2000


class Look(NamedTuple):
    """What a reclaimer's clock showed when it judged leases."""

    origin: str
    """What `monotonic_ms` counts from, as `Clock.origin` tells it."""
    monotonic_ms: int
    wall: Moment

    def is_later_than(self, other: Look) -> bool:
        """False also if the two cannot be compared."""
        return self.origin == other.origin and self.monotonic_ms > other.monotonic_ms

    def jump_ms(self, before: Look) -> int:
        """How far the wall clock was turned since a look that has the same origin."""
        return self.wall - before.wall - (self.monotonic_ms - before.monotonic_ms)

    def needs_recording(self, recorded: Look | None) -> bool:
        """Whether the recorded look is too old to stand for this one."""
        if recorded is None or recorded.origin != self.origin:
            return True
        return self.monotonic_ms - recorded.monotonic_ms >= RECORD_EVERY_MS


class Missed(NamedTuple):
    """By how many milliseconds running leases and timeouts are moved."""

    claims_ms: int = 0
    ranges_ms: int = 0
    """Without the time in which no engine ran: then no dispatcher ran either, and an open range is
    left over from one that is gone."""


Judge = Callable[[Look | None], tuple[Look, Missed | None] | None]
"""Takes a look and compares it with the recorded one: the look, and by how much leases are to be
moved (None: not at all). None: nothing is to be recorded either. A store calls it inside the
transaction that applies the answer: a look that is older than a heartbeat would take that heartbeat
for one from before the clock was set back."""


def missed_since(
    last: Look | None,
    recorded: Look | None,
    look: Look,
    *,
    away: bool = False,
    gap_ms: int = LONGEST_GAP_MS,
) -> Missed | None:
    """What the claims missed between the last look and this one; None: nothing is to be moved.

    `last` is this reclaimer's last look and `recorded` that of the store; the later of them
    counts. `away`: the store did not answer since then, so no heartbeat was heard. `gap_ms`: two
    looks of engines that run are no further apart. A reclaimer's
    first look always answers with a `Missed`, so that leases from before a clock was set back are
    found: see `moved_lease`. A look from before the last one tells nothing: it was judged already.
    """
    before = recorded if last is None or (recorded and recorded.is_later_than(last)) else last
    if before is None:
        return Missed()
    wall_ms = look.wall - before.wall
    if before.origin != look.origin:  # the machine was started again: only the wall clock is left
        return Missed(wall_ms if wall_ms > gap_ms else 0)
    if before.is_later_than(look):
        return None
    elapsed_ms = look.monotonic_ms - before.monotonic_ms
    jump_ms = look.jump_ms(before)
    longest_gap_ms = gap_ms if last is None else 0
    unheard = (last is None or away) and elapsed_ms > longest_gap_ms
    forward_ms = jump_ms if jump_ms > JUMP_MS else 0
    if last is not None and abs(jump_ms) <= JUMP_MS and not unheard:
        return None
    return Missed(forward_ms + (elapsed_ms if unheard else 0), forward_ms)


def is_astray(until: Moment, length_ms: int, now: Moment) -> bool:
    """Whether a lease of that length was given by a clock that has been set back since."""
    return until > now + length_ms + JUMP_MS


def moved_lease(until: Moment, length_ms: int, missed_ms: int, now: Moment) -> Moment:
    """When a lease of that length ends after so much was missed.

    Never later than one length from now: a holder that lives renews it by then. A lease that ends
    later than that was given before the clock was set back.
    """
    latest = now + length_ms
    if is_astray(until, length_ms, now):
        return latest
    return max(until, min(until + missed_ms, latest))


def moved_timeout(overlong_at: Moment, claimed_at: Moment, missed_ms: int, now: Moment) -> Moment:
    """When an attempt is overlong after so much was missed: only what it missed since its claim
    counts. A claim in the future was made before the clock was set back, and counts from now."""
    ahead_ms = claimed_at - now
    if ahead_ms > JUMP_MS:
        return overlong_at - ahead_ms
    return overlong_at + min(missed_ms, max(-ahead_ms, 0))


def moved_stamp(at: Moment, now: Moment) -> Moment:
    """When a claim was made or last heard, never in the future."""
    return now if at > now + JUMP_MS else at
