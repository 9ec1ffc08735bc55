"""Workers' claims in PostgreSQL: taking, operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from oncue.core.fencing import GONE, Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lifecycle import TRANSITIONS, State, Verb
from oncue.core.moment import Moment, from_datetime
from oncue.core.operations import (
    DEFAULT_LIMITS,
    Had,
    OperationLimits,
    added,
    paged,
    put,
)
from oncue.core.queue import Queue
from oncue.core.sharing import Taker, in_order, share_out
from oncue.stores.postgresql import records, shards
from oncue.stores.postgresql.database import writing
from oncue.stores.postgresql.locks import shard_lock
from oncue.stores.postgresql.readying import QueueLook, ReadyQueue
from oncue.stores.postgresql.records import FiledRow, read_operation
from oncue.stores.postgresql.shards import LineHead, PgRange
from oncue.stores.postgresql.touches import PgTouches
from oncue.stores.postgresql.tx import Asked, PgTx

MOST_LOOKED_AT = 20_000  # due jobs of a queue, to find some that nobody else is about to take
_RANK = attrgetter("rank")


class PgClaims(PgTouches):
    """Implements the workers' side of `oncue.ports.claims.ClaimStore` up to the settlement."""

    def claim(
        self,
        queues: Sequence[Queue],
        takers: Sequence[Taker],
        now: Moment,
        *,
        nonce: str,
        again: bool = False,
    ) -> list[list[Claimed]]:
        if again and any(held := self._claimed_by(nonce, queues, len(takers), now)):
            return held
        return self.db.write(partial(self._claim, queues, takers, now, nonce), "raise")

    @writing
    def _claimed_by(
        self, tx: PgTx, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
    ) -> list[list[Claimed]]:
        """The jobs that a call took, by taker, as far as the claims hold. Their leases begin
        anew."""
        found = tx.rows("claims", "claimed_by", {"prefix": f"{nonce}/", "now": now})
        return self._handed_over(tx, queues, takers, found)

    def _claim(
        self, queues: Sequence[Queue], takers: Sequence[Taker], now: Moment, nonce: str, tx: PgTx
    ) -> list[list[Claimed]]:
        named = {queue.name: queue for queue in queues}
        names = sorted(named)  # one order of locks
        held, looks = self._look_locked(tx, names, now)
        most = sum(taker.limit for taker in takers)
        ready: dict[str, ReadyQueue] = {}
        for name in names:
            ranges = [one for one in held if one.queue == name]
            ready[name] = self._make_ready(tx, name, looks[name], most, now, now, ranges)
        if len(takers) == len(names) == 1 and not held:
            [of_queue] = ready.values()
            lines = _due(of_queue.lines, now)
            if len(lines) == 1 and of_queue.bucket is None:
                terms = of_queue.room, now, nonce
                return [self._take_first(tx, queues[0], takers[0], lines[0], *terms)]
        rooms = {name: ready[name].room for name in named}
        covered = {one.queue for one in held}

        def first(limit: int, reclaimed: bool) -> list[tuple[str, str]]:
            found: list[tuple[str, str]] = []
            for name in named:
                room = min(rooms[name], limit - len(found))
                ids = self._lock_due(
                    tx, name, ready[name].lines, room, now, reclaimed, name in covered
                )
                rooms[name] -= len(ids)
                found += [(name, job_id) for job_id in ids]
            return found

        shares = share_out(takers, first)
        spent: list[Asked] = []
        for name in names:
            count = sum(queue == name for share in shares for queue, _ in share)
            spent += self._spent(ready[name], count)
        return self._take(tx, named, takers, shares, now, nonce, spent)

    def _look_locked(
        self, tx: PgTx, names: Sequence[str], now: Moment
    ) -> tuple[list[PgRange], dict[str, QueueLook]]:
        """The open ranges of these queues and what each queue has. The locks of all shards in which
        jobs wait are shared, and ranges whose leases have ended are closed."""
        locks = self._locks_of((name, self._shards_of(name)) for name in names)
        ranges, looks = self._look(tx, names, now, locks)
        more = self._locks_of(
            (name, 1 + max((line.shard for line in look.lines), default=-1))
            for name, look in looks.items()
        )
        if not more <= locks:  # jobs wait in shards that their queue had before
            ranges, looks = self._look(tx, names, now, more - locks)
        lapsed = [one for one in ranges if one.is_open and one.lease_until <= now]
        for one in lapsed:
            shards.close(tx, one)
        if lapsed:  # and others may have been taken meanwhile
            ranges, looks = self._look(tx, names, now)
        return [one for one in ranges if one.is_open], looks

    def _locks_of(self, queues: Iterable[tuple[str, int]]) -> set[int]:
        """The locks of so many shards of these queues."""
        schema = self.db.address.schema
        return {
            shard_lock(schema, name, shard) for name, shards in queues for shard in range(shards)
        }

    def _lock_due(
        self,
        tx: PgTx,
        queue: str,
        found: Sequence[LineHead],
        limit: int,
        now: Moment,
        reclaimed: bool,
        covered: bool,
    ) -> list[str]:
        """Lock the first due jobs, reclaimed ones or the others. Jobs that another claim has
        locked are passed over."""
        ids: list[str] = []
        due = [line for line in _due(found, now) if line.is_reclaimed == reclaimed]
        for rank, of_rank in groupby(sorted(due, key=_RANK), _RANK):
            if len(ids) >= limit:
                break
            lines = list(of_rank)
            most = {"now": now, "limit": limit - len(ids)}
            if len(lines) == 1 and not covered:
                params = {**_beginning(queue, lines[0]), **most}
                ids += [row[0] for row in tx.rows("claims", "lock_due", params)]
            else:
                ids += self._lock_merged(tx, {"queue": queue, "rank": rank, **most}, lines)
        return ids

    def _lock_merged(self, tx: PgTx, place: dict[str, Any], lines: Sequence[LineHead]) -> list[str]:
        """Of several shards. Where many are locked by others, more are looked at."""
        look: int = place["limit"]
        floors = {
            "shards": [line.shard for line in lines],
            "floors": [line.due_at for line in lines],
            "floor_ids": [line.id for line in lines],
        }
        while True:
            params = {**place, **floors, "look": look}
            rows = tx.rows("claims", "lock_due_merged", params)
            ends = not rows or rows[0][1] < look or look >= MOST_LOOKED_AT
            if len(rows) >= place["limit"] or ends:
                return [row[0] for row in rows]
            look *= 4

    def _take(
        self,
        tx: PgTx,
        named: Mapping[str, Queue],
        takers: Sequence[Taker],
        shares: Sequence[Sequence[tuple[str, str]]],
        now: Moment,
        nonce: str,
        spent: Sequence[Asked],
    ) -> list[list[Claimed]]:
        """The jobs of these shares, claimed: the end of the transaction."""
        rows: list[tuple[Any, ...]] = []
        for place, (taker, share) in enumerate(zip(takers, shares, strict=True)):
            alone, text = len(share) == 1, f"{nonce}/{place}"
            for name, job_id in share:
                lease_ms, timeout = _terms(named[name], taker)
                rows.append((job_id, taker.worker, lease_ms, timeout, alone, text))
        if not rows:
            return [[] for _ in takers]
        names = ("ids", "workers", "leases", "timeouts", "alones", "nonces")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        found, *_ = tx.end(("claims", "take", {**columns, "now": now}), *spent)
        return self._handed_over(tx, list(named.values()), len(takers), found)

    def _take_first(
        self,
        tx: PgTx,
        queue: Queue,
        taker: Taker,
        line: LineHead,
        room: int,
        now: Moment,
        nonce: str,
    ) -> list[Claimed]:
        """The first jobs of the only line that has due ones, claimed for the only taker: as many as
        `share_out` gives it. One journey, with which the transaction ends."""
        most = min(room, taker.limit, taker.reclaimed_limit if line.is_reclaimed else taker.limit)
        if most <= 0:
            return []
        lease_ms, timeout = _terms(queue, taker)
        params = {
            **_beginning(queue.name, line),
            "now": now,
            "limit": most,
            "worker": taker.worker,
            "lease_ms": lease_ms,
            "timeout_seconds": timeout,
            "nonce": f"{nonce}/0",
        }
        [found] = tx.end(("claims", "take_first", params))
        [claims] = self._handed_over(tx, [queue], 1, found)
        return claims

    def _handed_over(
        self, tx: PgTx, queues: Sequence[Queue], takers: int, rows: Sequence[Sequence[Any]]
    ) -> list[list[Claimed]]:
        """Jobs that were claimed, by taker, in order; from `claims.sql: taken`."""
        ids = [row[0] for row in rows if row[-1]]  # others have no past, and so no operations
        operations: dict[str, list[Operation]] = {}
        for job_id, *step in tx.rows("jobs", "operations_of", {"ids": ids}) if ids else ():
            operations.setdefault(job_id, []).append(read_operation(step))
        held: list[list[Claimed]] = [[] for _ in range(takers)]
        for *row, nonce, _ in rows:
            steps = tuple(operations.get(row[0], ()))
            place = int(nonce.rpartition("/")[2])
            held[place].append(Claimed._make((*row, steps, None)))
        return [paged(in_order(claims, queues)) for claims in held]

    @writing
    def put_operation(
        self,
        tx: PgTx,
        job_id: str,
        epoch: int,
        operation: Operation,
        now: Moment,
        limits: OperationLimits = DEFAULT_LIMITS,
    ) -> Operation | Refused:
        one = records.visible(records.lock(tx, [job_id]), job_id)
        if one is None:
            return GONE
        record = one.record
        if refused := record.refuse(epoch, "operation", now):
            records.save(tx, [one])
            return refused
        known, count = self._known_operation(tx, job_id, operation.name)
        stored = put(known, operation, now, Had(count, record.result_bytes), limits)
        if isinstance(stored, str):
            return Refused(stored, record.state)
        if stored is not known:
            self._store_operation(tx, one, known, stored, count, now)
        return stored

    def _known_operation(self, tx: PgTx, job_id: str, name: str) -> tuple[Operation | None, int]:
        row = tx.run("jobs", "operation", {"id": job_id, "name": name}).fetchone()
        count = tx.run("jobs", "count_operations", {"id": job_id}).get
        return None if row is None else read_operation(row), count

    def _store_operation(
        self,
        tx: PgTx,
        one: FiledRow,
        known: Operation | None,
        stored: Operation,
        count: int,
        now: Moment,
    ) -> None:
        record = one.record
        record.strikes = 0 if stored.is_final else record.strikes
        record.result_bytes += added(known, stored)
        record.state = State(TRANSITIONS[record.state, Verb.START])
        record.updated_at = now
        params = {
            "id": record.id,
            "name": stored.name,
            "seq": count,
            "state": stored.state,
            "updated_at": from_datetime(stored.updated_at),
            "percent": stored.percent,
            "message": stored.message,
            "result": stored.result,
        }
        tx.run("jobs", "put_operation", params)
        records.save(tx, [one])


def _due(lines: Sequence[LineHead], now: Moment) -> list[LineHead]:
    return [line for line in lines if line.due_at <= now]


def _beginning(queue: str, line: LineHead) -> dict[str, Any]:
    """Where a line begins, for `claims.sql: first_due`."""
    floor = {"floor": line.due_at, "floor_id": line.id}
    return {"queue": queue, "shard": line.shard, "rank": line.rank, **floor}


def _terms(queue: Queue, taker: Taker) -> tuple[int, float | None]:
    """The length of the lease in milliseconds, and the timeout of the attempt in seconds."""
    timeout = queue.timeout_seconds
    # An array is of one type: a setting may be 30 as well as 2.5.
    return taker.lease_ms(queue), None if timeout is None else float(timeout)
