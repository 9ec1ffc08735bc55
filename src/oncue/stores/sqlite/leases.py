"""Running leases in SQLite: when they were last judged, and their move after a gap."""

from __future__ import annotations

import json

import apsw

from oncue.core.missed import JUMP_MS, Judge, Look, Missed
from oncue.core.moment import Moment
from oncue.core.putoff import latest_return
from oncue.core.rate import OVERTAKING_MS
from oncue.ports.claims import Leases
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.queues import read_queues
from oncue.stores.sqlite.statements import load

SQL = load("leases")
CLAIMS = load("claims")


class LeaseJudging:
    db: Database

    def leases(self) -> Leases:
        with self.db.reading() as tx:
            [running] = rows.first(tx, SQL["running"])
            ends = [rows.first(tx, CLAIMS[name]) for name in ("next_lapse", "next_expiry")]
            next_lapse = min((row[0] for row in ends if row and row[0] is not None), default=None)
            return Leases(bool(running), _last_look(tx), next_lapse)

    def has_leases_astray(self, now: Moment) -> bool:
        with self.db.reading() as tx:
            return bool(rows.first(tx, SQL["astray"], {"now": now, "jump": JUMP_MS})[0])

    def judge_leases(self, judge: Judge) -> Missed | None:
        def apply(tx: apsw.Connection) -> Missed | None:
            judged = judge(_last_look(tx))
            if judged is None:
                return None
            look, missed = judged
            tx.execute(SQL["record_look"], {"look": json.dumps(look).encode()})
            if missed is not None:
                self._move_leases(tx, missed, look.wall)
            return missed

        # If this is lost with the power, an older record is left. The machine is started again
        # then, and claims are judged by the wall clock alone.
        return self.db.write(apply, synced=False)

    def _move_leases(self, tx: apsw.Connection, missed: Missed, now: Moment) -> None:
        params = {"now": now, "jump": JUMP_MS}
        tx.execute(SQL["move_claims"], {**params, "missed": missed.claims_ms})
        for queue, until in rows.fetch(tx, SQL["shortened_ranges"], params):
            self.db.tell(queue, until)
        tx.execute(SQL["move_ranges"], {**params, "missed": missed.ranges_ms})
        tx.execute(SQL["begin_buckets_again"], {"now": now, "overtaking": OVERTAKING_MS})
        for queue in read_queues(tx):
            latest = latest_return(queue.retry, now)
            tx.execute(
                SQL["move_returns"], {"queue": queue.name, "latest": latest, "jump": JUMP_MS}
            )
            if tx.changes():
                self.db.tell(queue.name, latest)


def _last_look(tx: apsw.Connection) -> Look | None:
    row = rows.first(tx, SQL["last_look"])
    return None if row is None else Look._make(json.loads(row[0]))
