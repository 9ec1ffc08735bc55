"""Why a job has not run, or is where it is: a code for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from oncue.core.duration import spoken
from oncue.core.job import Attempt, Diagnostic, History, Job
from oncue.core.lifecycle import FINAL, LIVE, State, Verb
from oncue.core.moment import Moment, from_datetime, render
from oncue.core.queue import Queue

REASONS = (
    *("not_due", "backoff", "expiring", "put_off", "paused", "full", "waiting"),
    *("no_worker", "no_dispatcher", "delivering", "handed_over"),
    *("taken", "executing", "silent", "cancel_requested"),
    *("succeeded", "failed", "cancelled", "expired"),
)
NOBODY_SECONDS = 5.0  # due for so long with nothing of its queue under way: nobody seems to look
ERROR_SHOWN = 300  # characters of an error that fit into a sentence


@dataclass(frozen=True, slots=True)
class Explanation:
    reason: str
    """One of REASONS."""
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)
    """What the sentence rests on, as JSON; moments in RFC 3339."""


class Line(NamedTuple):
    """What a due job waits among. None: unknown."""

    due: int | None = None
    """Jobs of the queue that are due and waiting, this one included."""
    due_longer: int | None = None
    """Those of them that were due before it."""
    taken: int | None = None
    """Jobs of the queue that are under way."""


def explain(job: Job, queue: Queue, history: History, now: Moment, line: Line) -> Explanation:
    """Why the job is where it is at this moment. `line` matters only for a job that is due."""
    if job.state in FINAL:
        return _finished(job, queue, history)
    if job.state in LIVE:
        return _taken(job, queue, history, now)
    if job.expires_at is not None and from_datetime(job.expires_at) <= now:
        return _expiring(job)
    if from_datetime(job.due_at) > now:
        return _not_due(job, queue, history, now)
    if job.not_before is not None and from_datetime(job.not_before) > now:
        return _put_off(job, queue, job.not_before, now)
    return _due(job, queue, history, now, line)


# -- waiting -------------------------------------------------------------------------------------


def _expiring(job: Job) -> Explanation:
    return Explanation(
        "expiring",
        f"It expired at {_at(job.expires_at)} without having been taken and ends cancelled as soon "
        "as the engine looks.",
        {"expires_at": _at(job.expires_at), "due_at": _at(job.due_at)},
    )


def _not_due(job: Job, queue: Queue, history: History, now: Moment) -> Explanation:
    facts: dict[str, Any] = {
        "due_at": _at(job.due_at),
        "due_in_seconds": (from_datetime(job.due_at) - now) / 1000,
        "paused": queue.paused,
    }
    when = f"{_at(job.due_at)}, in {spoken(facts['due_in_seconds'])}"
    paused = f"; queue {queue.name} is paused, so it will wait then too" if queue.paused else ""
    last = _last(job, history)
    if last is None or last.outcome != "retried":
        return Explanation("not_due", f"It is not due before {when}{paused}.", facts)
    tried = _attempts(job, queue)
    facts |= {**tried, "error": job.error, "failed_at": _at(last.ended_at)}
    failed = f"Attempt {tried['attempt']} of {tried['max_attempts']} failed{_because(job.error)}"
    return Explanation("backoff", f"{failed}; it is tried again at {when}{paused}.", facts)


def _put_off(job: Job, queue: Queue, not_before: datetime, now: Moment) -> Explanation:
    facts: dict[str, Any] = {
        "due_at": _at(job.due_at),
        "not_before": _at(not_before),
        "put_off_seconds": (from_datetime(not_before) - now) / 1000,
        "refusals": job.refusals,
        "error": job.error,
        "sink": queue.sink,
        "paused": queue.paused,
    }
    often = "" if job.refusals == 1 else f", {job.refusals:,} times in a row"
    told = f"The sink of queue {queue.name} refused it for now{often}{_because(job.error)}"
    when = f"{facts['not_before']}, in {spoken(facts['put_off_seconds'])}"
    paused = f"; queue {queue.name} is paused, so it will wait then too" if queue.paused else ""
    return Explanation(
        "put_off", f"{told}; it is offered to the sink again at {when}{paused}.", facts
    )


def _due(job: Job, queue: Queue, history: History, now: Moment, line: Line) -> Explanation:
    waiting = (now - from_datetime(job.due_at)) / 1000
    why = _verdict(history)
    facts = {
        "due_at": _at(job.due_at),
        "waiting_seconds": waiting,
        "sink": queue.sink,
        "reclaimed": why is not None and why.facts.get("decision") == Verb.RECLAIM,
        **line._asdict(),
        **_attempts(job, queue),
    }
    since = f"It has been due for {spoken(waiting)}"
    if queue.paused:
        return Explanation("paused", f"{since}, but queue {queue.name} is paused.", facts)
    if queue.concurrency is not None and (line.taken or 0) >= queue.concurrency:
        under_way = f"{line.taken:,} under way, and no more than {queue.concurrency:,} at once"
        return Explanation("full", f"{since}, but queue {queue.name} is full: {under_way}.", facts)
    if line.taken == 0 and waiting >= NOBODY_SECONDS + _turn_seconds(queue, line):
        lost = _lost_claim(why) if facts["reclaimed"] else ""
        return _neglected(queue, f"{lost}{_lower(since)}" if lost else since, facts)
    where = []
    if facts["reclaimed"]:
        where.append("taken back from a lost claim, it goes ahead of the others")
    elif line.due_longer:
        where.append(f"{line.due_longer:,} of its queue have been due longer")
    if line.taken:
        where.append(f"{line.taken:,} are under way")
    if queue.rate_per_second is not None:
        where.append(f"its queue hands over at most {queue.rate_per_second:,.12g} a second")
    among = f": {', '.join(where)}" if where else ""
    return Explanation("waiting", f"{since} and waits to be taken{among}.", facts)


def _lost_claim(why: Diagnostic | None) -> str:
    used = why is None or why.facts.get("uses_attempt", True)
    return f"It was taken back from a lost claim{'' if used else ', no attempt used'}; "


def _turn_seconds(queue: Queue, line: Line) -> float:
    """How long the queue's rate alone may keep a job waiting behind those due longer."""
    rate = queue.rate_per_second
    return 0.0 if rate is None else ((line.due_longer or 0) + 1) / rate


