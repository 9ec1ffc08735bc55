"""What one rule decides on one event, with all that follows from it, inside a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from oncue.core.event import Bounds, Event
from oncue.core.firing import Decision, FiredJob, decide
from oncue.core.moment import Moment
from oncue.core.publication import Decided, Fired, conclude
from oncue.core.stamp import Stamp
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.rules import StoredRule, dependency, validating
from oncue.stores.sqlite.statements import load

SQL = load("events")
INSERT_FIRED = load("jobs")["insert_fired"]
ENSURE_QUEUE = load("queues")["ensure"]
_read_decided = rows.reader(Decided, decision=Decision)


class Logged(NamedTuple):
    """An event and the number of its row."""

    n: int
    event: Event


class Verdict(NamedTuple):
    decisions: list[Decided]
    fresh: bool
    """The rule had not decided on this event before."""
    job: Fired | None = None


def repeated(tx: apsw.Connection, rule: tuple[str, int], n: int, now: Moment) -> Verdict | None:
    """What a rule that has decided on the event before says to a repetition; None: it has not."""
    name, rule_n = rule
    own = {"rule_n": rule_n, "event_n": n, "now": now}
    found = rows.fetch(tx, SQL["repeat"], own)
    return Verdict([decided(name, row) for row in found], False) if found else None


def verdict(
    db: Database,
    tx: apsw.Connection,
    mine: StoredRule,
    logged: Logged,
    matched: Sequence[int],
    now: Moment,
    bounds: Bounds,
) -> Verdict:
    """Let the rule decide, and apply it. `matched` are the numbers of its dependencies that the
    event matches."""
    rule, event = mine.rule, logged.event
    validated = [place for place, wait in enumerate(mine.waits) if wait.n in matched]
    decision = decide(event.stamp, rule.last_instant, mine.newest, rule.lives, bounds.late_seconds)
    _accept(tx, mine, logged, validated, decision)

    def newest(place: int, t: Stamp) -> Stamp | None:
        row: Any = tx.execute(SQL["newest"], (mine.waits[place].n, t)).fetchone()
        return None if row is None else row[0]

    def first_at(place: int, stamp: Stamp) -> Event:
        return validating(tx, mine.waits[place].n, stamp)

    decisions, job = conclude(rule, event, decision, validated, now, newest, first_at)
    if job is not None:
        _fire(db, tx, mine, job)
    for place, one in zip(validated, decisions, strict=True):
        its = one.dependency
        copied = (its.type, its.resource, its.life_seconds, now, one.job_id, one.suppressed)
        tx.execute(SQL["decide"], (mine.n, logged.n, mine.waits[place].n, decision, *copied))
    fired = None if job is None else Fired(job.rule, job.job.id, job.instant)
    return Verdict(decisions, True, fired)


def decided(rule: str, row: Sequence[Any]) -> Decided:
    """From the columns that `repeat` returns and `decisions_of` ends with."""
    return _read_decided((rule, dependency(row[:3]), *row[3:]))


def _accept(
    tx: apsw.Connection,
    mine: StoredRule,
    logged: Logged,
    validated: Sequence[int],
    decision: Decision,
) -> None:
    stamp = logged.event.stamp
    for place in validated:
        n, _, newest_known, stale = mine.waits[place]
        if decision is Decision.ACCEPTED:
            tx.execute(SQL["accept"], (n, stamp, logged.n))
            if newest_known is None or newest_known < stamp:
                tx.execute(SQL["note_newest"], (n, stamp))
        elif decision is Decision.STALE and not stale:
            tx.execute(SQL["note_stale"], (n,))
    if not mine.touched:
        tx.execute(SQL["touch"], (mine.n,))


def _fire(db: Database, tx: apsw.Connection, mine: StoredRule, fired: FiredJob) -> None:
    job = fired.job
    tx.execute(ENSURE_QUEUE, (job.queue,))
    tx.execute(INSERT_FIRED, (*job[:6], fired.rule, fired.instant))
    tx.execute(SQL["fired"], {"n": mine.n, "instant": fired.instant, "job_id": job.id})
    db.tell(job.queue, job.due_at)
