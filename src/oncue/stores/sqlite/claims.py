"""Workers' claims in SQLite: taking, signs of life, operations, settling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import compress, groupby
from typing import Any, NamedTuple

from oncue.core import fencing, operations
from oncue.core.fencing import GONE, Refused, Settlement
from oncue.core.job import Claimed, Operation
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import Touch, Touched
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.fencing import Endings, end_of, held_claims, refuse
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE, first_jobs
from oncue.stores.sqlite.readying import Ready, make_ready, worth_a_claim
from oncue.stores.sqlite.settled import remember_settled, repeated

SQL = rows.load("claims")
_PAYLOAD, _LEASE = Claimed._fields.index("payload"), Claimed._fields.index("lease_until")
# `claimed_columns` has n and trail in the place of the operations.
_N = Claimed._fields.index("operations")
_TRAIL, _REST = _N + 1, _N + 2

_Touched = defaultdict[tuple[Any, ...], list[int]]
"""By the lease and what was told: the rows of the jobs."""


class SqliteClaims(StorePart):
    def claim(
        self,
        queues: Sequence[Queue],
        worker: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float | None = None,
        reclaimed_limit: int = 1,
    ) -> list[Claimed]:
        def claim(tx: rows.Tx) -> list[Claimed]:
            named = {queue.name: queue for queue in queues}.values()  # each once
            found = [(q, make_ready(self.db, tx, q.name, limit, now, now)) for q in named]
            taking = _Taking(tx, worker, now, lease_seconds)
            chosen = taking.choose(found, min(limit, reclaimed_limit), reclaimed=True)
            chosen = chosen or taking.choose(found, limit, reclaimed=False)
            alone = sum(len(due) for _, due in chosen) == 1
            taken: list[Claimed] = []
            for queue, due in chosen:
                taken += taking.take(queue, due, alone=alone)
                self.db.expected[queue.name] = 0
            return taken

        return self.db.write(claim) if worth_a_claim(self.db, queues, now, now) else []

    @writing
    def touch(self, tx: rows.Tx, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        held = held_claims(tx, [t.id for t in touches])
        answers: list[Touched | Refused] = []
        groups: _Touched = defaultdict(list)
        heard: set[str] = set()
        for one in touches:
            if one.id in heard:  # again in the same call: what it said before comes first
                _touch_all(tx, groups, now)
                groups.clear()
                heard.clear()
                held |= held_claims(tx, [one.id])
            claim = held.get(one.id)
            if claim is None or not claim.is_current(one.epoch):
                write = "heartbeat" if one.start else None
                answers.append(refuse(tx, claim, one.epoch, write, now))
                continue
            lease = claim.lease.touched(now, one.lease_seconds, by_worker=one.start)
            groups[*lease, one.message, one.percent, one.start].append(claim.n)
            heard.add(one.id)
            answers.append(Touched(lease.until, claim.cancel_requested))
        _touch_all(tx, groups, now)
        return answers

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        found: dict[int, Refused] = {}
        with self.db.reading() as tx:
            held = held_claims(tx, [job_id for job_id, _ in claims])
            for position, (job_id, epoch) in enumerate(claims):
                claim = held.get(job_id)
                if claim is None or not claim.is_current(epoch):
                    found[position] = refuse(tx, claim, epoch, None, 0)
                elif claim.cancel_requested:
                    found[position] = Refused("cancel requested", claim.state)
        return found

    @writing
    def put_operation(
        self, tx: rows.Tx, job_id: str, epoch: int, operation: Operation, now: Moment
    ) -> Operation | Refused:
        claim = held_claims(tx, [job_id]).get(job_id)
        if claim is None or not claim.is_current(epoch):
            return refuse(tx, claim, epoch, "operation", now)
        row = rows.first(tx, SQL["operation"], {"n": claim.n, "name": operation.name})
        known = None if row is None else rows.operation(row)
        stored = operations.put(known, operation, now)
        if stored is None:
            return Refused("different result", claim.state)
        if stored is not known:
            params = {"n": claim.n, "now": now, **asdict(stored)}
            tx.execute(SQL["put_operation"], params)
            tx.execute(SQL["operation_touch"], {**params, "succeeded": stored.is_final})
        return stored

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Mapping[int, Refused]:
        def settle(tx: rows.Tx) -> dict[int, Refused]:
            refused: dict[int, Refused] = {}
            gone: list[Settlement] = []
            for kind, group in groupby(enumerate(settlements), key=_kind):
                items = list(group)
                if kind.verb is Verb.HAND_OVER:
                    refused.update(_hand_over_all(tx, items, now))
                elif not (kind.verb and self._complete_all(tx, items, kind, now)):
                    refused.update(self._settle_each(tx, items, now, gone))
                elif not kind.keep:
                    gone += [one for _, one in items]
            remember_settled(tx, gone, now)
            return refused

        refused = self.db.write(settle)
        gone = [at for at, why in refused.items() if why == GONE and settlements[at].write]
        if gone:
            # What settled them is stored by now, so it is sought without the write lock.
            with self.db.reading() as tx:
                again = repeated(tx, [settlements[position] for position in gone], now)
            for position in compress(gone, again):
                del refused[position]
        return refused

    def _complete_all(
        self, tx: rows.Tx, items: list[tuple[int, Settlement]], kind: _Kind, now: Moment
    ) -> bool:
        """Complete the whole group at once. False: some were not as expected, and nothing was done;
        each is to be settled by itself."""
        params = {"ids": rows.texts([one.id for _, one in items]), "epoch": kind.epoch, "now": now}
        # Asked before: afterwards the jobs may be gone.
        bounded = rows.fetch(tx, SQL["queues_of"], params) if self.db.bounded_queues else []
        try:
            with tx:  # a savepoint
                if kind.keep and any(one.result is not None for _, one in items):
                    before = tx.total_changes()
                    results = [(now, one.result, one.id, one.epoch) for _, one in items]
                    tx.executemany(SQL["complete_each"], results)
                    done = tx.total_changes() - before
                else:
                    tx.execute(SQL["complete_all" if kind.keep else "complete_all_gone"], params)
                    done = tx.changes()  # not the total: that counts what the trigger deletes, too
                if done != len(items):
                    raise _NotAllAsExpected
        except _NotAllAsExpected:
            return False
        for [queue] in bounded:
            self.db.tell_room(queue)
        return True

    def _settle_each(
        self,
        tx: rows.Tx,
        items: Sequence[tuple[int, Settlement]],
        now: Moment,
        gone: list[Settlement],
    ) -> dict[int, Refused]:
        """Settle them one by one; those whose job goes with it are added to `gone`."""
        endings = Endings(self.db, tx, [one.id for _, one in items], now)
        refused: dict[int, Refused] = {}
        for position, one in items:
            held = endings.held(one.id)
            if held is None:
                refused[position] = GONE
            elif held.is_current(one.epoch):
                ending = fencing.settle(held, one, now)
                if isinstance(ending, Refused):
                    refused[position] = ending
                    continue
                endings.add(held, ending, keep=one.keep)
                if not one.keep:
                    gone.append(one)
            else:
                write, end = one.write, end_of(tx, held, one.epoch)
                assert write is not None  # a hand-over ends nothing
                if end is None or end.write != write:
                    refused[position] = refuse(tx, held, one.epoch, write.kind, now)
        endings.apply()
        return refused


def _touch_all(tx: rows.Tx, groups: _Touched, now: Moment) -> None:
    for (until, length_ms, asked, message, percent, start), ns in groups.items():
        lease = {"lease_until": until, "lease_ms": length_ms, "lease_asked": asked}
        params = {**lease, "message": message, "percent": percent, "start": start}
        tx.execute(SQL["touch"], {**params, "ns": rows.numbers(ns), "now": now})


class _NotAllAsExpected(Exception):
    """Undoes a bulk write that met other rows than expected."""


class _Kind(NamedTuple):
    """Settlements that can be applied together share all of this."""

    verb: Verb | None
    """None: each is settled by itself."""
    epoch: int
    keep: bool


def _kind(item: tuple[int, Settlement]) -> _Kind:
    one = item[1]
    if one.verb is Verb.HAND_OVER:
        return _Kind(Verb.HAND_OVER, 0, keep=True)
    in_bulk = one.verb is Verb.COMPLETE and one.updated_at is None
    return _Kind(Verb.COMPLETE if in_bulk else None, one.epoch, one.keep)


def _hand_over_all(
    tx: rows.Tx, items: list[tuple[int, Settlement]], now: Moment
) -> dict[int, Refused]:
    refused: dict[int, Refused] = {}
    found = held_claims(tx, [one.id for _, one in items])
    ns = []
    for position, one in items:
        held = found.get(one.id)
        if held is None or not held.is_current(one.epoch):
            refused[position] = refuse(tx, held, one.epoch, None, now)
        elif fencing.hand_over(held, now) != held:
            ns.append(held.n)
    if ns:
        tx.execute(SQL["hand_over"], {"ns": rows.numbers(ns), "now": now})
    return refused


class _Taking(NamedTuple):
    """What one claim takes."""

    tx: rows.Tx
    worker: str
    now: Moment
    lease_seconds: float | None

    def choose(
        self, found: Sequence[tuple[Queue, Ready]], limit: int, *, reclaimed: bool
    ) -> list[tuple[Queue, list[Any]]]:
        """The first due jobs of each queue, as far as it has room for them: reclaimed work, or what
        else waits."""
        chosen: list[tuple[Queue, list[Any]]] = []
        size = 0
        for queue, ready in found:
            lines = [line for line in ready.lines if (line < FIRST_WAITING_LINE) is reclaimed]
            most = min(limit, ready.room.most)
            if not lines or most <= 0 or size >= rows.BATCH_BYTES:
                continue
            seconds = queue.lease_seconds if self.lease_seconds is None else self.lease_seconds
            lease_until = self.now + round(seconds * 1000)
            params = {"queue": queue.name, "now": self.now, "lease_until": lease_until}
            statement = SQL["due"]
            if ready.held is not None:
                statement = SQL["due_uncovered"]
                params = ready.held._asdict() | params  # the lease is that of the new claims
            due, _ = first_jobs(self.tx, statement, params, lines, most, _PAYLOAD)
            if due:
                ready.spend(self.tx, queue.name, len(due))
                chosen.append((queue, due))
                limit -= len(due)
                size += sum([len(row[_PAYLOAD]) for row in due])
        return chosen

    def take(self, queue: Queue, due: Sequence[Any], *, alone: bool) -> list[Claimed]:
        lease = {"lease_until": due[0][_LEASE], "timeout_seconds": queue.timeout_seconds}
        ns = rows.numbers([row[_N] for row in due])
        params = {"ns": ns, "worker": self.worker, "now": self.now, "alone": alone, **lease}
        self.tx.execute(SQL["claim"], params)
        done: dict[int, list[Operation]] = defaultdict(list)
        if any(row[_TRAIL] for row in due):
            for n, *row in rows.fetch(self.tx, SQL["operations_of"], params):
                done[n].append(rows.operation(row))
        return [
            Claimed._make((*row[:_N], tuple(done.get(row[_N], ())), *row[_REST:])) for row in due
        ]
