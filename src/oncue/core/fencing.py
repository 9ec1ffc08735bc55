"""Fencing: which writes of a worker are applied, how a job changes when its claim ends, and how a
late write is answered. Pure decisions: a store reads a job as `Held`, asks here and applies the
answer."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, overload

from oncue.core.job import Diagnostic, Lapse
from oncue.core.lease import NO_LEASE, Lease
from oncue.core.lifecycle import FINAL, LIVE, TRANSITIONS, State, Verb
from oncue.core.moment import Moment, to_datetime
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue
from oncue.core.retry import (
    FAILED_UNWANTED,
    RETURNED_UNWANTED,
    Failure,
    Verdict,
    after_failure,
    lapse_facts,
)

OUTCOMES = {
    Verb.COMPLETE: "succeeded",
    Verb.FAIL: "failed",
    Verb.RETRY: "retried",
    Verb.DROP: "cancelled",
    Verb.RELEASE: "released",
}
"""By the verb that settled it: how an attempt ended. One that was taken away is `reclaimed`."""

_LEAVES = {
    "succeeded": State.SUCCEEDED,
    "failed": State.FAILED,
    "retried": State.SCHEDULED,
    "cancelled": State.CANCELLED,
    "released": State.SCHEDULED,
}
_OUTCOMES_OF = {
    Verb.COMPLETE: ("succeeded",),
    Verb.RELEASE: ("released", "cancelled"),
    Verb.HAND_OVER: (),
}
"""Of a worker's write: how it may end the attempt. Every other verb is a failure."""

_WAITS_AGAIN = {Verb.RETRY: FAILED_UNWANTED, Verb.RELEASE: RETURNED_UNWANTED}
"""What is decided instead, when a cancel was requested."""
_REASONS = {"succeeded": "completed", "retried": "failed"}


class Refused(NamedTuple):
    """Why a worker's write was not applied."""

    reason: str
    """`reclaimed`, `completed`, `failed`, `cancelled`, `released`: how the claim ended;
    `cancel requested`: the claim holds, but its job should end (`interruptions` only);
    `different result`: the operation has another result already;
    `moved on`: the lapse or the last update is not as it was seen;
    `unknown`: no such job, or no such claim was made, or it was one of very many: the job's
    history no longer has it (`DIAGNOSTICS_KEPT`)."""
    state: State | None
    diagnostic: Diagnostic | None = None


GONE = Refused("unknown", None)
"""There is no such job."""


class Write(NamedTuple):
    """A worker's write that settles a claim. The same write again is a repetition."""

    kind: str
    """`complete`, `fail` or `release`: what the worker reported, not what was decided then."""
    content: bytes | str | None = None
    """The result, or the error."""


class Settlement(NamedTuple):
    """How a claim ended."""

    id: str
    epoch: int
    verb: Verb
    """COMPLETE, FAIL, RETRY, RELEASE or DROP; or HAND_OVER, by which the claim goes on. RETRY and
    RELEASE of a job whose cancel was requested end it cancelled."""
    result: bytes | None = None
    error: str | None = None
    due_at: Moment | None = None
    """RETRY: when it is due again."""
    put_off: bool = False
    """RELEASE: the sink refused it for now, as `error` says. It is put off by the policy of its
    queue."""
    code: str = "failure"
    """FAIL, RETRY, DROP: of the diagnostic, whose detail is `detail`."""
    detail: str = ""
    updated_at: Moment | None = None
    """Given: only if this is still the job's last update; else refused, `moved on`."""
    failure: Failure | None = None
    """FAIL: the worker's report of its failure. With the job and the policy of its queue it decides
    between RETRY, FAIL and DROP. None: it is decided already."""

    @property
    def write(self) -> Write | None:
        """The worker's write that this applies; None: it is the dispatcher's, a hand-over."""
        return write_behind(OUTCOMES.get(self.verb, ""), self.result, self.error)

    @property
    def outcomes(self) -> Sequence[str]:
        """The outcomes that the attempt may have after this write."""
        return _OUTCOMES_OF.get(self.verb, ("failed", "retried", "cancelled"))

    @property
    def tells_state(self) -> bool:
        """Whether the caller cannot know in which state the job is afterwards."""
        return self.verb not in (Verb.COMPLETE, Verb.HAND_OVER)


