"""Jobs that their sink refused for now: how long each is put off, and when it returns.

A sink that is down stops its queue (engine/circuit.py). A refusal of one job is about that job: it
waits by itself with a growing delay, and the others go on.
"""

from __future__ import annotations

from zlib import crc32

from oncue.core.missed import JUMP_MS
from oncue.core.moment import Moment
from oncue.core.queue import RetryPolicy
from oncue.core.retry import backoff_seconds

# Refusals are not bounded as attempts are, so a policy without a delay must not become a busy loop.
SHORTEST_SECONDS = 0.1


def put_off_until(policy: RetryPolicy, job_id: str, refusals: int, now: Moment) -> Moment:
    """Until when a job waits after so many refusals in a row, this one included.

    The delays of jobs that were refused together differ, so that they do not all return together.
    The moment is rounded down by at most a quarter of the delay, so that they return in groups:
    each return of one by itself would cost a claim and a settlement.
    """
    spread = crc32(f"{job_id}:{refusals}".encode()) / 2**32
    delay_ms = round(1000 * max(SHORTEST_SECONDS, backoff_seconds(policy, refusals, spread)))
    group_ms = 1 << (delay_ms // 4).bit_length() - 1  # powers of two: the groups of all jobs agree
    until = now + delay_ms
    return until - until % group_ms


def latest_return(policy: RetryPolicy, now: Moment) -> Moment:
    """The latest moment until which a job waits that is put off now."""
    return now + round(1000 * max(SHORTEST_SECONDS, policy.max_seconds))


def moved_return(not_before: Moment, policy: RetryPolicy, now: Moment) -> Moment:
    """Until when a put-off job waits. One that waits longer than the policy ever lets it was put
    off before the clock was set back."""
    latest = latest_return(policy, now)
    return latest if not_before > latest + JUMP_MS else not_before


def back_in_line_until(now: Moment, first_due: Moment | None) -> Moment:
    """Put-off jobs whose moment is not later than this take their place in line again. `first_due`
    is the due time of the job to be handed over next, if one is due and the put-off jobs have no
    better rank. It has been ready since then, so jobs whose moment came after it stay out of its
    way: otherwise many jobs that are refused again and again would keep a queue with a small rate
    from everything else. A job of a better rank goes first, whenever it returns."""
    return now if first_due is None else min(now, first_due)
