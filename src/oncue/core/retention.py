"""How long finished jobs, remembered ids and events are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncue.core.event import Bounds
from oncue.core.firing import floor, prunable_before
from oncue.core.ids import REMEMBERED_MS
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.rule import Rule
from oncue.core.stamp import Stamp


class Retention(NamedTuple):
    """What is old enough to be removed."""

    finished_before: Mapping[str, Moment]
    """By queue: finished jobs from before this moment. Of other queues, none."""
    bounds: Bounds = Bounds()
    """For events."""


class Pruned(NamedTuple):
    """What was removed in one go."""

    jobs: int | None
    """None: the store does not count them."""
    more: bool
    """There may be more that is old enough."""


class RuleRetention(NamedTuple):
    """What one rule can do without. None: it needs all of it."""

    accepted_before: tuple[Stamp | None, ...]
    """For each dependency: accepted events from before this stamp can never matter again."""
    decided_before: Stamp | None
    """Decisions on events from before this stamp are no longer kept."""


def retention(queues: Iterable[Queue], bounds: Bounds, now: Moment) -> Retention:
    """As the queues' settings say. A queue without a retention keeps everything."""
    before = {
        queue.name: now - round(queue.retention_seconds * 1000)
        for queue in queues
        if queue.retention_seconds is not None
    }
    return Retention(before, bounds)


def forgotten_before(now: Moment) -> Moment:
    """The id of a job that finished before this moment need no longer be remembered."""
    return now - REMEMBERED_MS


def loose_before(now: Moment, bounds: Bounds) -> Moment:
    """An event received before this moment is forgotten if no rule decided on it."""
    return now - bounds.loose_seconds * 1000


def of_rule(rule: Rule, newest: Stamp | None, bounds: Bounds) -> RuleRetention:
    """`newest` is the newest stamp that the rule has accepted."""
    kept_from = None if newest is None else floor(newest, rule.lives, bounds.late_seconds)
    accepted = (prunable_before(life, rule.last_instant, kept_from) for life in rule.lives)
    return RuleRetention(tuple(accepted), kept_from)