class Completions(Sequence[Settlement]):
    """Settlements that complete claims without results. There may be thousands, so each is made
    only when it is looked at."""

    def __init__(self, ids: Sequence[str], epochs: Sequence[int]) -> None:
        self.ids = ids
        self.epochs = epochs

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Settlement: ...
    @overload
    def __getitem__(self, at: slice) -> Completions: ...
    def __getitem__(self, at: int | slice) -> Settlement | Completions:
        if isinstance(at, slice):
            return Completions(self.ids[at], self.epochs[at])
        return Settlement(self.ids[at], self.epochs[at], Verb.COMPLETE)


class Held(NamedTuple):
    """A job as a store has it now, as far as claims are concerned."""

    id: str
    queue: str
    state: State
    covered: bool
    """By an open range claim."""
    epoch: int
    attempt: int
    attempt_base: int
    max_attempts: int | None
    strikes: int
    ahead: bool
    due_at: Moment
    refusals: int
    worker: str | None
    claimed_at: Moment | None
    updated_at: Moment
    cancel_requested: bool
    lease: Lease
    result: bytes | None
    error: str | None
    not_before: Moment | None = None

    @property
    def shown_state(self) -> State:
        """As others see it."""
        return State.DISPATCHED if self.covered else self.state

    def is_current(self, epoch: int) -> bool:
        """Whether the claim of this epoch may write."""
        return self.epoch == epoch and self.state in LIVE


class Ending(NamedTuple):
    """The end of a claim."""

    outcome: str
    """Of the attempt."""
    diagnostic: Diagnostic | None
    job: Held
    """The job afterwards. Its timeout is over as well."""

    @property
    def is_final(self) -> bool:
        return self.job.state in FINAL

    @property
    def keeps_worker(self) -> bool:
        """Whether the job still names the worker: the job ended with the worker's own report."""
        return self.is_final and self.outcome != "reclaimed"


class End(NamedTuple):
    """How an earlier claim ended, as far as that is remembered."""

    outcome: str
    attempt: int
    write: Write | None
    """The worker's write that did it; None: it was reclaimed."""
    diagnostic: Diagnostic | None
    """The one that the end left, if it is of a kind that leaves one."""


def hand_over(held: Held, now: Moment) -> Held:
    """The job of the current claim after a sink took it for a worker elsewhere. The claim goes
    on."""
    lease = held.lease.after_hand_over()
    updated_at = held.updated_at if lease == held.lease else now
    return held._replace(lease=lease, updated_at=updated_at, refusals=0)


def settle(held: Held, settlement: Settlement, queue: Queue, now: Moment) -> Ending | Refused:
    """How a settlement ends the current claim; or why it is refused. `queue` is that of the job."""
    if settlement.updated_at not in (None, held.updated_at):
        return Refused("moved on", held.state)
    if settlement.failure is not None:
        numbers = (held.attempt, held.attempt_base, held.max_attempts)
        cancelled = held.cancel_requested
        verdict = after_failure(settlement.failure, *numbers, queue, now, cancelled=cancelled)
        verb, code, detail, due_at, *_ = verdict
        settlement = settlement._replace(verb=verb, code=code, detail=detail, due_at=due_at)
    elif held.cancel_requested and settlement.verb in _WAITS_AGAIN:
        # A release leaves no error, even if a sink gave one: by that its repetition is recognised.
        error = None if settlement.verb is Verb.RELEASE else settlement.error
        verb, code, detail, *_ = _WAITS_AGAIN[settlement.verb]
        settlement = settlement._replace(verb=verb, code=code, detail=detail, error=error)
    verb, error = settlement.verb, settlement.error
    changes: dict[str, Any]
    diagnostic = None
    if verb is Verb.COMPLETE:
        changes = {"ahead": False, "result": settlement.result, "error": None}
    elif verb is Verb.RELEASE:
        changes = {"attempt": held.attempt - 1}
        if settlement.put_off:
            refusals = held.refusals + 1
            until = put_off_until(queue.retry, held.id, refusals, now)
            changes |= {"not_before": until, "refusals": refusals, "error": error}
    else:
        diagnostic = diagnostic_of(held, settlement, now)
        changes = {"ahead": False, "error": error}
        if verb is Verb.RETRY and settlement.due_at is not None:
            changes["due_at"] = settlement.due_at
    return Ending(OUTCOMES[verb], diagnostic, _after(held, verb, now, changes))


