"""A job as an AgendaProgress: the form in which reclaimers made for other systems see and write it.

A writer must have read the job first: it sends the ETag that it got, or the last update in it, and
the store compares once more when it writes. So fencing holds here, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from oncue.core import payload as payloads
from oncue.core.errors import Conflict, IllegalState, InvalidInput
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Diagnostic, Job, Lapse
from oncue.core.lease import Touch
from oncue.core.lifecycle import FINAL, LIVE, State, Verb
from oncue.core.moment import Moment, from_datetime, to_datetime
from oncue.core.queue import Queue
from oncue.core.retry import Verdict, after_request
from oncue.engine.verdicts import carry_out
from oncue.ports.claims import ClaimFilter
from oncue.usecases import intake
from oncue.wire.agenda import EVENTS_AT_ONCE, AgendaProgress, DiagnosticEvent
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.scheduler import Scheduler

REPORTED = "reported"  # the code of an event that names none
STATES = {
    State.SCHEDULED: "WAITING",
    State.DISPATCHED: "DEQUEUED",
    State.EXECUTING: "EXECUTING",
    **dict.fromkeys(FINAL, "COMPLETE"),
}
_EVENT = frozenset({"time", "code", "message", "attempt", "details"})


class AgendaWrite(NamedTuple):
    """The state that a writer wants an AgendaProgress to have."""

    state: str
    """WAITING, EXECUTING or COMPLETE."""
    message: str | None = None
    """COMPLETE: succeeded or failed; EXECUTING: what the worker is at."""
    updated_at: Moment | None = None
    events: Sequence[Mapping[str, Any]] = ()
    if_match: Sequence[str] | None = None


def etag(progress: AgendaProgress) -> str:
    """Changes when anything in it does."""
    digest = hashlib.blake2b(msgspec.json.encode(progress), digest_size=12).hexdigest()
    return f'"{digest}"'


def read(cue: Scheduler, job_id: str) -> AgendaProgress:
    return _progress_of(cue, cue.job(job_id))


def write(cue: Scheduler, job_id: str, wanted: AgendaWrite) -> AgendaProgress:
    """Change the job if it is still as the writer saw it; the job afterwards."""
    job = cue.job(job_id)
    progress = _progress_of(cue, job)
    _require_seen(job, progress, wanted)
    events = _new_events(progress.diagnostics, wanted.events, job, cue.clock.now())
    if not _is_so_already(job, wanted):
        _change(cue, job, wanted, events)
    if events:
        cue.store.note(job_id, events)
    after = cue.store.get(job_id)
    if after is None:  # it ended in a queue that keeps no history
        return msgspec.structs.replace(
            progress, processing_state="COMPLETE", processing_state_message=wanted.message
        )
    return _progress_of(cue, after)


def _progress_of(cue: Scheduler, job: Job) -> AgendaProgress:
    """The job in that form."""
    return written(
        AgendaProgress,
        job,
        cue.history(job.id),
        processing_state=STATES[job.state],
        processing_state_message=_message(job),
        attempts_completed=job.attempt - job.attempt_base - (job.state in LIVE),
        maximum_attempts=job.max_attempts or cue.policies(job.queue).max_attempts,
    )


def _require_seen(job: Job, progress: AgendaProgress, wanted: AgendaWrite) -> None:
    if wanted.if_match is not None:
        seen = etag(progress) in wanted.if_match
    else:
        seen = wanted.updated_at == from_datetime(job.updated_at)
    if not seen:
        raise Conflict(
            f"job {job.id} has changed since you read it, or the request does not say what you "
            "read. GET it again, and send its ETag as If-Match or its updatedTime in the body."
        )


def _is_so_already(job: Job, wanted: AgendaWrite) -> bool:
    if wanted.state == "COMPLETE" and job.state in FINAL:
        return wanted.message == _message(job)
    return wanted.state == "WAITING" and job.state is State.SCHEDULED


def _change(cue: Scheduler, job: Job, wanted: AgendaWrite, events: Sequence[Diagnostic]) -> None:
    claims = cue.store.live_claims(ClaimFilter(job_id=job.id), None, 1).items
    claim = next(iter(claims), None)
    if claim is None:
        why = "it is being delivered" if job.state in LIVE else "no worker has a claim on it"
        raise IllegalState(
            f"job {job.id} cannot become {wanted.state}: it {job.state.in_words}, {why}.", job.state
        )
    if (claim.epoch, claim.updated_at) != (job.epoch, from_datetime(job.updated_at)):
        raise _lost_race(job.id)
    queue, now = cue.policies(claim.queue), cue.clock.now()
    if wanted.state == "EXECUTING":
        message = intake.check_message(wanted.message)
        touch = Touch(job.id, claim.epoch, message=message, renew=True)
        [answer] = cue.store.touch([touch], now)
        lost = isinstance(answer, Refused)
    elif wanted.state == "COMPLETE" and wanted.message == "succeeded":
        seen = claim.updated_at
        ending = Settlement(job.id, claim.epoch, Verb.COMPLETE, updated_at=seen)
        lost = bool(cue.store.settle([ending], now).refused)
    else:
        verdict = _verdict(claim, queue, now, wanted.state, events)
        lost = not carry_out(cue.engine.node, [(claim, verdict)], now)
    if lost:
        raise _lost_race(job.id)


def _verdict(
    claim: Lapse, queue: Queue, now: Moment, state: str, events: Sequence[Diagnostic]
) -> Verdict:
    """WAITING: retried if it may be. COMPLETE: failed."""
    if state == "WAITING" or claim.cancel_requested:
        return after_request(claim, queue, now)
    text = f" {events[-1].detail}" if events else ""
    return Verdict(Verb.GIVE_UP, "failure", f"Reported as failed by its reclaimer.{text}")


def _lost_race(job_id: str) -> Conflict:
    return Conflict(f"job {job_id} moved on while this was written; nothing was changed.")


def _new_events(
    recorded: Sequence[DiagnosticEvent], sent: Sequence[Mapping[str, Any]], job: Job, now: Moment
) -> list[Diagnostic]:
    """Those that were sent and are not there yet, as diagnostics of the present attempt."""
    there = msgspec.to_builtins(recorded)
    new = [(place, event) for place, event in enumerate(sent) if event not in there]
    if len(new) > EVENTS_AT_ONCE:
        raise InvalidInput(f"at most {EVENTS_AT_ONCE} new ones at once.", "/diagnosticEvents")
    return [_diagnostic(event, f"/diagnosticEvents/{place}", job, now) for place, event in new]


def _diagnostic(event: Mapping[str, Any], pointer: str, job: Job, now: Moment) -> Diagnostic:
    """Fields of its own that an event has beside ours are kept with its details."""
    text = event.get("message")
    if not isinstance(text, str) or not text:
        raise InvalidInput("must be text that says what happened.", f"{pointer}/message")
    detail = intake.check_message(text, f"{pointer}/message") or ""
    code = event.get("code", REPORTED)
    if intake.label(code, f"{pointer}/code") is None:
        raise InvalidInput("must be text, or left out.", f"{pointer}/code")
    facts = {name: value for name, value in event.items() if name not in _EVENT}
    details = event.get("details")
    facts |= details if isinstance(details, dict) else {} if details is None else {"of": details}
    payloads.encode(facts, f"{pointer}/details")
    return Diagnostic(to_datetime(now), code, detail, job.attempt, job.epoch, facts)


def _message(job: Job) -> str | None:
    if job.state in FINAL:
        return "succeeded" if job.state is State.SUCCEEDED else "failed"
    return job.message
