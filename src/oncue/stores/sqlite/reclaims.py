"""Reclaiming and expiry in SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from oncue.core.fencing import EXPIRED
from oncue.core.job import DIAGNOSTICS_KEPT, Diagnostic, Lapse, Position
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment, to_datetime
from oncue.core.retry import Verdict, lapse_facts
from oncue.ports.claims import Refused, SilentPage
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import Held, held_claims, record
from oncue.stores.sqlite.statements import load

SQL = load("claims")
JOBS = load("jobs")
_GONE = Refused("unknown", None)
EXPIRED_AT_ONCE = 500


class Fallen(NamedTuple):
    """A claim that is about to be taken away."""

    claim: Held
    lapse: Lapse
    verdict: Verdict
    keep: bool

    @property
    def error(self) -> str | None:
        """What the job ends with; None: it does not end."""
        return None if self.verdict.verb is Verb.RECLAIM else self.verdict.detail


class Reclaims:
    db: Database

    def lapses(self, until: Moment, limit: int, after: Position | None = None) -> list[Lapse]:
        start = (after or Position(-1, ""))._asdict()
        with self.db.reading() as tx:
            found = rows.fetch(tx, SQL["lapses"], {"until": until, "limit": limit, **start})
        return [_lapse(row) for row in found]

    def claim_on(self, job_id: str) -> Lapse | None:
        with self.db.reading() as tx:
            row = rows.first(tx, SQL["claim_on"], {"id": job_id})
        return None if row is None else _lapse(row)

    def silent(
        self, before: Moment, now: Moment, limit: int, after: object | None = None
    ) -> SilentPage:
        start = after if isinstance(after, tuple) else ("", -1, "")
        own = dict(zip(("queue", "due_at", "id"), start, strict=True))
        own |= {"before": before, "now": now, "limit": limit}
        with self.db.reading() as tx:
            found = rows.fetch(tx, SQL["silent"], own)
        lapses = [_lapse(row[:-1]) for row in found]
        if len(found) < limit:
            return SilentPage(lapses)
        last = found[-1]
        return SilentPage(lapses, (last[1], last[-1], last[0]))

    def live_count(self) -> int | None:
        with self.db.reading() as tx:
            return int(tx.execute(SQL["live_count"]).get)

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict, bool]], now: Moment
    ) -> Mapping[int, Refused]:
        def reclaim(tx: apsw.Connection) -> Mapping[int, Refused]:
            ids = [lapse.id for lapse, _, _ in verdicts]
            seen = held_claims(tx, ids)
            refused: dict[int, Refused] = {}
            fallen: dict[str, Fallen] = {}
            repeated: list[int] = []
            for position, (lapse, verdict, keep) in enumerate(verdicts):
                claim = seen.get(lapse.id)
                if lapse.id in fallen:
                    repeated.append(position)
                elif claim is None:
                    refused[position] = _GONE
                elif not lapse.is_still_so(
                    claim.state,
                    claim.epoch,
                    claim.updated_at,
                    cancel_requested=claim.cancel_requested,
                ):
                    refused[position] = Refused("moved on", claim.shown_state(tx))
                else:
                    fallen[lapse.id] = Fallen(claim, lapse, verdict, keep)
            if fallen:
                self._reclaim_all(tx, list(fallen.values()), now)
            if repeated:
                seen = held_claims(tx, [ids[position] for position in repeated])
                for position in repeated:
                    moved = seen.get(ids[position])
                    refused[position] = (
                        Refused("moved on", moved.shown_state(tx)) if moved else _GONE
                    )
            return refused

        return self.db.write(reclaim)

    def expire(self, now: Moment, limit: int) -> int:
        with self.db.reading() as tx:  # usually there is none, and looking keeps nobody waiting
            if rows.first(tx, SQL["expired"], {"now": now, "limit": 1}) is None:
                return 0
        return self.db.write(lambda tx: expire(tx, now, limit))

    def next_lapse(self) -> Moment | None:
        with self.db.reading() as tx:
            found = [rows.first(tx, SQL[name]) for name in ("next_lapse", "next_expiry")]
        return min((row[0] for row in found if row and row[0] is not None), default=None)

    def _reclaim_all(self, tx: apsw.Connection, fallen: Sequence[Fallen], now: Moment) -> None:
        _record_all(tx, fallen, now)
        again: dict[tuple[bool, bool], list[int]] = defaultdict(list)
        for one in fallen:
            if one.verdict.verb is Verb.RECLAIM:
                again[one.verdict.strike, one.verdict.uses_attempt].append(one.claim.n)
        for (strike, uses_attempt), ns in again.items():
            counted = {"strike": int(strike), "uses_attempt": int(uses_attempt)}
            tx.execute(SQL["reclaim"], {"ns": rows.numbers(ns), "now": now, **counted})
        for one in fallen:
            if one.verdict.verb is not Verb.RECLAIM:
                state = State.FAILED if one.verdict.verb is Verb.GIVE_UP else State.CANCELLED
                ended = {"n": one.claim.n, "now": now, "state": state, "error": one.error}
                tx.execute(SQL["give_up"], ended)
        gone = [one.claim.n for one in fallen if one.error is not None and not one.keep]
        if gone:
            remove(tx, gone)
        for queue in {one.claim.queue for one in fallen}:
            self.db.tell_room(queue)
        for queue in {one.claim.queue for one in fallen if one.verdict.verb is Verb.RECLAIM}:
            self.db.tell(queue, 0)


def remove(tx: apsw.Connection, ns: Sequence[int]) -> None:
    """Finished jobs go at once; those with an id chosen by a client only from sight."""
    tx.execute(SQL["hide"], {"ns": rows.numbers(ns)})
    tx.execute(SQL["remove"], {"ns": rows.numbers(ns)})


def expire(tx: apsw.Connection, now: Moment, limit: int) -> int:
    """Cancel up to `limit` waiting jobs whose time has passed. How many."""
    return _cancel_expired(tx, rows.fetch(tx, SQL["expired"], {"now": now, "limit": limit}), now)


def expire_due(tx: apsw.Connection, queue: str, until: Moment, now: Moment) -> None:
    """Cancel jobs of a queue that could be handed out now, were they not too old: a page of them,
    the reclaimer does the rest."""
    own = {"queue": queue, "until": until, "now": now, "limit": EXPIRED_AT_ONCE}
    _cancel_expired(tx, rows.fetch(tx, SQL["expired_due"], own), now)


def _cancel_expired(tx: apsw.Connection, found: list[Any], now: Moment) -> int:
    if found:
        own = {"ns": rows.numbers([row[0] for row in found]), "now": now, "detail": EXPIRED}
        tx.execute(SQL["expire"], own)
        tx.execute(SQL["diagnose_expired"], own)
    return len(found)


def _lapse(row: Sequence[Any]) -> Lapse:
    """From the columns of `claims.sql: lapse_columns`."""
    return Lapse._make(
        (*row[:2], State(row[2]), *row[3:8], bool(row[8]), *row[9:14], bool(row[14]))
    )


def _record_all(tx: apsw.Connection, fallen: Sequence[Fallen], now: Moment) -> None:
    """A diagnostic for each, and the end of its attempt."""
    record(tx, [(one.claim.n, _diagnostic(one, now)) for one in fallen], now)
    ends = {"now": now, "outcome": "reclaimed"}
    tx.executemany(
        JOBS["keep_attempt"], [{**ends, "n": one.claim.n, "error": one.error} for one in fallen]
    )
    own = {"ns": rows.numbers([one.claim.n for one in fallen]), "kept": DIAGNOSTICS_KEPT}
    for [n] in rows.fetch(tx, SQL["crowded_attempts"], own):
        tx.execute(JOBS["trim_attempts"], {"n": n, "kept": DIAGNOSTICS_KEPT})


def _diagnostic(one: Fallen, now: Moment) -> Diagnostic:
    claim, verdict = one.claim, one.verdict
    facts = lapse_facts(one.lapse, verdict, now)
    at = to_datetime(now)
    return Diagnostic(at, verdict.code, verdict.detail, claim.attempt, claim.epoch, facts)
