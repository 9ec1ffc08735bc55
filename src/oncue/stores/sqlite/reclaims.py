"""Reclaiming and expiry in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from oncue.core import fencing
from oncue.core.fencing import GONE, Refused
from oncue.core.job import Lapse
from oncue.core.moment import Moment
from oncue.core.retry import EXPIRED, Verdict
from oncue.ports.claims import ClaimFilter, ClaimPage
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import Endings
from oncue.stores.sqlite.statements import load

SQL = load("claims")
EXPIRED_AT_ONCE = 500
_lapse = rows.reader(Lapse)


class Reclaims:
    db: Database

    def live_claims(self, wanted: ClaimFilter, after: object | None, limit: int) -> ClaimPage:
        since, until = wanted.heard_outside or (None, None)
        params: dict[str, Any] = {"lapsed_by": wanted.lapsed_by, "since": since, "until": until}
        place = after if isinstance(after, tuple) else (-1, "", -1, "")
        params |= dict(zip(("reclaim_at", "queue", "due_at", "id"), place, strict=True))
        params["limit"] = limit
        name = "live_claims" if wanted.lapsed_by is None else "lapsed_claims"
        if wanted.job_id is not None:
            name, params["id"] = "live_claim", wanted.job_id
        with self.db.reading() as tx:
            found = rows.fetch(tx, SQL[name], params)
        lapses = [_lapse(row[:-2]) for row in found]
        if len(found) < limit or wanted.job_id is not None:
            return ClaimPage(lapses)
        id, queue, *_, reclaim_at, due_at = found[-1]
        return ClaimPage(lapses, (reclaim_at, queue, due_at, id))

    def live_count(self) -> int | None:
        with self.db.reading() as tx:
            return int(tx.execute(SQL["live_count"]).get)

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict, bool]], now: Moment
    ) -> Mapping[int, Refused]:
        def reclaim(tx: apsw.Connection) -> Mapping[int, Refused]:
            refused: dict[int, Refused] = {}
            endings = Endings(self.db, tx, [lapse.id for lapse, _, _ in verdicts], now)
            for position, (lapse, verdict, keep) in enumerate(verdicts):
                held = endings.held(lapse.id)
                if held is None:
                    refused[position] = GONE
                    continue
                ending = fencing.reclaim(held, lapse, verdict, now)
                if isinstance(ending, Refused):
                    refused[position] = ending
                else:
                    endings.add(held, ending, keep=keep)
            endings.apply()
            return refused

        return self.db.write(reclaim)

    def expire(self, now: Moment, limit: int) -> int:
        with self.db.reading() as tx:  # usually there is none, and looking keeps nobody waiting
            if rows.first(tx, SQL["expired"], {"now": now, "limit": 1}) is None:
                return 0
        return self.db.write(lambda tx: expire(tx, now, limit))


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
