"""Workers' claims in SQLite: taking, signs of life, settling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, groupby
from typing import Any, NamedTuple

import apsw

from oncue.core.fencing import objection, settled_facts
from oncue.core.job import Claimed, Operation
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue
from oncue.ports.claims import Refused, Settlement, Touch, Touched
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import (
    Held,
    diagnose,
    held_claims,
    keep_attempt,
    left_behind,
    refuse,
)
from oncue.stores.sqlite.limits import Room
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE
from oncue.stores.sqlite.looking import worth_a_claim
from oncue.stores.sqlite.readying import make_ready
from oncue.stores.sqlite.reclaims import remove
from oncue.stores.sqlite.settled import Settled, repeated
from oncue.stores.sqlite.statements import load

SQL = load("claims")
GONE = Refused("unknown", None)
_PAYLOAD = Claimed._fields.index("payload")
# `due` has n and trail in the place of the operations.
_N = Claimed._fields.index("operations")
_TRAIL, _REST = _N + 1, _N + 2

_Lines = dict[str, list[int]]
"""By queue: the lines in which something is due."""
_Touched = defaultdict[tuple[Any, ...], list[int]]
"""By the lease and what was told: the rows of the jobs."""


class Claims:
    db: Database

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
        named = {queue.name: queue for queue in queues}
        leases = {
            name: now + round((own if lease_seconds is None else lease_seconds) * 1000)
            for name, own in ((queue.name, queue.lease_seconds) for queue in queues)
        }

        def claim(tx: apsw.Connection) -> list[Claimed]:
            rooms: dict[str, Room] = {}
            reclaimed: _Lines = {}
            waiting: _Lines = {}
            for name in named:
                room, lines = make_ready(self.db, tx, name, limit, now, now)
                if not room.most:
                    continue
                rooms[name] = room
                reclaimed[name] = [line for line in lines if line < FIRST_WAITING_LINE]
                waiting[name] = [line for line in lines if line >= FIRST_WAITING_LINE]
            few = min(limit, reclaimed_limit)
            chosen = _choose(tx, reclaimed, rooms, leases, few, now)
            chosen = chosen or _choose(tx, waiting, rooms, leases, limit, now)
            alone = sum(map(len, chosen.values())) == 1
            taken: list[Claimed] = []
            for name, due in chosen.items():
                taken += _take(tx, named[name], worker, due, now, leases[name], alone=alone)
                self.db.expected[name] = 0
            return taken

        return self.db.write(claim) if worth_a_claim(self.db, queues, now, now) else []

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        def touch(tx: apsw.Connection) -> list[Touched | Refused]:
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
                    if one.start:
                        answers.append(refuse(tx, claim, one.epoch, "heartbeat", now))
                    else:
                        answers.append(left_behind(tx, claim, one.epoch))
                    continue
                seconds = one.lease_seconds
                length_ms = None if seconds is None else round(seconds * 1000)
                after = claim.lease.after_heartbeat if one.start else claim.lease.after_renewal
                lease = after(now, length_ms)
                groups[*lease, one.message, one.percent, one.start].append(claim.n)
                heard.add(one.id)
                answers.append(Touched(lease.until, claim.cancel_requested))
            _touch_all(tx, groups, now)
            return answers

        return self.db.write(touch)

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        found: dict[int, Refused] = {}
        with self.db.reading() as tx:
            held = held_claims(tx, [job_id for job_id, _ in claims])
            for position, (job_id, epoch) in enumerate(claims):
                claim = held.get(job_id)
                if claim is None or not claim.is_current(epoch):
                    found[position] = left_behind(tx, claim, epoch)
                elif claim.cancel_requested:
                    found[position] = Refused("cancel requested", claim.state)
        return found

    def hand_over(self, claims: Sequence[tuple[str, int]], now: Moment) -> Mapping[int, Refused]:
        def hand_over(tx: apsw.Connection) -> Mapping[int, Refused]:
            held = held_claims(tx, [job_id for job_id, _ in claims])
            refused: dict[int, Refused] = {}
            ns = []
            for position, (job_id, epoch) in enumerate(claims):
                claim = held.get(job_id)
                if claim is None or not claim.is_current(epoch):
                    refused[position] = left_behind(tx, claim, epoch)
                elif claim.refusals or claim.lease.after_hand_over() != claim.lease:
                    ns.append(claim.n)
            if ns:
                tx.execute(SQL["hand_over"], {"ns": rows.numbers(ns), "now": now})
            return refused

        return self.db.write(hand_over)

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Mapping[int, Refused]:
        def settle(tx: apsw.Connection) -> dict[int, Refused]:
            refused: dict[int, Refused] = {}
            settled = Settled(tx, now)
            for kind, group in groupby(enumerate(settlements), key=_kind):
                items = list(group)
                if not (kind.completes and self._complete_all(tx, items, kind, now)):
                    refused.update(self._settle_each(tx, items, now, settled))
                elif not kind.keep:
                    settled.add_all([one for _, one in items])
            settled.keep()
            return refused

        refused = self.db.write(settle)
        gone = [position for position, answer in refused.items() if answer == GONE]
        if gone:
            # What settled them is stored by now, so it is sought without the write lock.
            with self.db.reading() as tx:
                again = repeated(tx, [settlements[position] for position in gone], now)
            for position in compress(gone, again):
                del refused[position]
        return refused

    def _complete_all(
        self, tx: apsw.Connection, items: list[tuple[int, Settlement]], kind: _Kind, now: Moment
    ) -> bool:
        bounded: list[Any] = []
        if self.db.bounded_queues:  # asked before: afterwards they may be gone
            bounded = rows.fetch(tx, SQL["queues_of"], {"ids": rows.texts(o.id for _, o in items)})
        done = _complete_together(tx, items, kind, now)
        for [queue] in bounded:
            self.db.tell_room(queue)
        return done

    def _settle_each(
        self,
        tx: apsw.Connection,
        items: Sequence[tuple[int, Settlement]],
        now: Moment,
        settled: Settled,
    ) -> dict[int, Refused]:
        held = held_claims(tx, [one.id for _, one in items])
        refused: dict[int, Refused] = {}
        for position, one in items:
            claim = held.get(one.id)
            if claim is not None and claim.is_current(one.epoch):
                unseen = claim.cancel_requested and not one.cancel_seen
                why = objection(one.verb, claim.updated_at, one.updated_at, cancel_unseen=unseen)
                if why is not None:
                    refused[position] = Refused(why, claim.state)
                    continue
                self._settle_one(tx, claim, one, now)
                if not one.keep:
                    settled.add(one)
                del held[one.id]
                held.update(held_claims(tx, [one.id]))
            elif claim is None:
                refused[position] = GONE
            elif not claim.was_ended_by(tx, one):
                refused[position] = refuse(tx, claim, one.epoch, one.verb, now)
        return refused

    def _settle_one(self, tx: apsw.Connection, claim: Held, one: Settlement, now: Moment) -> None:
        own = {"n": claim.n, "now": now}
        self.db.tell_room(claim.queue)
        if one.verb in (Verb.FAIL, Verb.RETRY, Verb.DROP):
            facts = settled_facts(one.verb, claim.worker, one.error)
            diagnose(tx, claim, one.code, one.detail, facts, now)
        if one.verb is Verb.COMPLETE:
            tx.execute(SQL["complete"], {**own, "result": one.result})
        elif one.verb in (Verb.FAIL, Verb.DROP):
            state = State.FAILED if one.verb is Verb.FAIL else State.CANCELLED
            tx.execute(SQL["end"], {**own, "state": state, "error": one.error})
        else:
            self._back_to_waiting(tx, claim, one, now)
            return
        if not one.keep:
            remove(tx, [claim.n])

    def _back_to_waiting(
        self, tx: apsw.Connection, claim: Held, one: Settlement, now: Moment
    ) -> None:
        released = one.verb is Verb.RELEASE
        own = {"n": claim.n, "now": now, "error": one.error}
        outcome = "released" if released else "retried"
        keep_attempt(tx, {**own, "outcome": outcome})
        due_at = None if released else one.due_at
        not_before = None
        if one.put_off is not None:
            not_before = put_off_until(one.put_off, claim.id, claim.refusals + 1, now)
        back = {"due_at": due_at, "given_back": int(released), "not_before": not_before}
        tx.execute(SQL["reschedule"], {**own, **back})
        self.db.tell(claim.queue, not_before or one.due_at or 0)


def _touch_all(tx: apsw.Connection, groups: _Touched, now: Moment) -> None:
    for (until, length_ms, asked, message, percent, start), ns in groups.items():
        lease = {"lease_until": until, "lease_ms": length_ms, "lease_asked": int(asked)}
        told = {"message": message, "percent": percent, "start": int(start)}
        tx.execute(SQL["touch"], {"ns": rows.numbers(ns), "now": now, **lease, **told})


class _NotAllAsExpected(Exception):
    """Undoes a bulk write that met other rows than expected."""


class _Kind(NamedTuple):
    """Settlements that can be applied together share all of this."""

    completes: bool
    epoch: int
    keep: bool


def _kind(item: tuple[int, Settlement]) -> _Kind:
    one = item[1]
    in_bulk = one.verb is Verb.COMPLETE and one.updated_at is None
    return _Kind(in_bulk, one.epoch, one.keep)


def _complete_together(
    tx: apsw.Connection, items: list[tuple[int, Settlement]], kind: _Kind, now: Moment
) -> bool:
    """Complete the whole group at once. False: some were not as expected, and nothing was done;
    each is to be settled by itself."""
    try:
        with tx:  # a savepoint
            if kind.keep and any(one.result is not None for _, one in items):
                own = [(now, one.result, one.id, one.epoch) for _, one in items]
                before = tx.total_changes()
                tx.executemany(SQL["complete_each"], own)
                done = tx.total_changes() - before
            else:
                ids = rows.texts([one.id for _, one in items])
                name = "complete_all" if kind.keep else "complete_all_gone"
                moment = {"now": now} if kind.keep else {}
                tx.execute(SQL[name], {"ids": ids, "epoch": kind.epoch, **moment})
                done = tx.changes()  # not the total: that counts what the trigger deletes, too
            if done != len(items):
                raise _NotAllAsExpected
    except _NotAllAsExpected:
        return False
    return True


def _choose(
    tx: apsw.Connection,
    lines: _Lines,
    rooms: Mapping[str, Room],
    leases: Mapping[str, Moment],
    limit: int,
    now: Moment,
) -> dict[str, list[Sequence[Any]]]:
    """The first due jobs of these lines, by queue, as far as the queues have room for them."""
    chosen: dict[str, list[Sequence[Any]]] = {}
    size = 0
    for queue, own_lines in lines.items():
        if limit <= 0 or size >= rows.BATCH_BYTES:
            break
        room = rooms[queue]
        room = room._replace(most=min(limit, room.most))
        due = _due(tx, queue, own_lines, room, now, leases[queue]) if own_lines else []
        if due:
            room.spend(tx, queue, len(due))
            chosen[queue] = due
            limit -= len(due)
            size += sum([len(row[_PAYLOAD]) for row in due])
    return chosen


def _due(
    tx: apsw.Connection,
    queue: str,
    lines: Sequence[int],
    free: Room,
    now: Moment,
    lease_until: Moment,
) -> list[Sequence[Any]]:
    """The first due jobs of a queue in hand-over order."""
    own: dict[str, Any] = {"queue": queue, "now": now, "lease_until": lease_until}
    statement = SQL["due"]
    if free.held is not None:
        statement = SQL["due_uncovered"]
        own = free.held._asdict() | own  # the lease is that of the new claims
    found: list[Sequence[Any]] = []
    room = rows.BATCH_BYTES
    for line in lines:
        if len(found) >= free.most:
            break
        bounds = {"line": line, "limit": free.most - len(found)}
        for row in rows.stream(tx, statement, own | bounds):
            found.append(row)
            room -= len(row[_PAYLOAD])
            if room <= 0:
                return found
    return found


def _take(
    tx: apsw.Connection,
    queue: Queue,
    worker: str,
    due: list[Sequence[Any]],
    now: Moment,
    lease_until: Moment,
    *,
    alone: bool,
) -> list[Claimed]:
    ns = [row[_N] for row in due]
    tx.execute(
        SQL["claim"],
        {
            "ns": rows.numbers(ns),
            "worker": worker,
            "now": now,
            "lease_until": lease_until,
            "timeout_seconds": queue.timeout_seconds,
            "alone": int(alone),
        },
    )
    if not any(row[_TRAIL] for row in due):
        return [Claimed._make((*row[:_N], (), *row[_REST:])) for row in due]
    operations: dict[int, list[Operation]] = defaultdict(list)
    for n, *row in rows.fetch(tx, SQL["operations_of"], {"ns": rows.numbers(ns)}):
        operations[n].append(rows.operation(row))
    return [
        Claimed._make((*row[:_N], tuple(operations.get(row[_N], ())), *row[_REST:])) for row in due
    ]
