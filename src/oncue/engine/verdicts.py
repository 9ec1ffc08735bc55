"""Apply verdicts on lapses, count them and log them: for the reclaimer and for reclaim runs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from oncue.core.job import Lapse
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.reclaim import Decision
from oncue.core.retry import Verdict
from oncue.engine.node import Node
from oncue.telemetry.counters import Reclaimed

OUTCOMES: dict[Verb, tuple[Decision, Reclaimed]] = {
    Verb.RECLAIM: ("retry", "retried"),
    Verb.GIVE_UP: ("fail", "failed"),
    Verb.DROP: ("cancel", "cancelled"),
}
"""By the verb of a verdict: what is to become of the claim, and what became of it."""

logger = logging.getLogger("oncue.engine")


def carry_out(
    node: Node, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
) -> Counter[Reclaimed]:
    """Apply verdicts as `ClaimStore.reclaim` does. How many were applied, by outcome."""
    refused = node.store.reclaim(verdicts, now)
    applied: Counter[Reclaimed] = Counter()
    for position, (lapse, verdict) in enumerate(verdicts):
        if position in refused:
            text = "job %s: not reclaimed, it moved on meanwhile"
            logger.info(text, lapse.id, extra=facts(lapse))
        else:
            _, outcome = OUTCOMES[verdict.verb]
            applied[outcome] += 1
            tell("", lapse, verdict)
    node.telemetry.reclaimed(applied)
    return applied


def tell(prefix: str, lapse: Lapse, verdict: Verdict) -> None:
    """Log what was decided, or would be, on a claim."""
    logger.warning(
        "%sjob %s (queue %s, attempt %d, worker %s): %s, %s: %s",
        prefix, lapse.id, lapse.queue, lapse.attempt, lapse.worker,
        verdict.code, verdict.verb, verdict.detail, extra=facts(lapse),
    )  # fmt: skip


def facts(lapse: Lapse) -> dict[str, str | int]:
    return {"job_id": lapse.id, "queue": lapse.queue, "attempt": lapse.attempt}
