"""A reclaim run: looks once through the live claims for those that were silent too long.

The reclaimer judges claims by their own leases and timeouts, all the time. A run is asked for and
judges by an age of its own, so it also finds claims that have neither. It needs no leader either:
the store applies a verdict only to a claim that is still as it was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oncue.core.cursor import Cursor
from oncue.core.duration import spoken
from oncue.core.job import Lapse
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import TASKS
from oncue.core.reclaim import FINDINGS_KEPT, Candidate, ReclaimParameters, ReclaimReport
from oncue.core.retry import Verdict, after_silence
from oncue.engine.node import Node
from oncue.engine.verdicts import OUTCOMES, carry_out, facts, tell
from oncue.ports.claims import ClaimFilter

NO_AGE = (
    "reclaimAgeMinutes is 0: every claim that was silent since the run began is taken, however "
    "healthy its worker is. Only tasks are left alone."
)
FOREIGN_TABLE = (
    "tableName, the names of fields and agendaProgressEndpointURL are ignored: this run looks at "
    "the claims of oncue's own store. For a table of another system, use oncue.aws.reclaim."
)

logger = logging.getLogger("oncue.engine")


class ReclaimRun:
    """Call `step` until it returns None; the report grows meanwhile. It begins when it is made."""

    def __init__(self, node: Node, parameters: ReclaimParameters) -> None:
        self.parameters = parameters
        self.report = ReclaimReport(would_reclaim=[] if parameters.log_reclaim_only else None)
        self._node = node
        self._store, self._clock = node.store, node.clock
        self._ends = node.clock.monotonic() + parameters.maximum_execution_seconds
        self._before = node.clock.now() - parameters.age_ms
        self._gathered: list[Lapse] = []
        self._decided = 0
        self.live: int | None = None
        """How many claims there were at the beginning; None: not known."""
        self._after: Cursor | None = None
        self._begun = self._warned = False

    def step(self) -> float | None:
        """Look at one page, and act once enough is gathered. How many seconds to pause; None: it is
        over. If a step raises, the work of the steps before it stays done."""
        if not self._begun:
            self._begin()
        silent = ClaimFilter(heard_outside=(self._before, max(self._clock.now(), self._before)))
        page = self._store.live_claims(silent, self._after, self.parameters.object_scan_limit)
        self._gather(page.items)
        is_over = self._is_time_over()
        last = is_over or page.next is None
        if last or len(self._gathered) >= self.parameters.target_batch_size:
            self._act()
        if last or self._is_time_over():
            return None
        self._after = page.next
        return self.parameters.scan_delay_millis / 1000

    def stop(self) -> None:
        """There is no time for another page: act on what is gathered."""
        self.report.ended_by = "time"
        self._act()

    def _begin(self) -> None:
        self._begun = True
        self.live = self._store.live_count()
        if self.parameters.age_ms == 0:
            self._warn(NO_AGE)
        if self.parameters.is_foreign:
            self._warn(FOREIGN_TABLE)

    def _is_time_over(self) -> bool:
        is_over = self._clock.monotonic() >= self._ends
        if is_over:
            self.report.ended_by = "time"
        return is_over

    def _gather(self, lapses: Sequence[Lapse]) -> None:
        # Read after the look: only a wrong clock can have written a later time before the look.
        now = self._clock.now()
        for lapse in lapses:
            if self.parameters.age_ms == 0 and lapse.queue == TASKS:
                continue  # people do them: their silence says nothing
            if lapse.updated_at < self._before:
                self._gathered.append(lapse)
            elif lapse.updated_at > now:
                self._set_aside(lapse, lapse.updated_at - now)
            else:
                continue
            self.report.scanned += 1

    def _set_aside(self, lapse: Lapse, ahead_ms: int) -> None:
        """A wrong clock wrote this, so it is not known how long the claim was silent."""
        ahead = spoken(ahead_ms / 1000)
        text = f"job {lapse.id} was last updated {ahead} in the future; left alone"
        self.report.anomalies += 1
        if self.report.anomalies == 1:
            self._warn(f"{text}. Is a clock wrong?")
        else:
            logger.warning("reclaim run: %s", text, extra=facts(lapse))

    def _act(self) -> None:
        """Decide on all that is gathered. A run without any time only looks."""
        if not self._gathered or not self.parameters.maximum_execution_seconds:
            return
        now = self._clock.now()
        self._decided += len(self._gathered)
        self._warn_of_many()
        verdicts = [(lapse, self._judge(lapse, now)) for lapse in self._gathered]
        self._gathered = []
        if self.report.would_reclaim is not None:
            self._foresee(self.report.would_reclaim, verdicts, now)
            return
        applied = carry_out(self._node, verdicts, now)
        self.report.lost_races += len(verdicts) - applied.total()
        for outcome, count in applied.items():
            setattr(self.report, outcome, getattr(self.report, outcome) + count)

    def _judge(self, lapse: Lapse, now: Moment) -> Verdict:
        queue, giving_up = self._node.policies(lapse.queue), self.parameters.mode == "fail"
        return after_silence(lapse, queue, now, self.parameters.age_ms, giving_up=giving_up)

    def _foresee(
        self, found: list[Candidate], verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> None:
        self.report.would_reclaim_count += len(verdicts)
        for lapse, verdict in verdicts:
            tell("would be reclaimed: ", lapse, verdict)
            if len(found) < FINDINGS_KEPT:
                found.append(_finding(lapse, verdict, now))

    def _warn_of_many(self) -> None:
        """All workers silent at once is more often an outage than so many deaths."""
        if self._warned or self.live is None or self._decided < 2:
            return
        if 2 * self._decided > self.live:
            self._warned = True
            self._warn(
                f"most of the {self.live:,} live claims are silent: was the store or the network "
                "away? The run goes on."
            )

    def _warn(self, text: str) -> None:
        self.report.warnings.append(text)
        logger.warning("reclaim run: %s", text)


def _finding(lapse: Lapse, verdict: Verdict, now: Moment) -> Candidate:
    decision, _ = OUTCOMES[verdict.verb]
    return Candidate(
        id=lapse.id,
        queue=lapse.queue,
        state=lapse.state,
        attempt=lapse.attempt,
        worker=lapse.worker,
        updated_at=to_datetime(lapse.updated_at),
        age_seconds=(now - lapse.updated_at) / 1000,
        decision=decision,
        code=verdict.code,
        why=verdict.detail,
    )
