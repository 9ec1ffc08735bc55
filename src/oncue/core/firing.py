"""When a rule fires: what becomes of an event that matches it, and at which instant a job is due.

It works on an ordered set of stamps for each dependency and asks only for the newest accepted stamp
that is not after t. It never walks through the events that were accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from oncue.core import ids, stamp
from oncue.core.event import Event
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.pair import Markers, Newest
from oncue.core.rule import Rule
from oncue.core.stamp import SECOND, Stamp


class Decision(StrEnum):
    """How a rule decides on an event that it matches."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    """Decided before; nothing was changed."""
    STALE = "STALE"
    """Not later than the instant of the rule's last job."""
    TOO_LATE = "TOO_LATE"
    """From a time whose events are no longer kept."""


DISABLED = "disabled"  # why an event that met the rule fired no job


class Firing(NamedTuple):
    """An instant at which all dependencies are valid."""

    instant: Stamp
    validated_by: tuple[Stamp, ...]
    """For each dependency the stamp of the event that makes it valid then."""


class FiredJob(NamedTuple):
    """A job that a rule creates. Its payload tells rule, instant and events too, so that workers
    and sinks learn of them."""

    job: NewJob
    rule: str
    instant: Stamp


def decide(
    event_stamp: Stamp,
    last_instant: Stamp | None,
    newest: Stamp | None,
    lives: Iterable[Stamp],
    late_seconds: int,
) -> Decision:
    """The decision on a matching event that was not decided yet. `newest` is the newest stamp that
    the rule has accepted."""
    if last_instant is not None and event_stamp <= last_instant:
        return Decision.STALE
    if newest is not None and event_stamp < floor(newest, lives, late_seconds):
        return Decision.TOO_LATE
    return Decision.ACCEPTED


def floor(newest: Stamp, lives: Iterable[Stamp], late_seconds: int) -> Stamp:
    """Where the time begins of which a rule still keeps events."""
    return newest - max(lives) - late_seconds * SECOND


def prunable_before(
    life: Stamp, last_instant: Stamp | None, rule_floor: Stamp | None
) -> Stamp | None:
    """Accepted events of a dependency stamped before this can never matter again: every later job
    has an instant after `last_instant`. None: none of them."""
    over = None if last_instant is None else last_instant - life
    return max((at for at in (over, rule_floor) if at is not None), default=None)


def fire(
    lives: Sequence[Stamp],
    validated: Sequence[int],
    event_stamp: Stamp,
    newest: Newest,
    markers: Markers | None = None,
) -> Firing | None:
    """The greatest instant at which accepting an event makes the rule met, or None.

    `validated` are the positions of the dependencies that the event validates; `newest` knows of it
    already, and so do the markers. Going down from the end of its life: wherever a dependency is
    not valid, nothing is met before the end of its newest earlier event, so t falls to there. Once
    all agree on t, the newest of their stamps is an instant, and none lies between it and t. Looks
    at each dependency once, and at all of them once more for each gap that it falls through; from
    the second gap on it falls through all gaps of the pair at once, where there are markers.
    """
    t = event_stamp + max(lives[position] for position in validated)
    starts = [event_stamp] * len(lives)
    agreed = gaps = 0
    position = (validated[0] + 1) % len(lives)  # the others first: one of them may be missing
    while agreed < len(lives):
        start = newest(position, t)
        if start is None or start + lives[position] < event_stamp:
            return None
        starts[position] = start
        agreed += 1
        if start + lives[position] < t:
            t, agreed, gaps = start + lives[position], 1, gaps + 1
            if gaps > 1 and markers is not None and markers.are_complete(t):
                met = markers.last_meeting(t)
                if met is None or met < event_stamp:
                    return None
                if met < t:
                    t, agreed = met, 0
        position = (position + 1) % len(lives)
    return Firing(max(starts), tuple(starts))


def fired_job(
    rule: Rule, firing: Firing, event: Event, included: Sequence[Event], now: Moment
) -> FiredJob:
    """The job of a firing, due now. `included` are the events that validate the dependencies, in
    their order; `event` is the one whose acceptance fired it."""
    fields = {
        "rule": rule.name,
        "instant": stamp.render(firing.instant),
        "event": event.as_dict(),
        "events": [
            {"dependency": dependency.as_dict(), **its.as_dict()}
            for dependency, its in zip(rule.dependencies, included, strict=True)
        ],
    }
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    payload = b'%b,"payload":%b}' % (text[:-1], rule.payload_json)
    job = NewJob(ids.mint(now, now, rule.queue, 0), rule.queue, now, payload, 0, now)
    return FiredJob(job, rule.name, firing.instant)
