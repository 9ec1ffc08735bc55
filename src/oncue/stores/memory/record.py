"""One job as the memory store holds it, and the shapes in which it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from oncue.core.dossier import Dossier
from oncue.core.fencing import End, Held
from oncue.core.job import (
    DIAGNOSTICS_KEPT,
    Attempt,
    Claimed,
    Diagnostic,
    History,
    Job,
    Lapse,
    NewJob,
    Operation,
)
from oncue.core.lease import NO_LEASE, Lease
from oncue.core.lifecycle import LIVE, State
from oncue.core.missed import moved_stamp, moved_timeout
from oncue.core.moment import Moment, from_datetime, maybe_datetime, to_datetime
from oncue.core.putoff import put_off_until
from oncue.core.queue import RetryPolicy
from oncue.core.stamp import from_datetime as stamp_of


@dataclass(slots=True)
class Record:
    """Everything the store knows about one job."""

    id: str
    queue: str
    due_at: Moment
    payload: bytes
    priority: int
    created_at: Moment
    owner: str | None
    key: str | None
    expires_at: Moment | None
    max_attempts: int | None
    timeout_seconds: float | None
    digest: bytes | None
    updated_at: Moment
    state: State = State.SCHEDULED
    attempt: int = 0
    attempt_base: int = 0
    epoch: int = 0
    strikes: int = 0
    ahead: bool = False
    """Reclaimed, so it goes before waiting work."""
    covered: bool = False
    """Inside an open range claim, so it counts as dispatched."""
    hidden: bool = False
    """Gone for everybody; only its id is still remembered."""
    cancel_requested: bool = False
    worker: str | None = None
    claimed_at: Moment = 0
    lease: Lease = NO_LEASE
    alone: bool = False
    """The only job of its claim."""
    overlong_at: Moment | None = None
    finished_at: Moment | None = None
    result: bytes | None = None
    error: str | None = None
    message: str | None = None
    percent: float | None = None
    schedule: str | None = None
    not_before: Moment | None = None
    refusals: int = 0
    """How often in a row its sink refused it for now."""
    operations: dict[str, Operation] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    """By epoch: every worker's claim that is over."""
    rule: str | None = None
    instant: datetime | None = None
    fenced: dict[tuple[int, str], Diagnostic] = field(default_factory=dict)
    """By epoch and kind of write: what was recorded about late ones."""

    @classmethod
    def of(cls, new: NewJob, now: Moment) -> Record:
        return cls(*new[:12], updated_at=now)

    @property
    def shown_state(self) -> State:
        return State.DISPATCHED if self.covered else self.state

    @property
    def lapses_at(self) -> Moment | None:
        """When the claim is lost or overlong if nothing more is heard."""
        if self.state not in LIVE:
            return None
        bounds = [at for at in (self.lease.until, self.overlong_at) if at is not None]
        return min(bounds, default=None)

    def put_off(self, policy: RetryPolicy, error: str | None, now: Moment) -> None:
        """Its sink refused it for now."""
        self.refusals += 1
        self.not_before = put_off_until(policy, self.id, self.refusals, now)
        self.error = error

    def forget_refusals(self) -> None:
        self.not_before, self.refusals = None, 0

    def move(self, missed_ms: int, now: Moment) -> None:
        """Judge the claim anew after so much was missed."""
        self.lease = self.lease.moved(missed_ms, self.updated_at, now)
        if self.overlong_at is not None:
            self.overlong_at = moved_timeout(self.overlong_at, self.claimed_at, missed_ms, now)
        self.claimed_at = moved_stamp(self.claimed_at, now)
        self.updated_at = moved_stamp(self.updated_at, now)
        self.attempts[-1] = replace(self.attempts[-1], claimed_at=to_datetime(self.claimed_at))

    def is_put_off(self, now: Moment) -> bool:
        """Whether it is put off and its moment has not come."""
        return self.not_before is not None and self.not_before > now

    def has_expired(self, now: Moment) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def begin_attempt(self, worker: str, at: Moment) -> None:
        self.attempt += 1
        self.attempts.append(Attempt(self.attempt, self.epoch, to_datetime(at), worker, None, None))

    def end_attempt(self, outcome: str, now: Moment) -> None:
        self.attempts[-1] = replace(self.attempts[-1], outcome=outcome, ended_at=to_datetime(now))

    def trim_attempts(self) -> None:
        """Of the attempts before the last one, which is under way or ended the job, the first and
        the last fifty are kept. A late write of one that is not is like one of no claim."""
        if len(self.attempts) > 2 * DIAGNOSTICS_KEPT:
            self.ends.pop(self.attempts.pop(DIAGNOSTICS_KEPT).epoch, None)

    def note(
        self, now: Moment, code: str, detail: str, attempt: int, epoch: int, **facts: Any
    ) -> Diagnostic:
        """Record a diagnostic, keeping the first and the last ones."""
        diagnostic = Diagnostic(to_datetime(now), code, detail, attempt, epoch, facts)
        self.keep(diagnostic)
        return diagnostic

    def keep(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) > 2 * DIAGNOSTICS_KEPT:
            gone = self.diagnostics.pop(DIAGNOSTICS_KEPT)
            self.fenced = {kind: one for kind, one in self.fenced.items() if one is not gone}
            end = self.ends.get(gone.epoch)
            if end is not None and end.diagnostic is gone:
                self.ends[gone.epoch] = end._replace(diagnostic=None)

    def as_job(self) -> Job:
        return Job(
            id=self.id,
            queue=self.queue,
            state=self.shown_state,
            due_at=to_datetime(self.due_at),
            payload_json=self.payload,
            priority=self.priority,
            attempt=self.attempt,
            created_at=to_datetime(self.created_at),
            updated_at=to_datetime(self.updated_at),
            owner=self.owner,
            key=self.key,
            expires_at=maybe_datetime(self.expires_at),
            max_attempts=self.max_attempts,
            timeout_seconds=self.timeout_seconds,
            finished_at=maybe_datetime(self.finished_at),
            result_json=self.result,
            error=self.error,
            message=self.message,
            percent=self.percent,
            cancel_requested=self.cancel_requested,
            epoch=self.epoch,
            worker=self.worker,
            lease_until=maybe_datetime(self.lease.until),
            attempt_base=self.attempt_base,
            rule=self.rule,
            instant=self.instant,
            schedule=self.schedule,
            not_before=maybe_datetime(self.not_before),
            refusals=self.refusals,
        )

    def as_claimed(self) -> Claimed:
        assert self.lease.until is not None  # every claim begins with a lease
        return Claimed(
            id=self.id,
            queue=self.queue,
            due_at=self.due_at,
            payload=self.payload,
            priority=self.priority,
            owner=self.owner,
            key=self.key,
            attempt=self.attempt,
            attempt_base=self.attempt_base,
            max_attempts=self.max_attempts,
            timeout_seconds=self.timeout_seconds,
            epoch=self.epoch,
            claimed_at=self.claimed_at,
            lease_until=self.lease.until,
            created_at=self.created_at,
            operations=tuple(self.operations.values()),
            expires_at=self.expires_at,
            error=self.error,
            message=self.message,
            percent=self.percent,
            rule=self.rule,
            instant=None if self.instant is None else stamp_of(self.instant),
            schedule=self.schedule,
        )

    def as_lapse(self) -> Lapse:
        return Lapse(
            id=self.id,
            queue=self.queue,
            state=self.state,
            epoch=self.epoch,
            attempt=self.attempt,
            attempt_base=self.attempt_base,
            max_attempts=self.max_attempts,
            strikes=self.strikes,
            cancel_requested=self.cancel_requested,
            worker=self.worker,
            claimed_at=self.claimed_at,
            updated_at=self.updated_at,
            lease_until=self.lease.until,
            overlong_at=self.overlong_at,
            alone=self.alone,
        )

    def as_held(self) -> Held:
        return Held(*[getattr(self, name) for name in Held._fields if name != "n"])

    def as_history(self) -> History:
        return History(
            tuple(self.operations.values()), tuple(self.diagnostics), tuple(self.attempts)
        )

    def as_dossier(self) -> Dossier:
        return Dossier(
            self.as_job()._replace(state=self.state),
            self.as_history(),
            self.digest,
            maybe_datetime(self.overlong_at),
            self.strikes,
            self.ahead,
            self.hidden,
        )

    @classmethod
    def from_dossier(cls, dossier: Dossier) -> Record:
        job, history = dossier.job, dossier.history
        claimed = history.attempts[-1].claimed_at if history.attempts else None
        return cls(
            id=job.id,
            queue=job.queue,
            due_at=from_datetime(job.due_at),
            payload=job.payload_json,
            priority=job.priority,
            created_at=from_datetime(job.created_at),
            owner=job.owner,
            key=job.key,
            expires_at=_ms(job.expires_at),
            max_attempts=job.max_attempts,
            timeout_seconds=job.timeout_seconds,
            digest=dossier.digest,
            updated_at=from_datetime(job.updated_at),
            state=job.state,
            attempt=job.attempt,
            attempt_base=job.attempt_base,
            epoch=job.epoch,
            strikes=dossier.strikes,
            ahead=dossier.ahead,
            hidden=dossier.hidden,
            cancel_requested=job.cancel_requested,
            worker=job.worker,
            claimed_at=_ms(claimed) or 0,
            lease=Lease(_ms(job.lease_until)),
            overlong_at=_ms(dossier.overlong_at),
            finished_at=_ms(job.finished_at),
            result=job.result_json,
            error=job.error,
            message=job.message,
            percent=job.percent,
            schedule=job.schedule,
            not_before=_ms(job.not_before),
            refusals=job.refusals,
            operations={operation.name: operation for operation in history.operations},
            diagnostics=list(history.diagnostics),
            attempts=list(history.attempts),
            ends=_ends(history),
            rule=job.rule,
            instant=job.instant,
        )


def _ms(moment: datetime | None) -> Moment | None:
    return None if moment is None else from_datetime(moment)


def _ends(history: History) -> dict[int, End]:
    """What the attempts tell of claims that are over: enough to refuse a late write."""
    return {
        attempt.epoch: End(attempt.outcome, attempt.attempt, None, None)
        for attempt in history.attempts
        if attempt.outcome is not None
    }
