"""The current claim on a job in SQLite, and the refusal of writes by earlier claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from oncue.core.fencing import late_write, reason_of, write_behind, write_of
from oncue.core.job import DIAGNOSTICS_KEPT, Diagnostic
from oncue.core.lease import Lease
from oncue.core.lifecycle import LIVE, State, Verb
from oncue.core.moment import Moment, to_datetime
from oncue.ports.claims import Refused, Settlement
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("claims")
JOBS = load("jobs")


class End(NamedTuple):
    """How a claim ended, in the order of `claims.sql: attempt_ended`."""

    outcome: str
    error: str | None
    attempt: int
    ended_at: Moment


class Held(NamedTuple):
    """A job's row as far as claims are concerned, in the order of `claims.sql: held_columns`
    (three of which are the lease)."""

    id: str
    n: int
    queue: str
    epoch: int
    state: State
    attempt: int
    worker: str | None
    claimed_at: Moment | None
    updated_at: Moment
    cancel_requested: bool
    lease: Lease
    result: bytes | None
    error: str | None
    refusals: int

    def is_current(self, epoch: int) -> bool:
        return self.epoch == epoch and self.state in LIVE

    def shown_state(self, tx: apsw.Connection) -> State:
        """As others see it: what an open range covers is dispatched."""
        if self.state is State.SCHEDULED and rows.first(tx, SQL["is_covered"], {"n": self.n})[0]:
            return State.DISPATCHED
        return self.state

    def end_of(self, tx: apsw.Connection, epoch: int) -> End | None:
        """How the claim of `epoch` ended; None if there was no such claim."""
        row = rows.first(tx, SQL["attempt_ended"], {"n": self.n, "epoch": epoch})
        if row is not None:
            return End._make(row)
        if epoch == self.epoch and epoch and self.claimed_at is not None:
            return End(str(self.state), self.error, self.attempt, self.updated_at)
        return None

    def was_ended_by(self, tx: apsw.Connection, one: Settlement) -> bool:
        """Whether this very settlement ended its claim, so that it is a repetition."""
        end = self.end_of(tx, one.epoch)
        if end is None:
            return False
        write = write_of(one.verb, one.result, one.error)
        return write_behind(end.outcome, self.result, end.error) == write


def held_claims(tx: apsw.Connection, ids: Sequence[str]) -> dict[str, Held]:
    """The rows of these jobs, by id; what is not there is missing."""
    if not ids:
        return {}
    found = rows.fetch(tx, SQL["held"], {"ids": rows.texts(ids)})
    return {row[0]: held(row) for row in found}


def held(row: Sequence[Any]) -> Held:
    lease = Lease(row[10], row[11], bool(row[12]))
    return Held._make((*row[:4], State(row[4]), *row[5:9], bool(row[9]), lease, *row[13:]))


def refuse(tx: apsw.Connection, claim: Held | None, epoch: int, write: str, now: Moment) -> Refused:
    """Tell a writer that its claim is over, and record once per epoch and kind that it tried."""
    write = "fail" if write == Verb.RETRY else str(write)
    if claim is None:
        return Refused("unknown", None)
    end = claim.end_of(tx, epoch)
    if end is None:
        return Refused("unknown", claim.shown_state(tx))
    reason = reason_of(end.outcome)
    recorded = rows.first(
        tx, SQL["fenced_diagnostic"], {"n": claim.n, "epoch": epoch, "write": write}
    )
    if recorded is None:
        detail, facts = late_write(write, reason)
        # The worker in the row may be another one by now.
        then = claim._replace(epoch=epoch, attempt=end.attempt, worker=None)
        fenced = diagnose(tx, then, "fenced", detail, facts, now)
    else:
        fenced = rows.diagnostic(recorded)
    return Refused(reason, claim.shown_state(tx), _explanation(tx, claim, epoch, end) or fenced)


def left_behind(tx: apsw.Connection, claim: Held | None, epoch: int) -> Refused:
    """Why a claim is not the current one, leaving no trace."""
    if claim is None:
        return Refused("unknown", None)
    end = claim.end_of(tx, epoch)
    if end is None:
        return Refused("unknown", claim.shown_state(tx))
    return Refused(
        reason_of(end.outcome), claim.shown_state(tx), _explanation(tx, claim, epoch, end)
    )


def _explanation(tx: apsw.Connection, claim: Held, epoch: int, end: End) -> Diagnostic | None:
    """The diagnostic that the end of the claim left, if it was of a kind that leaves one."""
    if end.outcome in ("succeeded", "released"):
        return None
    own = {"n": claim.n, "epoch": epoch, "ended_at": end.ended_at}
    row = rows.first(tx, SQL["diagnostic_of_end"], own)
    return None if row is None else rows.diagnostic(row)


def keep_attempt(tx: apsw.Connection, ending: dict[str, Any]) -> None:
    """Move the attempt in a job's own row to the earlier ones; the first and the last fifty of
    these are kept. `ending` is n, now, outcome, error."""
    tx.execute(JOBS["keep_attempt"], ending)
    tx.execute(JOBS["trim_attempts"], {"n": ending["n"], "kept": DIAGNOSTICS_KEPT})


def diagnose(
    tx: apsw.Connection,
    claim: Held,
    code: str,
    detail: str,
    facts: dict[str, Any],
    now: Moment,
) -> Diagnostic:
    """Record a fact about a job."""
    diagnostic = Diagnostic(to_datetime(now), code, detail, claim.attempt, claim.epoch, facts)
    record(tx, [(claim.n, diagnostic)], now)
    return diagnostic


def record(tx: apsw.Connection, found: Sequence[tuple[int, Diagnostic]], now: Moment) -> None:
    """Record facts about jobs, given by row; the first and the last fifty of each are kept."""
    tx.executemany(
        SQL["add_diagnostic"],
        [
            (n, now, one.code, one.detail, one.attempt, one.epoch, json.dumps(one.facts))
            for n, one in found
        ],
    )
    own = {"ns": rows.numbers([n for n, _ in found]), "kept": DIAGNOSTICS_KEPT}
    tx.execute(SQL["mark_trail"], own)
    for [n] in rows.fetch(tx, SQL["crowded_diagnostics"], own):
        tx.execute(SQL["trim_diagnostics"], {"n": n, "kept": DIAGNOSTICS_KEPT})