def _neglected(queue: Queue, since: str, facts: dict[str, Any]) -> Explanation:
    if queue.sink is None:
        return Explanation(
            "no_worker",
            f"{since} and nothing of queue {queue.name} is being worked on: no worker seems to "
            "take from it.",
            facts,
        )
    return Explanation(
        "no_dispatcher",
        f"{since} and nothing of queue {queue.name} is being delivered: no dispatcher seems to "
        f"run, or the sink {queue.sink} is down.",
        facts,
    )


# -- taken ---------------------------------------------------------------------------------------


def _taken(job: Job, queue: Queue, history: History, now: Moment) -> Explanation:
    last = _last(job, history)
    if job.worker is None or last is None:
        return Explanation(
            "delivering",
            f"A dispatcher is handing it to the sink {queue.sink} right now.",
            {"due_at": _at(job.due_at), "sink": queue.sink},
        )
    facts = _claim_facts(job, queue, last, now)
    reason, sentence = _claim_story(job, queue, facts)
    if job.cancel_requested and reason != "silent":
        told = f"A cancel was requested; worker {job.worker} learns of it at its next heartbeat"
        return Explanation("cancel_requested", f"{told}, last heard {_heard(facts)} ago.", facts)
    return Explanation(reason, sentence, facts)


def _claim_facts(job: Job, queue: Queue, last: Attempt, now: Moment) -> dict[str, Any]:
    timeout = job.timeout_seconds or queue.timeout_seconds
    claimed = from_datetime(last.claimed_at)
    return {
        "worker": job.worker,
        "claimed_at": render(claimed),
        "last_heard_at": _at(job.updated_at),
        "silent_seconds": (now - from_datetime(job.updated_at)) / 1000,
        "lease_until": _at(job.lease_until),
        "lease_left_seconds": (
            None if job.lease_until is None else (from_datetime(job.lease_until) - now) / 1000
        ),
        "timeout_at": None if timeout is None else render(claimed + round(timeout * 1000)),
        "cancel_requested": job.cancel_requested,
        "message": job.message,
        "percent": job.percent,
        **_attempts(job, queue),
    }


