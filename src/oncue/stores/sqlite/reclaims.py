"""Reclaiming and expiry in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from oncue.core.job import Lapse, Position
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.retry import Verdict, lapse_facts
from oncue.ports.claims import Refused, SilentPage
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import Held, diagnose, held_claims, keep_attempt
from oncue.stores.sqlite.statements import load

SQL = load("claims")
EXPIRED_AT_ONCE = 500


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
            seen = held_claims(tx, [lapse.id for lapse, _, _ in verdicts])
            refused: dict[int, Refused] = {}
            for position, (lapse, verdict, keep) in enumerate(verdicts):
                claim = seen.get(lapse.id)
                lost_race = _lost_race(claim, lapse)
                if lost_race is not None:
                    refused[position] = lost_race
                elif claim is not None:
                    self._reclaim_one(tx, claim, lapse, verdict, keep, now)
                    del seen[lapse.id]
                    seen.update(held_claims(tx, [lapse.id]))
            return refused

        return self.db.write(reclaim)

    def expire(self, now: Moment, limit: int) -> int:
        return self.db.write(lambda tx: expire(tx, now, limit))

    def next_lapse(self) -> Moment | None:
        with self.db.reading() as tx:
            found = [rows.first(tx, SQL[name]) for name in ("next_lapse", "next_expiry")]
        return min((row[0] for row in found if row and row[0] is not None), default=None)

    def _reclaim_one(
        self,
        tx: apsw.Connection,
        claim: Held,
        lapse: Lapse,
        verdict: Verdict,
        keep: bool,
        now: Moment,
    ) -> None:
        own = {"n": claim.n, "now": now}
        self.db.tell_room(claim.queue)
        diagnose(tx, claim, verdict.code, verdict.detail, lapse_facts(lapse, verdict, now), now)
        error = None if verdict.verb is Verb.RECLAIM else verdict.detail
        keep_attempt(tx, {**own, "outcome": "reclaimed", "error": error})
        if verdict.verb is Verb.RECLAIM:
            tx.execute(SQL["reclaim"], own)
            self.db.tell(claim.queue, 0)
            return
        state = State.FAILED if verdict.verb is Verb.GIVE_UP else State.CANCELLED
        tx.execute(SQL["give_up"], {**own, "state": state, "error": error})
        if not keep:
            remove(tx, [claim.n])


def remove(tx: apsw.Connection, ns: Sequence[int]) -> None:
    """Finished jobs go at once; those with an id chosen by a client only from sight."""
    tx.execute(SQL["hide"], {"ns": rows.numbers(ns)})
    tx.execute(SQL["remove"], {"ns": rows.numbers(ns)})


def expire(tx: apsw.Connection, now: Moment, limit: int) -> int:
    """Cancel up to `limit` waiting jobs whose time has passed. How many."""
    return _cancel_expired(tx, rows.fetch(tx, SQL["expired"], {"now": now, "limit": limit}), now)


def expire_due(tx: apsw.Connection, queue: str, now: Moment) -> None:
    """Cancel due jobs of a queue that may no longer be handed out: a page of them, the reclaimer
    does the rest."""
    own = {"queue": queue, "now": now, "limit": EXPIRED_AT_ONCE}
    _cancel_expired(tx, rows.fetch(tx, SQL["expired_due"], own), now)


def _cancel_expired(tx: apsw.Connection, found: list[Any], now: Moment) -> int:
    if found:
        detail = "Expired: it was not taken in time."
        own = {"ns": rows.numbers([row[0] for row in found]), "now": now, "detail": detail}
        tx.execute(SQL["expire"], own)
        tx.execute(SQL["diagnose_expired"], own)
    return len(found)


def _lapse(row: Sequence[Any]) -> Lapse:
    """From the columns of `claims.sql: lapse_columns`."""
    return Lapse._make((*row[:2], State(row[2]), *row[3:8], bool(row[8]), *row[9:]))


def _lost_race(claim: Held | None, lapse: Lapse) -> Refused | None:
    """Why the claim is no longer as the reclaimer saw it."""
    if claim is None:
        return Refused("unknown", None)
    as_seen = (
        claim.is_current(lapse.epoch)
        and (claim.state, claim.updated_at) == (lapse.state, lapse.updated_at)
        and claim.cancel_requested == lapse.cancel_requested
    )
    return None if as_seen else Refused("moved on", claim.state)
