"""Operations of claimed jobs in SQLite."""

from __future__ import annotations

from dataclasses import asdict

import apsw

from oncue.core import operations
from oncue.core.job import Operation
from oncue.core.moment import Moment
from oncue.ports.claims import Refused
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import held_claims, refuse
from oncue.stores.sqlite.statements import load

SQL = load("claims")


class Operations:
    db: Database

    def put_operation(
        self, job_id: str, epoch: int, operation: Operation, now: Moment
    ) -> Operation | Refused:
        def put(tx: apsw.Connection) -> Operation | Refused:
            claim = held_claims(tx, [job_id]).get(job_id)
            if claim is None or not claim.is_current(epoch):
                return refuse(tx, claim, epoch, "operation", now)
            known = _operation(tx, claim.n, operation.name)
            stored = operations.put(known, operation, now)
            if stored is None:
                return Refused("different result", claim.state)
            if stored is not known:
                params = {"n": claim.n, "now": now, **asdict(stored)}
                tx.execute(SQL["put_operation"], params)
                tx.execute(SQL["operation_touch"], {**params, "succeeded": stored.is_final})
            return stored

        return self.db.write(put)


def _operation(tx: apsw.Connection, n: int, name: str) -> Operation | None:
    row = rows.first(tx, SQL["operation"], {"n": n, "name": name})
    return None if row is None else rows.operation(row)