def reclaim(held: Held, lapse: Lapse, verdict: Verdict, now: Moment) -> Ending | Refused:
    """How a verdict on a lapse ends the claim, if that is still as it was seen."""
    seen = (lapse.state, lapse.epoch, lapse.updated_at, lapse.cancel_requested)
    is_now = (held.state, held.epoch, held.updated_at, held.cancel_requested)
    if held.state not in LIVE or seen != is_now:
        return Refused("moved on", held.shown_state)
    facts = lapse_facts(lapse, verdict, now)
    diagnostic = _diagnostic(held, verdict.code, verdict.detail, facts, now)
    changes: dict[str, Any] = {"epoch": held.epoch + 1}
    if TRANSITIONS[held.state, verdict.verb] in FINAL:
        changes |= {"ahead": False, "error": verdict.detail}
    else:
        changes["ahead"] = True
        changes["strikes"] = held.strikes + verdict.strike
        changes["attempt_base"] = held.attempt_base + (not verdict.uses_attempt)
    return Ending("reclaimed", diagnostic, _after(held, verdict.verb, now, changes))


def late_write(end: End, epoch: int, write: str, now: Moment) -> Diagnostic:
    """The diagnostic that records a refused write. A store keeps one for each epoch and kind."""
    reason = reason_of(end.outcome)
    detail = f"Refused a late {write}: this claim had ended ({reason})."
    facts = {"write": write, "reason": reason}
    return Diagnostic(to_datetime(now), "fenced", detail, end.attempt, epoch, facts)


def refusal(end: End | None, state: State, recorded: Diagnostic | None = None) -> Refused:
    """The answer to a write whose claim is over. `end` None: no such claim is known. `recorded` is
    the diagnostic of the refused write, for an end that left none."""
    if end is None:
        return Refused("unknown", state)
    return Refused(reason_of(end.outcome), state, end.diagnostic or recorded)


def reason_of(outcome: str) -> str:
    """Why a claim is over, as the answer to a late write names it."""
    return _REASONS.get(outcome, outcome)


def write_behind(outcome: str, result: bytes | None, error: str | None) -> Write | None:
    """The worker's write that led to this outcome of an attempt; None: it was reclaimed."""
    match outcome:
        case "succeeded":
            return Write("complete", result)
        case "failed" | "retried":
            return Write("fail", error)
        case "released":
            return Write("release")
        case "cancelled":  # a failure or a release of a job whose cancel had been requested
            return Write("release") if error is None else Write("fail", error)
    return None


def state_after(outcome: str) -> State:
    """In which state a claim that ended so left its job."""
    return _LEAVES[outcome]


def words(ids: Sequence[str], settlement: Settlement, outcome: str) -> str:
    """Settled claims on jobs that are gone, as a store remembers them: a word for each, with a
    space behind it. All of them were settled as this one, with the same outcome."""
    write = settlement.write
    assert write is not None  # a hand-over settles nothing
    content = write.content
    digest = ""
    if content is not None:
        body = content.encode() if isinstance(content, str) else content
        digest = blake2b(body, digest_size=8).hexdigest()
    ending = f":{settlement.epoch}:{outcome}:{digest} "
    return ending.join([*ids, ""])


def possible_words(settlement: Settlement) -> dict[str, str]:
    """By the words that may be remembered of this very write: the outcome that each tells of."""
    ids = [settlement.id]
    return {words(ids, settlement, outcome).rstrip(): outcome for outcome in settlement.outcomes}


def diagnostic_of(held: Held, settlement: Settlement, now: Moment) -> Diagnostic:
    """The diagnostic that a settlement leaves; facts that are not known are left out."""
    verb, worker, error = settlement.verb, held.worker, settlement.error
    facts = {"worker": worker, "error": error, "decision": verb.value}
    known = {name: fact for name, fact in facts.items() if fact}
    return _diagnostic(held, settlement.code, settlement.detail, known, now)


def refused_by_sink(job_id: str, epoch: int, error: str) -> Settlement:
    """The settlement of a job that its sink refused for good."""
    detail = f"The sink refused it for good: {error}"
    return Settlement(job_id, epoch, Verb.FAIL, error=error, detail=detail)


def _after(held: Held, verb: Verb, now: Moment, changes: dict[str, Any]) -> Held:
    """The job after its claim ended. `changes`: what does not depend on the verb alone."""
    state = TRANSITIONS[held.state, verb]
    by_verb: dict[str, Any] = {
        "state": state,
        "updated_at": now,
        "lease": NO_LEASE,
        "not_before": None,
        "cancel_requested": held.cancel_requested and state in FINAL,
    }
    return held._replace(**(by_verb | changes))


def _diagnostic(
    held: Held, code: str, detail: str, facts: dict[str, Any], now: Moment
) -> Diagnostic:
    return Diagnostic(to_datetime(now), code, detail, held.attempt, held.epoch, facts)
