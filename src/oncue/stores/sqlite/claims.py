"""Workers' claims in SQLite: taking, signs of life, settling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, groupby
from typing import Any, NamedTuple

import apsw

from oncue.core import fencing
from oncue.core.fencing import GONE, Refused, Settlement
from oncue.core.job import Claimed, Operation
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import Touch, Touched
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import Endings, end_of, held_claims, refuse, refuse_after
from oncue.stores.sqlite.limits import Room
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE
from oncue.stores.sqlite.looking import worth_a_claim
from oncue.stores.sqlite.readying import make_ready
from oncue.stores.sqlite.settled import Settled, repeated
from oncue.stores.sqlite.statements import load

SQL = load("claims")
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
                    write = "heartbeat" if one.start else None
                    answers.append(refuse(tx, claim, one.epoch, write, now))
                    continue
                lease = claim.lease.touched(now, one.lease_seconds, by_worker=one.start)
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
                    found[position] = refuse(tx, claim, epoch, None, 0)
                elif claim.cancel_requested:
                    found[position] = Refused("cancel requested", claim.state)
        return found

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Mapping[int, Refused]:
        def settle(tx: apsw.Connection) -> dict[int, Refused]:
            refused: dict[int, Refused] = {}
            settled = Settled(tx, now)
            for kind, group in groupby(enumerate(settlements), key=_kind):
                items = list(group)
                if kind.verb is Verb.HAND_OVER:
                    refused.update(_hand_over_all(tx, items, now))
                elif not (kind.verb and self._complete_all(tx, items, kind, now)):
                    refused.update(self._settle_each(tx, items, now, settled))
                elif not kind.keep:
                    settled.add_all([one for _, one in items])
            settled.keep()
            return refused

        refused = self.db.write(settle)
        gone = [place for place, answer in refused.items() if answer == GONE]
        gone = [place for place in gone if settlements[place].write is not None]
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
                    settled.add(one)
            else:
                write, end = one.write, end_of(tx, held, one.epoch)
                assert write is not None  # a hand-over ends nothing
                if end is None or end.write != write:
                    refused[position] = refuse_after(tx, held, one.epoch, end, write.kind, now)
        endings.apply()
        return refused


def _touch_all(tx: apsw.Connection, groups: _Touched, now: Moment) -> None:
    for (until, length_ms, asked, message, percent, start), ns in groups.items():
        lease = {"lease_until": until, "lease_ms": length_ms, "lease_asked": int(asked)}
        told = {"message": message, "percent": percent, "start": int(start)}
        tx.execute(SQL["touch"], {"ns": rows.numbers(ns), "now": now, **lease, **told})


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
    tx: apsw.Connection, items: list[tuple[int, Settlement]], now: Moment
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
