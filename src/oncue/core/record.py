"""One job, everything that can happen to it, and the shapes in which it leaves.

For stores that read a job, let it change and write it back: the memory store, and stores on a
network whose only condition is that the job has not changed since. The decisions are those of
`fencing`, `changes` and `operations`. A refusal may have been recorded: that is a change too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import ClassVar

from oncue.core import fencing, operations
from oncue.core.changes import ChangeVerb, JobChange, SeenJob
from oncue.core.fencing import End, Ending, Held, Refused, Settlement, Write, late_write, refusal
from oncue.core.job import (
    DIAGNOSTICS_KEPT,
    Attempt,
    Claimed,
    Delivery,
    Diagnostic,
    History,
    Job,
    Lapse,
    NewJob,
    Operation,
)
from oncue.core.lease import NO_LEASE, Lease, Touch, Touched
from oncue.core.lifecycle import LIVE, TRANSITIONS, State, Verb
from oncue.core.missed import moved_stamp, moved_timeout
from oncue.core.moment import Moment, maybe_datetime, to_datetime
from oncue.core.operations import Had, OperationLimits
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue, RetryPolicy
from oncue.core.retry import EXPIRED, Verdict
from oncue.core.shard import Turn
from oncue.core.sharing import Taker
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
    turn: Turn | None = None
    """Its place in the line of its queue, while it is in line."""
    covered: bool = False
    """Inside an open range claim, so it counts as dispatched."""
    hidden: bool = False
    """Removed for every reader; only its id is still remembered."""
    cancel_requested: bool = False
    worker: str | None = None
    claimed_at: Moment = 0
    lease: Lease = NO_LEASE
    alone: bool = False
    """The only job of its claim."""
    nonce: tuple[str, int] | None = None
    """Of the call that claimed it last, and the place of the taker in that call."""
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
    result_bytes: int = 0  # of the operations
    operations: dict[str, Operation] = field(default_factory=dict)
    operations_cursor: ClassVar[None] = None  # as a claim has it: these are all
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
        return cls(*new[:12], updated_at=now, epoch=new.epoch)

    @property
    def shown_state(self) -> State:
        return State.DISPATCHED if self.covered else self.state

    @property
    def next_turn(self) -> Turn:
        """Its place in the line of its queue as it is now."""
        return Turn(not self.ahead, -self.priority, self.due_at, self.id)

    @property
    def lapses_at(self) -> Moment | None:
        """When a waiting job expires, or a claim is lost or overlong if nothing more is heard."""
        waits = self.state is State.SCHEDULED
        bounds = [self.expires_at] if waits else [self.lease.until, self.overlong_at]
        return min((at for at in bounds if at is not None), default=None)

    def has_lapsed(self, now: Moment) -> bool:
        return self.lapses_at is not None and self.lapses_at <= now

    def put_off(self, policy: RetryPolicy, error: str | None, now: Moment) -> None:
        """Its sink refused it for now."""
        self.refusals += 1
        self.not_before = put_off_until(policy, self.id, self.refusals, now)
        self.error, self.updated_at = error, now

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

    def revive(self, now: Moment) -> None:
        """A finished job waits again."""
        self.state = TRANSITIONS[self.state, Verb.REVIVE]
        self.due_at = self.updated_at = now
        self.finished_at = self.result = self.error = None
        self.message = self.percent = self.worker = None
        self.cancel_requested = False
        self.forget_refusals()
        self.strikes = 0
        self.attempt_base = self.attempt
        self.trim_attempts()
        # An old expiry might end the new life before it began.
        self.expires_at = None

    def begin_attempt(self, worker: str, at: Moment) -> None:
        self.attempt += 1
        self.attempts.append(Attempt(self.attempt, self.epoch, to_datetime(at), worker, None, None))

    def trim_attempts(self) -> None:
        """Of the attempts before the last one, which is under way or ended the job, the first and
        the last fifty are kept. A late write of one that is not kept is refused as `unknown`."""
        if len(self.attempts) > 2 * DIAGNOSTICS_KEPT:
            self.ends.pop(self.attempts.pop(DIAGNOSTICS_KEPT).epoch, None)

    def keep(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic, keeping the first and the last ones."""
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) > 2 * DIAGNOSTICS_KEPT:
            gone = self.diagnostics.pop(DIAGNOSTICS_KEPT)
            self.fenced = {kind: one for kind, one in self.fenced.items() if one is not gone}
            end = self.ends.get(gone.epoch)
            if end is not None and end.diagnostic is gone:
                self.ends[gone.epoch] = end._replace(diagnostic=None)

    def take(
        self, queue: Queue, taker: Taker, now: Moment, nonce: tuple[str, int], *, alone: bool
    ) -> None:
        """A worker claims it."""
        timeout = queue.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds
        self.state = TRANSITIONS[self.state, Verb.CLAIM]
        self.epoch += 1
        self.worker = taker.worker
        self.claimed_at = self.updated_at = now
        lease_ms = taker.lease_ms(queue)
        self.lease = Lease(now + lease_ms, lease_ms)
        self.overlong_at = None if timeout is None else now + round(timeout * 1000)
        self.begin_attempt(taker.worker, now)
        self.alone, self.nonce = alone, nonce

    def refuse(self, epoch: int, write: str | None, now: Moment) -> Refused | None:
        """Why a write under this epoch is refused; None: the claim is current. Recorded once for
        each epoch and kind of write (None: not at all)."""
        if self.epoch == epoch and self.state in LIVE:
            return None
        end = self.ends.get(epoch)
        if end is None or write is None:
            return refusal(end, self.shown_state)
        recorded = self.fenced.get((epoch, write))
        if recorded is None:
            recorded = self.fenced[epoch, write] = late_write(end, epoch, write, now)
            self.keep(recorded)
        return refusal(end, self.shown_state, recorded)

    def interruption(self, epoch: int) -> Refused | None:
        """Why a claim is no longer to be worked on, if so."""
        if self.cancel_requested and self.epoch == epoch and self.state in LIVE:
            return Refused("cancel requested", self.state)
        return self.refuse(epoch, None, 0)

    def touch(self, touch: Touch, queue: Queue, now: Moment) -> Touched | Refused:
        """A sign of life."""
        if refused := self.refuse(touch.epoch, "heartbeat" if touch.start else None, now):
            return refused
        if touch.start:
            self.state = TRANSITIONS[self.state, Verb.START]
        self.lease = self.lease.touched(touch, queue, now)
        self.updated_at = now
        self.message = self.message if touch.message is None else touch.message
        self.percent = self.percent if touch.percent is None else touch.percent
        return Touched(self.lease.until, self.cancel_requested)

    def put_operation(
        self, epoch: int, report: Operation, now: Moment, limits: OperationLimits
    ) -> Operation | Refused:
        """A report on a named step."""
        if refused := self.refuse(epoch, "operation", now):
            return refused
        known = self.operations.get(report.name)
        had = Had(len(self.operations), self.result_bytes)
        stored = operations.put(known, report, now, had, limits)
        if isinstance(stored, str):
            return Refused(stored, self.state)
        if stored is not known:
            self.strikes = 0 if stored.is_final else self.strikes
            self.result_bytes += operations.added(known, stored)
            self.state = TRANSITIONS[self.state, Verb.START]
            self.updated_at = now
            self.operations[report.name] = stored
        return stored

    def outcome_of(self, settlement: Settlement) -> str | None:
        """How this very write has settled the claim; None: it has not."""
        end = self.ends.get(settlement.epoch)
        if end is None or end.write is None or end.write != settlement.write:
            return None
        return end.outcome

    def settle(self, settlement: Settlement, queue: Queue, now: Moment) -> Ending | Refused | None:
        """The end of a claim that its holder tells; None: the job was handed over."""
        write = settlement.write
        if refused := self.refuse(settlement.epoch, write and write.kind, now):
            return refused
        if write is None:
            self.become(fencing.hand_over(self.as_held(), now))
            return None
        ending = fencing.settle(self.as_held(), settlement, queue, now)
        if isinstance(ending, Ending):
            self.end_claim(ending, write, now)
        return ending

    def reclaim(self, lapse: Lapse, verdict: Verdict, now: Moment) -> Ending | Refused:
        """A claim is taken away."""
        ending = fencing.reclaim(self.as_held(), lapse, verdict, now)
        if isinstance(ending, Ending):
            self.end_claim(ending, None, now)
        return ending

    def deliver(
        self, dispatcher: str, claimed_at: Moment, error: str | None, queue: Queue, now: Moment
    ) -> None:
        """Its sink took it, or refused it for good with that error: a claim and its end."""
        self.state, self.covered, self.worker = State.DISPATCHED, False, dispatcher
        self.begin_attempt(dispatcher, claimed_at)
        settlement = Settlement(self.id, self.epoch, Verb.COMPLETE)
        if error is None:
            self.refusals = 0
        else:
            settlement = fencing.refused_by_sink(self.id, self.epoch, error)
        ending = fencing.settle(self.as_held(), settlement, queue, now)
        assert isinstance(ending, Ending)  # a job inside a range cannot be asked to stop
        self.end_claim(ending, None, now)

    def end_claim(self, ending: Ending, write: Write | None, now: Moment) -> None:
        end = End(ending.outcome, self.attempt, write, ending.diagnostic)
        # A delivery has no epoch of its own: the epoch is still that of a worker's earlier claim.
        self.ends.setdefault(self.epoch, end)
        if ending.diagnostic is not None:
            self.keep(ending.diagnostic)
        last = self.attempts[-1]
        self.attempts[-1] = replace(last, outcome=ending.outcome, ended_at=to_datetime(now))
        self.become(ending.job)
        self.overlong_at = None
        if not ending.keeps_worker:
            self.worker = None
            self.trim_attempts()
        if ending.is_final:
            self.finished_at = now

    def change(self, change: JobChange, now: Moment) -> None:
        """Apply a change by people, which `changes.decide` has allowed."""
        match change.verb:
            case ChangeVerb.AMEND:
                self.amend(change, now)
            case ChangeVerb.RUN:
                self.amend(replace(change, due_at=min(self.due_at, now)), now)
            case ChangeVerb.CANCEL:
                self.end(Verb.CANCEL, now)
            case ChangeVerb.STOP:
                # `updated_at` stays: it says when the worker was last heard.
                self.cancel_requested = True
            case ChangeVerb.REVIVE:
                self.revive(now)
            case ChangeVerb.MOVE:
                self.queue = change.queue or self.queue
                self.forget_refusals()
                self.updated_at = now

    def amend(self, change: JobChange, now: Moment) -> None:
        if change.due_at is not None:
            self.due_at = change.due_at
            self.forget_refusals()
        if change.priority is not None:
            self.priority = change.priority
        if change.payload is not None:
            self.payload = change.payload
        self.updated_at = now

    def end(self, verb: Verb, now: Moment) -> None:
        """A waiting job ends as the verb says."""
        self.state = TRANSITIONS[self.state, verb]
        self.ahead = False
        self.not_before = None
        self.finished_at = self.updated_at = now

    def expire(self, now: Moment) -> None:
        self.error = EXPIRED
        self.keep(Diagnostic(to_datetime(now), "expired", EXPIRED, self.attempt, self.epoch))
        self.end(Verb.EXPIRE, now)

    def hide(self) -> None:
        """Only its id is remembered: so a repeated creation does not create it again."""
        self.hidden, self.result_bytes = True, 0
        self.operations.clear()
        self.diagnostics.clear()
        self.attempts.clear()

    @property
    def lease_until(self) -> Moment | None:
        return self.lease.until

    def as_job(self) -> Job:
        values = dict(zip(Job._fields, _JOB(self), strict=True)) | {"state": self.shown_state}
        return Job(**values | {name: maybe_datetime(values[name]) for name in MOMENTS})

    def as_claimed(self) -> Claimed:
        assert self.lease.until is not None  # every claim begins with a lease
        instant = None if self.instant is None else stamp_of(self.instant)
        operations = tuple(self.operations.values())
        return Claimed(*_CLAIMED(self))._replace(operations=operations, instant=instant)

    def as_delivery(self) -> Delivery:
        """The job as it is delivered by a dispatcher that claimed it by a range."""
        attempt = self.attempt + 1
        return Delivery(self.id, self.due_at, self.payload, attempt, None, self.queue, self.owner)

    def as_lapse(self) -> Lapse:
        return Lapse(*_LAPSE(self))

    def as_held(self) -> Held:
        return Held._make(_HELD(self))

    def as_seen(self, *, key_taken: bool = False) -> SeenJob:
        return SeenJob._make((*_SEEN(self), key_taken))

    def become(self, held: Held) -> None:
        """Take over what has become of the claim."""
        for name, value in held._asdict().items():
            setattr(self, name, value)

    def as_history(self) -> History:
        operations = tuple(self.operations.values())
        return History(operations, tuple(self.diagnostics), tuple(self.attempts))


NAMES = {name: name for name in Job._fields} | {"payload_json": "payload", "result_json": "result"}
"""The fields of a job, and what they are called here."""
MOMENTS = tuple(name for name in Job._fields if name.endswith(("_at", "_until", "_before")))
_JOB = attrgetter(*NAMES.values())
_CLAIMED = attrgetter(*Claimed._fields)
_HELD = attrgetter(*Held._fields)
_LAPSE = attrgetter(*Lapse._fields)
_SEEN = attrgetter(*SeenJob._fields[:-1])
