"""The one checker: compares what was asked with what happened, and gives a card.

lost            acknowledged, and not ended as the history justifies (begun is not enough)
unexpected      delivered though never asked for, refused for certain, or cancelled with
                acknowledgement
early           delivered before its due time
stale           a write of an old epoch or fence that was accepted
unkept          an acknowledged completion or cancel, and the job ended otherwise
twice           two claims of one job whose completions were both acknowledged
unidentifiable  a duplicate whose attempt is lower than one seen before
repeated        a duplicate without a fault that explains it: the claim before was not lost
overcounted     an attempt was counted that nobody had
premature       a claim was taken from its holder before its lease or timeout had elapsed
late            a lost claim was taken over later than it must be
too many        more duplicates than were in flight when the faults struck

All must be empty. A run in which too little succeeded or too few faults fired proves nothing: it is
void.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from tests.proof.ends import GONE, End, unjustified
from tests.proof.entries import Entry, Received
from tests.proof.history import History
from tests.proof.ledger import Account, Ledger

SHOWN = 5  # of every kind of violation, on the card


class Lost(NamedTuple):
    id: str
    why: str


class Unkept(NamedTuple):
    id: str
    acknowledged: str
    state: State


class Unexpected(NamedTuple):
    received: Received
    why: str


class Duplicate(NamedTuple):
    """A delivery after the first. `highest` is the highest attempt that was seen before."""

    received: Received
    highest: int

    @property
    def identifiable(self) -> bool:
        return self.received.attempt >= self.highest


class Lateness(NamedTuple):
    """Milliseconds from when a job could first be handed over to its first delivery."""

    p50: int
    p99: int
    max: int

    def __str__(self) -> str:
        return f"p50 {self.p50} ms, p99 {self.p99} ms, max {self.max} ms"


@dataclass(frozen=True, slots=True)
class Card:
    """The verdict on one run."""

    asked: int
    acknowledged: int
    delivered: int
    """Jobs, not deliveries."""
    found: Mapping[str, Sequence[object]]
    """The violations, by the name of the check."""
    duplicates: tuple[Duplicate, ...]
    max_duplicates: int | None
    lateness: Lateness | None
    faults_fired: int
    void_because: tuple[str, ...]

    @property
    def void(self) -> bool:
        return bool(self.void_because)

    @property
    def violated(self) -> set[str]:
        """The names of the checks that found something."""
        return {name for name, violations in self.found.items() if violations}

    @property
    def broken(self) -> bool:
        """A promise was broken, whether or not the run was long enough to prove the others."""
        return bool(self.violated)

    @property
    def green(self) -> bool:
        return not self.broken and not self.void

    def __str__(self) -> str:
        word = "BROKEN" if self.broken else "VOID" if self.void else "GREEN"
        bound = "" if self.max_duplicates is None else f" ({self.max_duplicates} allowed)"
        asked = f"asked {self.asked}, acknowledged {self.acknowledged}"
        counts = ", ".join(f"{name} {len(found)}" for name, found in self.found.items())
        lines = [
            f"{word}: {asked}, delivered {self.delivered}, faults {self.faults_fired}",
            f"  {counts}",
            f"  duplicates {len(self.duplicates)}{bound}",
            f"  lateness {self.lateness or 'unknown'}",
            *(f"  void: {reason}" for reason in self.void_because),
        ]
        for name, found in self.found.items():
            lines += _shown(name, found)
        return "\n".join(lines)


def verdict(
    history: History,
    entries: Iterable[Entry],
    ends: Mapping[str, End],
    *,
    max_duplicates: int | None = None,
    min_acknowledged: int = 1,
    min_faults: int = 0,
    faults_fired: int = 0,
    early_tolerance_ms: int = 0,
    takeover_seconds: float | None = None,
    slack_seconds: float = 0.0,
) -> Card:
    """Judge a run. `entries` come in the order in which they happened, as one `RunLog` keeps them;
    `ends` is what the store says when the run is over.

    `max_duplicates` None: as many as were in flight at the strikes in the log, if there are any.
    `takeover_seconds` None: it is not judged how late lost claims are taken over.
    """
    ledger = Ledger(entries, takeover_seconds=takeover_seconds, slack_seconds=slack_seconds)
    duplicates = _duplicates(ledger.received)
    if max_duplicates is None and ledger.strikes:
        max_duplicates = ledger.in_flight
    acknowledged = sum(asked.acknowledged for asked in history.jobs.values())
    return Card(
        asked=len(history.jobs),
        acknowledged=acknowledged,
        delivered=sum(job.received > 0 for job in ledger.jobs.values()),
        found={
            "lost": _lost(history, ledger, ends),
            "unexpected": _unexpected(history, ledger.received),
            "early": _early(history, ledger.received, early_tolerance_ms),
            "stale": ledger.stale,
            "unkept": _unkept(history, ledger, ends),
            "twice": [job_id for job_id, job in ledger.jobs.items() if len(job.completions) > 1],
            "unidentifiable": [one for one in duplicates if not one.identifiable],
            "repeated": ledger.repeated,
            "overcounted": ledger.overcounted,
            "premature": ledger.premature,
            "late": ledger.late,
            "too many": () if max_duplicates is None else duplicates[max_duplicates:],
        },
        duplicates=duplicates,
        max_duplicates=max_duplicates,
        lateness=_lateness(history, ledger.received),
        faults_fired=faults_fired,
        void_because=_void(acknowledged, min_acknowledged, faults_fired, min_faults),
    )


def _lost(history: History, ledger: Ledger, ends: Mapping[str, End]) -> list[Lost]:
    found = []
    for job_id, asked in history.jobs.items():
        if asked.acknowledged:
            job = ledger.jobs.get(job_id) or Account()
            why = unjustified(asked, job, ends.get(job_id, GONE))
            if why is not None:
                found.append(Lost(job_id, why))
    return found


def _unkept(history: History, ledger: Ledger, ends: Mapping[str, End]) -> list[Unkept]:
    found = []
    for job_id, asked in history.jobs.items():
        job, end = ledger.jobs.get(job_id) or Account(), ends.get(job_id, GONE)
        if end.state is None:
            continue
        completed = bool(job.completions) or job.delivered is True
        if completed and end.state is not State.SUCCEEDED:
            found.append(Unkept(job_id, "completion", end.state))
        if asked.cancelled and end.state is not State.CANCELLED:
            found.append(Unkept(job_id, "cancel", end.state))
    return found


def _unexpected(history: History, received: Sequence[Received]) -> tuple[Unexpected, ...]:
    found = []
    for one in received:
        asked = history.jobs.get(one.id)
        if asked is None:
            found.append(Unexpected(one, "never asked for"))
        elif asked.arrives_cancelled(one.at):
            found.append(Unexpected(one, "its cancel was acknowledged"))
        elif not asked.may_arrive:
            found.append(Unexpected(one, "it was refused"))
    return tuple(found)


def _early(
    history: History, received: Sequence[Received], tolerance_ms: int
) -> tuple[Received, ...]:
    return tuple(
        one
        for one in received
        if (due_at := _due_at(history, one.id)) is not None and one.at < due_at - tolerance_ms
    )


def _due_at(history: History, job_id: str) -> Moment | None:
    asked = history.jobs.get(job_id)
    return asked.due_at if asked else None


def _duplicates(received: Sequence[Received]) -> tuple[Duplicate, ...]:
    highest: dict[str, int] = {}
    found = []
    for one in received:
        before = highest.get(one.id)
        if before is not None:
            found.append(Duplicate(one, before))
        highest[one.id] = max(one.attempt, before or 0)
    return tuple(found)


def _lateness(history: History, received: Sequence[Received]) -> Lateness | None:
    first: dict[str, Moment] = {}
    for one in received:
        first.setdefault(one.id, one.at)
    late = []
    for job_id, at in first.items():
        asked = history.jobs.get(job_id)
        if asked is not None and asked.due_at is not None:
            late.append(at - max(asked.due_at, asked.invoked_at or asked.due_at))
    if not late:
        return None
    late.sort()
    return Lateness(_rank(late, 50), _rank(late, 99), late[-1])


def _rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-len(ordered) * percent // 100) - 1]


def _void(
    acknowledged: int, min_acknowledged: int, faults_fired: int, min_faults: int
) -> tuple[str, ...]:
    reasons = []
    if acknowledged < min_acknowledged:
        reasons.append(f"only {acknowledged} acknowledged, {min_acknowledged} are needed")
    if faults_fired < min_faults:
        reasons.append(f"only {faults_fired} faults fired, {min_faults} are needed")
    return tuple(reasons)


def _shown(title: str, found: Sequence[object]) -> list[str]:
    lines = [f"  {title}: {one}" for one in islice(found, SHOWN)]
    return [*lines, f"  {title}: … {len(found) - SHOWN} more"] if len(found) > SHOWN else lines
