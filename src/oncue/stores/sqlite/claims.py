"""Workers' claims in SQLite: taking, signs of life, operations, settling."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from oncue.core import fencing, operations
from oncue.core.fencing import GONE, Refused, Settlement, state_after
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.operations import DEFAULT_LIMITS, Had, OperationLimits, OperationPages
from oncue.core.queue import Queue
from oncue.core.sharing import Taker, in_order, share_out
from oncue.ports.claims import Settled
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database, StorePart, writing
from oncue.stores.sqlite.fencing import Endings, end_of, held_claims, refuse
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE, first_jobs
from oncue.stores.sqlite.readying import Ready, make_ready, worth_a_claim
from oncue.stores.sqlite.settings import KnownQueues, queue_settings
from oncue.stores.sqlite.settled import Departed, outcomes_of, remember_settled

SQL = rows.load("claims")
_PAYLOAD = Claimed._fields.index("payload")
_QUEUE = itemgetter(Claimed._fields.index("queue"))
# `claimed_columns` has n and trail in the place of the operations and their cursor.
_N = Claimed._fields.index("operations")
_TRAIL, _REST = _N + 1, _N + 2

_Touched = defaultdict[tuple[Any, ...], list[int]]
"""By the lease and what was told: the rows of the jobs."""
_Item = tuple[int, Settlement]
"""A settlement and its position in the call."""


class SqliteClaims(StorePart):
    def claim(
        self,
        queues: Sequence[Queue],
        takers: Sequence[Taker],
        now: Moment,
        *,
        nonce: str,
        again: bool = False,
    ) -> list[list[Claimed]]:
        if not again and not worth_a_claim(self.db, queues, now, now):
            return [[] for _ in takers]

        def claim(tx: rows.Tx) -> list[list[Claimed]]:
            if again and any(held := _claimed_by(tx, nonce, queues, len(takers), now)):
                return held
            most = sum([taker.limit for taker in takers])
            named = {queue.name: queue for queue in queues}
            ready = {name: make_ready(self.db, tx, name, most, now, now) for name in named}
            taking = _Taking(tx, now, named, ready, takers[0].lease_seconds)
            shares = share_out(takers, taking.first)
            taken = [
                taking.take(taker, due, f"{nonce}/{place}") if due else []
                for place, (taker, due) in enumerate(zip(takers, shares, strict=True))
            ]
            self.db.expected.update(dict.fromkeys(taking.spend(), 0))
            return taken

        synced = not all(taker.is_near for taker in takers)
        return self.db.write(claim, synced=synced) if takers else []

    @writing
    def touch(self, tx: rows.Tx, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        held, known = held_claims(tx, [t.id for t in touches]), queue_settings(self.db, tx)
        answers: list[Touched | Refused] = []
        groups: _Touched = defaultdict(list)
        heard: set[str] = set()
        for one in touches:
            if one.id in heard:  # again in the same call: what it said before comes first
                _touch_all(tx, groups, now)
                groups.clear()
                held |= held_claims(tx, list(heard))
                heard.clear()
            claim = held.get(one.id)
            if claim is None or not claim.is_current(one.epoch):
                write = "heartbeat" if one.start else None
                answers.append(refuse(tx, claim, one.epoch, write, now))
                continue
            seconds = one.lease_seconds
            if seconds is None and one.renew:
                seconds = known.of(claim.queue).lease_seconds
            lease = claim.lease.touched(now, seconds, by_worker=one.start)
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
        self,
        tx: rows.Tx,
        job_id: str,
        epoch: int,
        operation: Operation,
        now: Moment,
        limits: OperationLimits = DEFAULT_LIMITS,
    ) -> Operation | Refused:
        claim = held_claims(tx, [job_id]).get(job_id)
        if claim is None or not claim.is_current(epoch):
            return refuse(tx, claim, epoch, "operation", now)
        row = rows.first(tx, SQL["operation"], {"n": claim.n, "name": operation.name})
        known = None if row is None else rows.operation(row)
        had = Had._make(rows.first(tx, SQL["had_operations"], {"n": claim.n}))
        stored = operations.put(known, operation, now, had, limits)
        if isinstance(stored, str):
            return Refused(stored, claim.state)
        if stored is not known:
            params = {"n": claim.n, "seq": had.operations, "now": now, **asdict(stored)}
            tx.execute(SQL["put_operation"], params)
            tx.execute(SQL["operation_touch"], {**params, "succeeded": stored.is_final})
        return stored

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        refused, states = self.db.write(lambda tx: self._settle(tx, settlements, now))
        gone = [at for at, why in refused.items() if why == GONE and settlements[at].write]
        if gone:
            # An earlier settlement is stored by now, so it is sought without the write lock.
            with self.db.reading() as tx:
                outcomes = outcomes_of(tx, [settlements[position] for position in gone], now)
            for position, outcome in zip(gone, outcomes, strict=True):
                if outcome is not None:
                    del refused[position]
                    if settlements[position].tells_state:
                        states[position] = state_after(outcome)
        return Settled(refused, states)

    def _settle(
        self, tx: rows.Tx, settlements: Sequence[Settlement], now: Moment
    ) -> tuple[dict[int, Refused], dict[int, State]]:
        refused: dict[int, Refused] = {}
        settling = _Settling(self.db, tx, queue_settings(self.db, tx), now, refused, {}, [])
        for verb, group in groupby(enumerate(settlements), key=_kind):
            items = list(group)
            if verb is Verb.HAND_OVER:
                refused.update(_hand_over_all(tx, items, now))
            elif not (verb and settling.complete_all(items)):
                settling.settle_each(items)
        remember_settled(tx, settling.gone, now)
        return refused, settling.states


class _Settling(NamedTuple):
    """What one call settles."""

    db: Database
    tx: rows.Tx
    settings: KnownQueues
    now: Moment
    refused: dict[int, Refused]
    states: dict[int, State]
    gone: list[Departed]
    """Those whose queue keeps no history."""

    def complete_all(self, items: Sequence[_Item]) -> bool:
        """Complete the whole group at once. False: some were not as expected, and nothing was done;
        each is to be settled by itself."""
        tx = self.tx
        # Only where some queue keeps no history it matters which one it is: then the group is to be
        # of one queue, as it is when a worker settles it.
        queue = None
        if self.settings.without_history:
            queue = rows.first(tx, SQL["queue_of"], {"id": items[0][1].id})
            if queue is None:
                return False
            [queue] = queue
        keep = queue not in self.settings.without_history
        bounded = []
        if self.db.bounded_queues:  # asked before: afterwards the jobs may be gone
            ids = rows.texts([one.id for _, one in items])
            bounded = rows.fetch(tx, SQL["queues_of"], {"ids": ids})
        try:
            with tx:  # a savepoint
                if self._complete(items, queue, keep=keep) != len(items):
                    raise _NotAllAsExpected
        except _NotAllAsExpected:
            return False
        for [name] in bounded:
            self.db.tell_room(name)
        if queue is not None and not keep:
            lease_seconds = self.settings.of(queue).lease_seconds
            self.gone.append(Departed([one for _, one in items], "succeeded", lease_seconds))
        return True

    def _complete(self, items: Sequence[_Item], queue: str | None, *, keep: bool) -> int:
        """How many of them were held by their claims, and are completed."""
        tx = self.tx
        by_epoch: dict[int, list[str]] = defaultdict(list)
        for _, one in items:
            by_epoch[one.epoch].append(one.id)
        if keep and (len(by_epoch) > 1 or any(one.result is not None for _, one in items)):
            before = tx.total_changes()
            told = [(self.now, one.result, one.id, one.epoch, queue) for _, one in items]
            tx.executemany(SQL["complete_each"], told)
            return tx.total_changes() - before
        done, statement = 0, SQL["complete_all" if keep else "complete_all_gone"]
        for epoch, ids in by_epoch.items():
            params = {"ids": rows.texts(ids), "epoch": epoch, "now": self.now, "queue": queue}
            tx.execute(statement, params)
            done += tx.changes()  # not the total: that counts what the trigger deletes, too
        return done

    def settle_each(self, items: Sequence[_Item]) -> None:
        endings = Endings(self.db, self.tx, [one.id for _, one in items], self.now)
        for position, one in items:
            answer = self._settle(endings, one)
            if isinstance(answer, Refused):
                self.refused[position] = answer
            elif one.tells_state:
                self.states[position] = answer
        endings.apply()

    def _settle(self, endings: Endings, one: Settlement) -> Refused | State:
        """The refusal, or the state in which the job is left."""
        held = endings.held(one.id)
        if held is None:
            return GONE
        if held.is_current(one.epoch):
            queue = self.settings.of(held.queue)
            ending = fencing.settle(held, one, queue, self.now)
            if isinstance(ending, Refused):
                return ending
            endings.add(held, ending, keep=queue.keeps_history)
            if not queue.keeps_history:
                self.gone.append(Departed([one], ending.outcome, queue.lease_seconds))
            return ending.job.state
        write, end = one.write, end_of(self.tx, held, one.epoch)
        assert write is not None  # a hand-over ends nothing
        if end is None or end.write != write:
            return refuse(self.tx, held, one.epoch, write.kind, self.now)
        return state_after(end.outcome)


def _touch_all(tx: rows.Tx, groups: _Touched, now: Moment) -> None:
    for (until, length_ms, asked, message, percent, start), ns in groups.items():
        lease = {"lease_until": until, "lease_ms": length_ms, "lease_asked": asked}
        params = {**lease, "message": message, "percent": percent, "start": start}
        tx.execute(SQL["touch"], {**params, "ns": rows.numbers(ns), "now": now})


class _NotAllAsExpected(Exception):
    """Undoes a bulk write that met other rows than expected."""


def _kind(item: _Item) -> Verb | None:
    """The verb of settlements that can be applied together; None: each by itself."""
    one = item[1]
    together = one.verb is Verb.HAND_OVER or (one.verb is Verb.COMPLETE and one.updated_at is None)
    return one.verb if together else None


def _hand_over_all(tx: rows.Tx, items: Sequence[_Item], now: Moment) -> dict[int, Refused]:
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


class _Taking:
    """What one call takes. The rows are those of `claimed_columns`."""

    def __init__(
        self,
        tx: rows.Tx,
        now: Moment,
        queues: Mapping[str, Queue],
        ready: Mapping[str, Ready],
        lease_seconds: float | None,
    ) -> None:
        """`lease_seconds`: what most of the takers ask for."""
        self._tx = tx
        self._now = now
        self._queues = queues
        self._ready = ready
        self._lease_seconds = lease_seconds
        self._size = 0  # of the payloads
        self._taken: Counter[str] = Counter()

    def first(self, limit: int, reclaimed: bool) -> list[Any]:
        """The first due jobs of each queue, as far as it has room for them: reclaimed work, or what
        else waits."""
        found: list[Any] = []
        for name, ready in self._ready.items():
            lines = [line for line in ready.lines if (line < FIRST_WAITING_LINE) is reclaimed]
            most = min(limit - len(found), ready.room.most - self._taken[name])
            if not lines or most <= 0 or self._size >= rows.BATCH_BYTES:
                continue
            until = self._lease_until(self._queues[name], self._lease_seconds)
            params = {"queue": name, "now": self._now, "lease_until": until}
            statement = SQL["due"]
            if ready.held is not None:
                statement = SQL["due_uncovered"]
                params = ready.held._asdict() | params  # the lease is that of the new claims
            due, _ = first_jobs(self._tx, statement, params, lines, most, _PAYLOAD)
            self._taken[name] += len(due)
            self._size += sum([len(row[_PAYLOAD]) for row in due])
            found += due
        return found

    def take(self, taker: Taker, due: Sequence[Any], nonce: str) -> list[Claimed]:
        params = {"worker": taker.worker, "now": self._now, "alone": len(due) == 1, "nonce": nonce}
        claims: list[Claimed] = []
        for name, group in groupby(due, key=_QUEUE):
            jobs, queue = list(group), self._queues[name]
            until = self._lease_until(queue, taker.lease_seconds)
            params |= {"lease_until": until, "timeout_seconds": queue.timeout_seconds}
            params["ns"] = rows.numbers([row[_N] for row in jobs])
            self._tx.execute(SQL["claim"], params)
            taken = _claims(self._tx, jobs)
            if taker.lease_seconds != self._lease_seconds:
                taken = [one._replace(lease_until=until) for one in taken]
            claims += taken
        return claims

    def spend(self) -> list[str]:
        """Note how many were taken; the queues they were taken from."""
        taken = {name: count for name, count in self._taken.items() if count}
        for name, count in taken.items():
            self._ready[name].spend(self._tx, name, count)
        return list(taken)

    def _lease_until(self, queue: Queue, lease_seconds: float | None) -> Moment:
        seconds = queue.lease_seconds if lease_seconds is None else lease_seconds
        return self._now + round(seconds * 1000)


def _claims(tx: rows.Tx, found: Sequence[Any]) -> list[Claimed]:
    pages = OperationPages()
    return [
        _with_operations(tx, row, pages)
        if row[_TRAIL]
        else Claimed._make((*row[:_N], (), None, *row[_REST:]))
        for row in found
    ]


def _with_operations(tx: rows.Tx, row: Any, pages: OperationPages) -> Claimed:
    page = rows.operation_page(tx, row[_N], pages)
    return Claimed._make((*row[:_N], tuple(page.items), page.next, *row[_REST:]))


def _claimed_by(
    tx: rows.Tx, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
) -> list[list[Claimed]]:
    """What a call took, by taker, as far as the claims hold. Their leases begin anew."""
    prefix = f"{nonce}/"
    params = {"prefix": prefix, "length": len(prefix), "now": now}
    found = rows.fetch(tx, SQL["claimed_by"], params)
    held: list[list[Claimed]] = [[] for _ in range(takers)]
    for claimed, [*_, its_nonce] in zip(_claims(tx, [r[:-1] for r in found]), found, strict=True):
        held[int(its_nonce.removeprefix(prefix))].append(claimed)
    return [in_order(claims, queues) for claims in held]
