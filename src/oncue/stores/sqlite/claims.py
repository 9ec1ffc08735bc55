"""Workers' claims in SQLite: signs of life, operations, settling; `taking.py` takes the jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from oncue.core import fencing, operations
from oncue.core.fencing import GONE, Refused, Settlement, state_after
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.operations import DEFAULT_LIMITS, Had, OperationLimits
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.claims import Settled
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import Database, StorePart, writing
from oncue.stores.sqlite.fencing import Endings, end_of, held_claims, refuse, seen_claims
from oncue.stores.sqlite.readying import make_ready, worth_a_claim
from oncue.stores.sqlite.settings import queue_settings
from oncue.stores.sqlite.settled import (
    Departed,
    is_range_completed,
    outcomes_of,
    remember_range,
    remember_settled,
)
from oncue.stores.sqlite.taking import Taking, claimed_by
from oncue.stores.sqlite.worker_ranges import completed_digest, whole_range

SQL = rows.load("claims")

_Touched = defaultdict[tuple[Any, ...], list[int]]
"""By the lease and the reported values: the rows of the jobs."""
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
            if again and any(held := claimed_by(tx, nonce, queues, len(takers), now)):
                return held
            most = sum([taker.limit for taker in takers])
            named = {queue.name: queue for queue in queues}
            ready = {}
            for name in named:
                # Other jobs that have come into it can be taken, also put-off ones that come now.
                worker_ranges.split(tx, "joined", {"queue": name})
                ready[name] = make_ready(self.db, tx, name, most, now, now)
                if ready[name].held and worker_ranges.split(tx, "joined", {"queue": name}):
                    ready[name] = make_ready(self.db, tx, name, most, now, now)
            taking = Taking(tx, now, named, ready)
            taken = taking.take_all(takers, nonce)
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
            if one.id in heard:  # its second touch in the call: the first must be stored before it
                _touch_all(tx, groups, now)
                groups.clear()
                held |= held_claims(tx, list(heard))
                heard.clear()
            claim = held.get(one.id)
            if claim is None or not claim.is_current(one.epoch):
                write = "heartbeat" if one.start else None
                answers.append(refuse(tx, claim, one.epoch, write, now))
                continue
            lease = claim.lease.touched(one, known.of(claim.queue), now)
            groups[*lease, one.message, one.percent, one.start].append(claim.n)
            heard.add(one.id)
            answers.append(Touched(lease.until, claim.cancel_requested))
        _touch_all(tx, groups, now)
        return answers

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        found: dict[int, Refused] = {}
        if not claims:
            return found
        with self.db.reading() as tx:
            held = seen_claims(tx, [job_id for job_id, _ in claims])
            for position, (job_id, epoch) in enumerate(claims):
                claim = held.get(job_id)
                if claim is not None and claim.covered and epoch == claim.epoch + 1:
                    continue  # in the range of its worker, which a cancel would have split
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
                if len(gone) == len(settlements) and _is_repeated(tx, settlements, now):
                    return Settled({}, {})
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
        settling = _Settling(self.db, tx, now)
        if not settling.complete_range(settlements):
            for verb, items in groupby(enumerate(settlements), key=_kind):
                settling.end(verb, list(items))
            remember_settled(tx, settling.gone, now)
        return settling.refused, settling.states


class _Settling:
    """The settlements of one call."""

    def __init__(self, db: Database, tx: rows.Tx, now: Moment) -> None:
        self.db = db
        self.tx = tx
        self.now = now
        self.settings = queue_settings(db, tx)
        self.refused: dict[int, Refused] = {}
        self.states: dict[int, State] = {}
        self.gone: list[Departed] = []
        """Those whose queue keeps no history."""

    def end(self, verb: Verb | None, items: Sequence[_Item]) -> None:
        """Apply settlements of one verb; None: each by itself."""
        if verb is Verb.HAND_OVER:
            self.hand_over_all(items)
        elif verb is None or not self.complete_all(items):
            self.settle_each(items)

    def complete_range(self, settlements: Sequence[Settlement]) -> bool:
        """Complete all jobs of the range of a worker. False: the settlements are not those of a
        whole range, and nothing was done."""
        whole = whole_range(self.tx, settlements)
        if whole is None:
            return False
        queue = self.settings.of(whole.queue)
        worker_ranges.complete(self.tx, whole, self.now, keep=queue.keeps_history)
        self.db.tell(queue.name, 0)  # jobs that came into the range meanwhile can be taken now
        if not queue.keeps_history:
            remember_range(self.tx, whole.jobs_digest, queue.lease_seconds, self.now)
        return True

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
        except _NotAllAsExpected:  # perhaps because the range of a worker covers some of them
            ids = rows.texts([one.id for _, one in items])
            return worker_ranges.split(tx, "around", {"ids": ids}) and self.complete_all(items)
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
            ends = [(self.now, one.result, one.id, one.epoch, queue) for _, one in items]
            tx.executemany(SQL["complete_each"], ends)
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

    def hand_over_all(self, items: Sequence[_Item]) -> None:
        found = held_claims(self.tx, [one.id for _, one in items])
        ns = []
        for position, one in items:
            held = found.get(one.id)
            if held is None or not held.is_current(one.epoch):
                self.refused[position] = refuse(self.tx, held, one.epoch, None, self.now)
            elif fencing.hand_over(held, self.now) != held:
                ns.append(held.n)
        if ns:
            self.tx.execute(SQL["hand_over"], {"ns": rows.numbers(ns), "now": self.now})

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


def _is_repeated(tx: rows.Tx, settlements: Sequence[Settlement], now: Moment) -> bool:
    """Whether this very call has completed all jobs of a range before."""
    digest = completed_digest(settlements)
    return digest is not None and is_range_completed(tx, digest, now)


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
