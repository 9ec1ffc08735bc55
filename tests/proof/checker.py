"""The one checker: compares what was asked with what the receivers saw, and gives a card.

lost        acknowledged, not cancelled, never delivered
unexpected  delivered though never asked for, refused for certain, or cancelled with acknowledgement
early       delivered before its due time
stale       a write of an old epoch that was accepted
duplicates  every delivery after a job's first; identifiable if its attempt has not fallen

The first four must be empty, every duplicate identifiable and their number within its bound. A run
in which too little succeeded or too few faults fired proves nothing: it is void.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from oncue.core.moment import Moment
from tests.proof.history import History, Received, StaleWrite

SHOWN = 5  # of every kind of violation, on the card


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
    lost: tuple[str, ...]
    unexpected: tuple[Unexpected, ...]
    early: tuple[Received, ...]
    stale: tuple[StaleWrite, ...]
    duplicates: tuple[Duplicate, ...]
    max_duplicates: int | None
    lateness: Lateness | None
    faults_fired: int
    void_because: tuple[str, ...]

    @property
    def void(self) -> bool:
        return bool(self.void_because)

    @property
    def unidentifiable(self) -> tuple[Duplicate, ...]:
        return tuple(one for one in self.duplicates if not one.identifiable)

    @property
    def broken(self) -> bool:
        """A promise was broken, whether or not the run was long enough to prove the others."""
        too_many = self.max_duplicates is not None and len(self.duplicates) > self.max_duplicates
        violations = (self.lost, self.unexpected, self.early, self.stale, self.unidentifiable)
        return too_many or any(violations)

    @property
    def green(self) -> bool:
        return not self.broken and not self.void

    def __str__(self) -> str:
        word = "BROKEN" if self.broken else "VOID" if self.void else "GREEN"
        bound = "" if self.max_duplicates is None else f", {self.max_duplicates} allowed"
        asked = f"asked {self.asked}, acknowledged {self.acknowledged}"
        early_or_stale = f"early {len(self.early)}, stale {len(self.stale)}"
        strange = f"{len(self.unidentifiable)} unidentifiable"
        lines = [
            f"{word}: {asked}, delivered {self.delivered}, faults {self.faults_fired}",
            f"  lost {len(self.lost)}, unexpected {len(self.unexpected)}, {early_or_stale}",
            f"  duplicates {len(self.duplicates)} ({strange}{bound})",
            f"  lateness {self.lateness or 'unknown'}",
            *(f"  void: {reason}" for reason in self.void_because),
            *_shown("lost", self.lost),
            *_shown("unexpected", self.unexpected),
            *_shown("early", self.early),
            *_shown("stale", self.stale),
            *_shown("unidentifiable", self.unidentifiable),
        ]
        return "\n".join(lines)


def verdict(
    history: History,
    deliveries: Iterable[Received | StaleWrite],
    *,
    max_duplicates: int | None = None,
    min_acknowledged: int = 1,
    min_faults: int = 0,
    faults_fired: int = 0,
    early_tolerance_ms: int = 0,
) -> Card:
    """Judge a run. `deliveries` come in the order of arrival, as one `ReceiverLog` keeps them.

    `max_duplicates` None means that identifiable duplicates are free.
    """
    entries = list(deliveries)
    received = [entry for entry in entries if isinstance(entry, Received)]
    stale = tuple(entry for entry in entries if isinstance(entry, StaleWrite))
    seen = {one.id for one in received}
    acknowledged = sum(asked.acknowledged for asked in history.jobs.values())
    return Card(
        asked=len(history.jobs),
        acknowledged=acknowledged,
        delivered=len(seen),
        lost=_lost(history, seen),
        unexpected=_unexpected(history, received),
        early=_early(history, received, early_tolerance_ms),
        stale=stale,
        duplicates=_duplicates(received),
        max_duplicates=max_duplicates,
        lateness=_lateness(history, received),
        faults_fired=faults_fired,
        void_because=_void(acknowledged, min_acknowledged, faults_fired, min_faults),
    )


def _lost(history: History, seen: set[str]) -> tuple[str, ...]:
    return tuple(
        job_id for job_id, asked in history.jobs.items() if asked.must_arrive and job_id not in seen
    )


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
