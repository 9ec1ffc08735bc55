"""A reclaim run over a DynamoDB table of another system: its rows are scanned, and every stuck
record is read and written through the AgendaProgress endpoint of that system.

The row only tells which records to ask for. The decision is made on what the endpoint answers, and
the write is refused if that has changed meanwhile: so two runs at once do no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from oncue.aws.agenda_document import AgendaDocument
from oncue.aws.agenda_endpoint import AgendaEndpoint, SignInFailed
from oncue.aws.foreign_rows import ForeignRows, Key, RowPage
from oncue.core.agenda import AgendaRecord, AgendaVerdict, Threshold, anomaly, is_exempt, judge
from oncue.core.errors import ServerError, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.core.moment import Moment, to_datetime
from oncue.core.reclaim import (
    FINDINGS_KEPT,
    Candidate,
    ForeignTable,
    ReclaimParameters,
    ReclaimReport,
)
from oncue.engine.reclaimrun import NO_AGE
from oncue.ports.clock import Clock

FIRST_PAUSE_SECONDS = 0.1
MOST_PAUSES = 7  # 12.7 seconds in all

logger = logging.getLogger("oncue.aws")


class ForeignRun:
    """Call `step` until it returns None; the report grows meanwhile. It begins when it is made."""

    def __init__(
        self,
        table: ForeignTable,
        parameters: ReclaimParameters,
        endpoint: AgendaEndpoint,
        clock: Clock,
    ) -> None:
        listed: list[Candidate] | None = [] if parameters.log_reclaim_only else None
        self.report = ReclaimReport(errors=0, would_reclaim=listed)
        self._parameters = parameters
        self._table, self._rows, self._endpoint = table, ForeignRows(table), endpoint
        self._clock = clock
        self._ends = clock.monotonic() + parameters.maximum_execution_seconds
        age_ms = parameters.age_ms
        self._threshold = Threshold(clock.now() - age_ms, age_ms, parameters.mode)
        self._gathered: list[AgendaRecord] = []
        self._after: Key | None = None
        self._pauses = 0
        if age_ms == 0:
            self.warn(NO_AGE)

    def step(self) -> float | None:
        """Look at one page, and act once enough is gathered. How many seconds to pause; None: it is
        over. If a step raises, what was written before stays written."""
        if self._after is not None and self._is_time_over():
            return None
        page = self._looked_at()
        if page is None:  # the table is throttled, or was not reached
            return self._rest(FIRST_PAUSE_SECONDS * 2 ** (self._pauses - 1))
        self._gather(page.rows)
        last = page.next is None
        if last or len(self._gathered) >= self._parameters.target_batch_size:
            self._act()
        self._after = page.next
        if last or self.report.ended_by == "time":
            return None
        return self._rest(self._parameters.scan_delay_millis / 1000)

    def warn(self, text: str) -> None:
        self.report.warnings.append(text)
        logger.warning("reclaim run: %s", text)

    def _looked_at(self) -> RowPage | None:
        try:
            page = self._rows.page(self._after, self._parameters.object_scan_limit)
        except StoreUnavailable as trouble:
            self._pauses += 1
            if self._pauses > MOST_PAUSES:
                raise
            logger.warning("reclaim run: %s; tried again", trouble)
            return None
        self._pauses = 0
        return page

    def _rest(self, seconds: float) -> float | None:
        """The pause, but not beyond the end of the run; None: it is over already."""
        if self._is_time_over():
            return None
        return min(seconds, self._ends - self._clock.monotonic())

    def _is_time_over(self) -> bool:
        is_over = self._clock.monotonic() >= self._ends
        if is_over:
            self.report.ended_by = "time"
        return is_over

    def _gather(self, rows: Iterable[AgendaRecord]) -> None:
        now = self._clock.now()
        for row in rows:
            if not self._threshold.concerns(row.state) or is_exempt(row):
                continue
            if not row.id:
                self._set_aside(row, f"has no {self._table.id} that can be used in a URL")
            elif why := anomaly(row, now):
                self._set_aside(row, why)
            elif self._is_old(row):
                self._gathered.append(row)
            else:
                continue
            self.report.scanned += 1

    def _is_old(self, record: AgendaRecord) -> bool:
        return record.updated_at is not None and record.updated_at < self._threshold.before

    def _set_aside(self, record: AgendaRecord, why: str) -> None:
        """It is not known how long this record was silent, or how to ask for it."""
        self.report.anomalies += 1
        text = f"record {record.id or 'without an id'} {why}; left alone"
        self._tell(text, first=self.report.anomalies == 1)

    def _act(self) -> None:
        """Reclaim what is gathered. What is left when the time is over waits for the next run."""
        for row in self._gathered:
            if self._is_time_over():
                break
            try:
                self._reclaim(row)
            except SignInFailed:
                raise
            except ServerError as trouble:
                self.report.errors = (self.report.errors or 0) + 1
                self._tell(f"record {row.id}: {trouble}", first=self.report.errors == 1)
        self._gathered = []

    def _reclaim(self, row: AgendaRecord) -> None:
        seen = self._endpoint.get(row.id)
        document = AgendaDocument.read(row.id, seen.body, self._table)
        record, now = document.record(row), self._clock.now()
        if not self._threshold.concerns(record.state):
            return self._lose(record)
        if why := anomaly(record, now):
            return self._set_aside(record, why)
        if not self._is_old(record):
            return self._lose(record)
        verdict = judge(record, self._threshold, now)
        if verdict is None:
            return None
        if self.report.would_reclaim is not None:
            return self._foresee(self.report.would_reclaim, record, verdict, now)
        body = document.changed(record, verdict, self._threshold, now)
        if not self._endpoint.put(row.id, body, seen.etag):
            return self._lose(record)
        return self._count(record, verdict)

    def _lose(self, record: AgendaRecord) -> None:
        self.report.lost_races += 1
        logger.info("record %s: not reclaimed, it moved on meanwhile", record.id)

    def _count(self, record: AgendaRecord, verdict: AgendaVerdict) -> None:
        if verdict.decision == "retry":
            self.report.retried += 1
        else:
            self.report.failed += 1
        _log("", record, verdict)

    def _foresee(
        self, found: list[Candidate], record: AgendaRecord, verdict: AgendaVerdict, now: Moment
    ) -> None:
        self.report.would_reclaim_count += 1
        _log("would be reclaimed: ", record, verdict)
        if len(found) < FINDINGS_KEPT:
            found.append(_candidate(self._table.name, record, verdict, now))

    def _tell(self, text: str, *, first: bool) -> None:
        """The first of its kind is also in the report."""
        if first:
            self.warn(text)
        else:
            logger.warning("reclaim run: %s", text)


def _log(prefix: str, record: AgendaRecord, verdict: AgendaVerdict) -> None:
    logger.warning(
        "%srecord %s (attempt %d): %s, %s: %s",
        prefix, record.id, record.attempt, verdict.code, verdict.decision, verdict.why,
        extra={"record_id": record.id},
    )  # fmt: skip


def _candidate(table: str, record: AgendaRecord, verdict: AgendaVerdict, now: Moment) -> Candidate:
    updated_at = record.updated_at or 0
    return Candidate(
        id=record.id,
        queue=table,
        state=record.state or State.EXECUTING,
        attempt=record.attempt,
        worker=None,
        updated_at=to_datetime(updated_at),
        age_seconds=(now - updated_at) / 1000,
        decision=verdict.decision,
        code=verdict.code,
        why=verdict.why,
    )
