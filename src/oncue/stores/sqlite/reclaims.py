"""Reclaiming and expiry in SQLite; when leases were last judged, and their move after a gap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from oncue.core import fencing
from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.fencing import GONE, Refused
from oncue.core.job import Lapse
from oncue.core.missed import JUMP_MS, Judge, Look, Missed
from oncue.core.moment import Moment
from oncue.core.putoff import latest_return
from oncue.core.rate import OVERTAKING_MS
from oncue.core.retry import EXPIRED, Verdict
from oncue.ports.claims import ClaimFilter, ClaimPage, Leases
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.fencing import Endings
from oncue.stores.sqlite.queues import read_queues
from oncue.stores.sqlite.settings import queue_settings

SQL = rows.load("claims")
LEASES = rows.load("leases")
EXPIRED_AT_ONCE = 500
_lapse = rows.reader(Lapse)
_PLACE = (int, str, int, str)


class SqliteReclaims(StorePart):
    def live_claims(self, wanted: ClaimFilter, after: Cursor | None, limit: int) -> ClaimPage:
        since, until = wanted.heard_outside or (None, None)
        params: dict[str, Any] = {"lapsed_by": wanted.lapsed_by, "since": since, "until": until}
        place = (-1, "", -1, "") if after is None else place_at(after, _PLACE)
        params |= dict(zip(("reclaim_at", "queue", "due_at", "id"), place, strict=True))
        params["limit"] = limit
        if wanted.job_id is not None:
            name, params["id"] = "live_claim", wanted.job_id
            reading = worker_ranges.reading(self.db, "around", ids=rows.sought([wanted.job_id]))
        elif wanted.lapsed_by is not None:
            name = "lapsed_claims"
            reading = worker_ranges.reading(self.db, "lapsed", now=wanted.lapsed_by)
        else:
            name, reading = "live_claims", worker_ranges.reading(self.db, queue=None)
        with reading as tx:
            found = rows.fetch(tx, SQL[name], params)
        lapses = [_lapse(row[:-2]) for row in found]
        if len(found) < limit or wanted.job_id is not None:
            return ClaimPage(lapses)
        id, queue, *_, reclaim_at, due_at = found[-1]
        # One that was handed over may never lapse; that moment matters only among those that do.
        return ClaimPage(lapses, cursor_at((reclaim_at or 0, queue, due_at, id)))

    def live_count(self) -> int | None:
        with worker_ranges.reading(self.db, queue=None) as tx:
            return int(tx.execute(SQL["live_count"]).get)

    @writing
    def reclaim(
        self, tx: rows.Tx, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> Mapping[int, Refused]:
        refused: dict[int, Refused] = {}
        endings = Endings(self.db, tx, [lapse.id for lapse, _ in verdicts], now)
        known = queue_settings(self.db, tx)
        for position, (lapse, verdict) in enumerate(verdicts):
            held = endings.held(lapse.id)
            if held is None:
                refused[position] = GONE
                continue
            ending = fencing.reclaim(held, lapse, verdict, now)
            if isinstance(ending, Refused):
                refused[position] = ending
            else:
                endings.add(held, ending, keep=held.queue not in known.without_history)
        endings.apply()
        return refused

    def expire(self, now: Moment, limit: int) -> int:
        with self.db.reading() as tx:  # usually there is none, and looking blocks no writer
            if rows.first(tx, SQL["expired"], {"now": now, "limit": 1}) is None:
                return 0
        params = {"now": now, "limit": limit}
        return self.db.write(
            lambda tx: _cancel_expired(tx, rows.fetch(tx, SQL["expired"], params), now)
        )

    def leases(self) -> Leases:
        with self.db.reading() as tx:
            [running] = rows.first(tx, LEASES["running"])
            found = [rows.first(tx, SQL[name]) for name in ("next_lapse", "next_expiry")]
            ends = [worker_ranges.next_lapse(tx), *(row[0] for row in found if row)]
            next_lapse = min((end for end in ends if end is not None), default=None)
            return Leases(bool(running), _last_look(tx), next_lapse)

    def has_leases_astray(self, now: Moment) -> bool:
        with self.db.reading() as tx:
            return bool(rows.first(tx, LEASES["astray"], {"now": now, "jump": JUMP_MS})[0])

    def judge_leases(self, judge: Judge) -> Missed | None:
        def apply(tx: rows.Tx) -> Missed | None:
            judged = judge(_last_look(tx))
            if judged is None:
                return None
            look, missed = judged
            tx.execute(LEASES["record_look"], {"look": json.dumps(look).encode()})
            if missed is not None:
                self._move_leases(tx, missed, look.wall)
            return missed

        # If a power cut loses this, an older record is left. The machine has been started again by
        # then, and claims are judged by the wall clock alone.
        return self.db.write(apply, synced=False)

    def _move_leases(self, tx: rows.Tx, missed: Missed, now: Moment) -> None:
        params = {"now": now, "jump": JUMP_MS}
        tx.execute(LEASES["move_claims"], {**params, "missed": missed.claims_ms})
        for queue, until in rows.fetch(tx, LEASES["shortened_ranges"], params):
            self.db.tell(queue, until)
        moved = {"missed": missed.ranges_ms, "missed_by_claims": missed.claims_ms}
        tx.execute(LEASES["move_ranges"], {**params, **moved})
        tx.execute(LEASES["begin_buckets_again"], {"now": now, "overtaking": OVERTAKING_MS})
        for queue in read_queues(tx):
            latest = latest_return(queue.retry, now)
            tx.execute(LEASES["move_returns"], {**params, "queue": queue.name, "latest": latest})
            if tx.changes():
                self.db.tell(queue.name, latest)


def expire_due(tx: rows.Tx, queue: str, until: Moment, now: Moment) -> None:
    """Cancel jobs of a queue that could be handed out now, were they not too old: a page of them,
    the reclaimer does the rest."""
    params = {"queue": queue, "until": until, "now": now, "limit": EXPIRED_AT_ONCE}
    _cancel_expired(tx, rows.fetch(tx, SQL["expired_due"], params), now)


def _cancel_expired(tx: rows.Tx, found: list[Any], now: Moment) -> int:
    if found:
        params = {"ns": rows.numbers([row[0] for row in found]), "now": now, "detail": EXPIRED}
        tx.execute(SQL["expire"], params)
        tx.execute(SQL["diagnose_expired"], params)
    return len(found)


def _last_look(tx: rows.Tx) -> Look | None:
    row = rows.first(tx, LEASES["last_look"])
    return None if row is None else Look._make(json.loads(row[0]))
