"""Why a job has not run, or is where it is: a code for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from oncue.core.duration import spoken
from oncue.core.job import History, Job
from oncue.core.lifecycle import FINAL, LIVE, State, Verb
from oncue.core.moment import Moment, from_datetime, render
from oncue.core.queue import Queue

REASONS = (
    *("not_due", "backoff", "expiring", "put_off", "paused", "full", "waiting"),
    *("no_worker", "no_dispatcher", "delivering", "handed_over"),
    *("taken", "executing", "silent", "cancel_requested"),
    *("succeeded", "failed", "cancelled", "expired"),
)
# Due for so long while no job of its queue is under way: the queue seems to have no worker.
UNTAKEN_SECONDS = 5.0
ERROR_SHOWN = 300  # characters of an error that fit into a sentence


@dataclass(frozen=True, slots=True)
class Explanation:
    reason: str
    """One of REASONS."""
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)
    """The facts behind the sentence, as JSON; moments in RFC 3339."""


class Backlog(NamedTuple):
    """The jobs of its queue that a due job waits with. None: unknown."""

    due: int | None = None
    """Jobs of the queue that are due and waiting, this one included."""
    due_longer: int | None = None
    """Those of them that were due before it."""
    taken: int | None = None
    """Jobs of the queue that are under way."""


def explain(job: Job, queue: Queue, history: History, now: Moment, backlog: Backlog) -> Explanation:
    """Why the job is where it is at this moment. `backlog` matters only for a job that is due."""
    case = _Case(job, queue, history, now)
    if job.state in FINAL:
        return case.finished()
    if job.state in LIVE:
        return case.taken()
    if job.expires_at is not None and case.seconds_until(job.expires_at) <= 0:
        return case.expiring()
    if case.seconds_until(job.due_at) > 0:
        return case.not_due()
    if job.not_before is not None and case.seconds_until(job.not_before) > 0:
        return case.put_off(job.not_before)
    return case.due(backlog)


class _Case:
    def __init__(self, job: Job, queue: Queue, history: History, now: Moment) -> None:
        self.job = job
        self.queue = queue
        self.now = now
        self.due_at = _at(job.due_at)
        attempts = [one for one in history.attempts if one.attempt > job.attempt_base]
        self.last = attempts[-1] if attempts else None
        """The latest attempt of the job's present life."""
        diagnostics = [one for one in history.diagnostics if one.code != "fenced"]
        self.why = diagnostics[-1] if diagnostics else None
        """What was last decided; refusals of late writes decide nothing."""
        self.tried: dict[str, Any] = {
            "attempt": job.attempt - job.attempt_base,
            "max_attempts": job.max_attempts or queue.max_attempts,
        }
        self.attempt = "attempt {attempt} of {max_attempts}".format(**self.tried)

    def seconds_until(self, when: datetime) -> float:
        return (from_datetime(when) - self.now) / 1000

    def seconds_since(self, when: datetime) -> float:
        return (self.now - from_datetime(when)) / 1000

    # -- waiting ---------------------------------------------------------------------------------

    def expiring(self) -> Explanation:
        expires_at = _at(self.job.expires_at)
        return Explanation(
            "expiring",
            f"It expired at {expires_at} before it was taken, and is cancelled at the next look of "
            "the reclaimer.",
            {"expires_at": expires_at, "due_at": self.due_at},
        )

    def not_due(self) -> Explanation:
        job, last = self.job, self.last
        facts: dict[str, Any] = {
            "due_at": self.due_at,
            "due_in_seconds": self.seconds_until(job.due_at),
            "paused": self.queue.paused,
        }
        when = self._coming(job.due_at)
        if last is None or last.outcome != "retried":
            return Explanation("not_due", f"It is not due before {when}.", facts)
        facts |= {**self.tried, "error": job.error, "failed_at": _at(last.ended_at)}
        failed = f"{self.attempt.capitalize()} failed{_because(job.error)}"
        return Explanation("backoff", f"{failed}; it is tried again at {when}.", facts)

    def put_off(self, not_before: datetime) -> Explanation:
        job, queue = self.job, self.queue
        facts = {
            "due_at": self.due_at,
            "not_before": _at(not_before),
            "put_off_seconds": self.seconds_until(not_before),
            "refusals": job.refusals,
            "error": job.error,
            "sink": queue.sink,
            "paused": queue.paused,
        }
        often = "" if job.refusals == 1 else f", {job.refusals:,} times in a row"
        refused = f"The sink of queue {queue.name} refused it for now{often}{_because(job.error)}"
        again = f"it is offered to the sink again at {self._coming(not_before)}"
        return Explanation("put_off", f"{refused}; {again}.", facts)

    def _coming(self, when: datetime) -> str:
        name = self.queue.name
        paused = f"; queue {name} is paused, so it will wait then too" if self.queue.paused else ""
        return f"{_at(when)}, in {spoken(self.seconds_until(when))}{paused}"

    def due(self, backlog: Backlog) -> Explanation:
        queue, why = self.queue, self.why
        waiting = self.seconds_since(self.job.due_at)
        reclaimed = why is not None and why.facts.get("decision") == Verb.RECLAIM
        facts = {
            "due_at": self.due_at,
            "waiting_seconds": waiting,
            "sink": queue.sink,
            "reclaimed": reclaimed,
            **backlog._asdict(),
            **self.tried,
        }
        since = f"It has been due for {spoken(waiting)}"
        if queue.paused:
            return Explanation("paused", f"{since}, but queue {queue.name} is paused.", facts)
        taken, longer, rate = backlog.taken, backlog.due_longer or 0, queue.rate_per_second
        if queue.concurrency is not None and (taken or 0) >= queue.concurrency:
            full = f"{taken:,} under way, and no more than {queue.concurrency:,} at once"
            return Explanation("full", f"{since}, but queue {queue.name} is full: {full}.", facts)
        # How long the queue's rate alone may keep a job waiting behind those due longer.
        turn_seconds = 0.0 if rate is None else (longer + 1) / rate
        if taken == 0 and waiting >= UNTAKEN_SECONDS + turn_seconds:
            return self._not_taken(self._lost(since) if reclaimed else since, facts)
        where = []
        if reclaimed:
            where.append("taken back from a lost claim, it goes ahead of the others")
        elif longer:
            where.append(f"{longer:,} of its queue have been due longer")
        if taken:
            where.append(f"{taken:,} are under way")
        if rate is not None:
            where.append(f"its queue hands over at most {rate:,.12g} a second")
        among = f": {', '.join(where)}" if where else ""
        return Explanation("waiting", f"{since} and waits to be taken{among}.", facts)

    def _lost(self, since: str) -> str:
        used = self.why is None or self.why.facts.get("uses_attempt", True)
        unused = "" if used else ", no attempt used"
        return f"It was taken back from a lost claim{unused}; {_lower(since)}"

    def _not_taken(self, since: str, facts: dict[str, Any]) -> Explanation:
        name, sink = self.queue.name, self.queue.sink
        if sink is None:
            reason, doing, why = "no_worker", "worked on", "the queue seems to have no worker"
        else:
            reason, doing = "no_dispatcher", "delivered"
            who = "worker of Celery with oncue installed" if sink == "celery:" else "dispatcher"
            down = "the broker" if sink == "celery:" else f"the sink {sink}"
            why = f"no {who} seems to run, or {down} is down"
        sentence = f"{since} and no job of queue {name} is being {doing}: {why}."
        return Explanation(reason, sentence, facts)

    # -- taken -----------------------------------------------------------------------------------

    def taken(self) -> Explanation:
        job, queue = self.job, self.queue
        if job.worker is None or self.last is None:
            return Explanation(
                "delivering",
                f"A dispatcher is handing it to the sink {queue.sink} right now.",
                {"due_at": self.due_at, "sink": queue.sink},
            )
        claimed = from_datetime(self.last.claimed_at)
        silent = self.seconds_since(job.updated_at)
        left = None if job.lease_until is None else self.seconds_until(job.lease_until)
        timeout = job.timeout_seconds or queue.timeout_seconds
        facts = {
            "worker": job.worker,
            "claimed_at": render(claimed),
            "last_heard_at": _at(job.updated_at),
            "silent_seconds": silent,
            "lease_until": _at(job.lease_until),
            "lease_left_seconds": left,
            "timeout_at": None if timeout is None else render(claimed + round(timeout * 1000)),
            "cancel_requested": job.cancel_requested,
            "message": job.message,
            "percent": job.percent,
            **self.tried,
        }
        reason, sentence = self._held(render(claimed), spoken(max(0.0, silent)), left)
        return Explanation(reason, sentence, facts)

    def _held(self, claimed_at: str, heard: str, left: float | None) -> tuple[str, str]:
        """Reason and sentence. `heard`: how long ago; `left`: seconds of the lease."""
        job, attempt, by = self.job, self.attempt, f"worker {self.job.worker}"
        if left is not None and left <= 0:
            ends = "it ends cancelled" if job.cancel_requested else "it is tried again or given up"
            return "silent", (
                f"Nothing was heard from {by} for {heard} and the lease of {attempt} is over: "
                f"{ends} as soon as the reclaimer looks."
            )
        if job.cancel_requested:
            return "cancel_requested", (
                f"A cancel was requested; {by} learns of it at its next heartbeat, "
                f"last heard {heard} ago."
            )
        lease = "" if left is None else f"; the lease holds until {_at(job.lease_until)}"
        if job.state is State.EXECUTING:
            progress = "" if job.percent is None else f" and is {job.percent:g} % done"
            return "executing", (
                f"It is executing {attempt} with {by}{progress}, last heard {heard} ago{lease}."
            )
        if left is None:
            return "handed_over", (
                f"It was handed to the sink {self.queue.sink} at {claimed_at} ({attempt}); no "
                "worker has reported back yet."
            )
        return "taken", (
            f"It was taken by {by} at {claimed_at} ({attempt}), which has not reported a start "
            f"yet{lease}."
        )

    # -- finished --------------------------------------------------------------------------------

    def finished(self) -> Explanation:
        job, last, why = self.job, self.last, self.why
        finished_at = _at(job.finished_at)
        facts = {
            "finished_at": finished_at,
            "due_at": self.due_at,
            "error": job.error,
            "worker": None if last is None else last.worker,
            "diagnostic": None if why is None else why.code,
            **self.tried,
        }
        if job.state is State.SUCCEEDED:
            taken = ""
            if last is not None:
                late = max(0, from_datetime(last.claimed_at) - from_datetime(job.due_at)) / 1000
                facts["late_seconds"] = late
                after = f"taken {spoken(late)} after it was due"
                taken = f": {self.attempt} by {last.worker}, {after}"
            return Explanation("succeeded", f"It succeeded at {finished_at}{taken}.", facts)
        if job.state is State.FAILED:
            failed = f"It failed at {finished_at} on {self.attempt}{_because(job.error)}"
            if why is not None and job.error and job.error not in why.detail:
                failed += f"; {_lower(why.detail.removeprefix('Failed: '))}"
            return Explanation("failed", f"{failed}.", facts)
        if why is not None and why.code == "expired" and job.error == why.detail:
            expired_at = facts["expires_at"] = _at(job.expires_at)
            by = f" at {expired_at}" if expired_at else ""
            return Explanation("expired", f"It was not taken before it expired{by}.", facts)
        # A cancel while it waited leaves no diagnostic; the last one may tell of an earlier
        # failure.
        asked = last is None or why is None or last.outcome not in ("cancelled", "reclaimed")
        how = "by request, while it waited" if asked or why is None else _lower(why.detail)
        return Explanation("cancelled", f"It was cancelled at {finished_at}: {how}.", facts)


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