def _claim_story(job: Job, queue: Queue, facts: dict[str, Any]) -> tuple[str, str]:
    attempt = f"attempt {facts['attempt']} of {facts['max_attempts']}"
    by = f"worker {job.worker}"
    left = facts["lease_left_seconds"]
    if left is not None and left <= 0:
        ends = "it ends cancelled" if job.cancel_requested else "it is tried again or given up"
        return "silent", (
            f"Nothing was heard from {by} for {_heard(facts)} and the lease of {attempt} is over: "
            f"{ends} as soon as the reclaimer looks."
        )
    lease = "" if left is None else f"; the lease holds until {facts['lease_until']}"
    if job.state is State.EXECUTING:
        progress = "" if job.percent is None else f" and is {job.percent:g} % done"
        return "executing", (
            f"It is executing {attempt} with {by}{progress}, last heard {_heard(facts)} ago{lease}."
        )
    if left is None:
        return "handed_over", (
            f"It was handed to the sink {queue.sink} at {facts['claimed_at']} ({attempt}); no "
            "worker has reported back yet."
        )
    return "taken", (
        f"It was taken by {by} at {facts['claimed_at']} ({attempt}), which has not reported a "
        f"start yet{lease}."
    )


# -- finished ------------------------------------------------------------------------------------


def _finished(job: Job, queue: Queue, history: History) -> Explanation:
    last = _last(job, history)
    why = _verdict(history)
    facts = {
        "finished_at": _at(job.finished_at),
        "due_at": _at(job.due_at),
        "error": job.error,
        "worker": None if last is None else last.worker,
        "diagnostic": None if why is None else why.code,
        **_attempts(job, queue),
    }
    if job.state is State.SUCCEEDED:
        return Explanation("succeeded", _success(job, last, facts), facts)
    if job.state is State.FAILED:
        return Explanation("failed", _failure(job, why, facts), facts)
    if why is not None and why.code == "expired" and job.error == why.detail:
        facts["expires_at"] = _at(job.expires_at)
        by = f" at {facts['expires_at']}" if facts["expires_at"] else ""
        return Explanation("expired", f"It was not taken before it expired{by}.", facts)
    # A cancel while it waited leaves no diagnostic; the last one may tell of an earlier failure.
    asked = last is None or why is None or last.outcome not in ("cancelled", "reclaimed")
    how = "by request, while it waited" if asked or why is None else _lower(why.detail)
    return Explanation("cancelled", f"It was cancelled at {facts['finished_at']}: {how}.", facts)


def _success(job: Job, last: Attempt | None, facts: dict[str, Any]) -> str:
    done = f"It succeeded at {facts['finished_at']}"
    if last is None:
        return f"{done}."
    late = max(0, from_datetime(last.claimed_at) - from_datetime(job.due_at)) / 1000
    facts["late_seconds"] = late
    which = f"attempt {facts['attempt']} of {facts['max_attempts']} by {last.worker}"
    return f"{done}: {which}, taken {spoken(late)} after it was due."


def _failure(job: Job, why: Diagnostic | None, facts: dict[str, Any]) -> str:
    tries = f"attempt {facts['attempt']} of {facts['max_attempts']}"
    told = f"It failed at {facts['finished_at']} on {tries}{_because(job.error)}"
    if why is None or not job.error or job.error in why.detail:
        return f"{told}."
    return f"{told}; {_lower(why.detail.removeprefix('Failed: '))}."


# -- words ---------------------------------------------------------------------------------------


def _last(job: Job, history: History) -> Attempt | None:
    """The latest attempt of the job's present life."""
    mine = [a for a in history.attempts if a.attempt > job.attempt_base]
    return mine[-1] if mine else None


def _verdict(history: History) -> Diagnostic | None:
    """What was last decided; refusals of late writes decide nothing."""
    return next((d for d in reversed(history.diagnostics) if d.code != "fenced"), None)


def _attempts(job: Job, queue: Queue) -> dict[str, int]:
    return {
        "attempt": job.attempt - job.attempt_base,
        "max_attempts": job.max_attempts or queue.max_attempts,
    }


def _heard(facts: dict[str, Any]) -> str:
    return spoken(max(0.0, facts["silent_seconds"]))


def _because(error: str | None) -> str:
    """An error as part of a sentence: its first line, not too much of it."""
    first = (error or "").strip().partition("\n")[0].rstrip(". ")
    if len(first) > ERROR_SHOWN:
        first = first[: ERROR_SHOWN - 1] + "…"
    return f": {first}" if first else ""


def _lower(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(". ")


def _at(when: datetime | None) -> str | None:
    return None if when is None else render(from_datetime(when))
