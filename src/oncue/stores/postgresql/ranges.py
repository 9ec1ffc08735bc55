"""Dispatchers' range claims in PostgreSQL.

A range is one row for each shard. A dispatcher that claims holds the lock of the shard alone, so no
transaction that shares it looks at a waiting job while the range comes to cover the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from psycopg import errors
from psycopg.rows import TupleRow

from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from oncue.stores.postgresql import shards
from oncue.stores.postgresql.deliveries import PgDeliveries
from oncue.stores.postgresql.locks import shard_lock
from oncue.stores.postgresql.range_asked import (
    ChosenShard,
    RangeAsked,
    ShardPatience,
    SharedByOthers,
)
from oncue.stores.postgresql.readying import QueueLook, ReadyQueue
from oncue.stores.postgresql.settings import queue_row
from oncue.stores.postgresql.shards import LineHead, PgRange, PlaceInLine
from oncue.stores.postgresql.tx import Asked, PgTx
from oncue.stores.relational.rows import BATCH_BYTES

MOST_RACES = 20
MERGED = 100  # jobs that have come into a range and are taken at once: each may be large
JobsOfRank = tuple[int, list[Delivery]]
# `Delivery._make` without its check: it is called for every job.
_delivery: Callable[[TupleRow], Delivery] = partial(tuple.__new__, Delivery)
_ID = itemgetter(Delivery._fields.index("id"))
_PAYLOAD = itemgetter(Delivery._fields.index("payload"))
InFlight = dict[int, set[str]]
"""By shard: the jobs in flight of the claims that go on."""
Arrived = Mapping[int, Sequence[PlaceInLine]]
"""By shard: jobs that have come into the range of such a claim, in order."""


class PgRanges(PgDeliveries):
    """Implements the dispatchers' side of `oncue.ports.claims.ClaimStore`."""

    _patience: ShardPatience

    def claim_range(
        self,
        queue: Queue,
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        in_flight: Sequence[RangeClaim] = (),
        due_until: Moment | None = None,
    ) -> RangeClaim:
        cutoff = now if due_until is None else due_until
        asked = RangeAsked(
            *(queue.name, dispatcher, limit, cutoff, now, round(lease_seconds * 1000)),
            at_once=not in_flight,
        )
        for _ in range(MOST_RACES + self._shards_of(queue.name)):
            try:
                claim = self.db.write(partial(self._claim_range, asked, in_flight), "repeat")
                if isinstance(claim, RangeClaim):
                    return claim
                if isinstance(claim, RangeAsked):
                    asked = claim
                    continue
                for held in claim:
                    patience_ms = self._patience.of(asked, held.shard)
                    self.db.write(partial(self._close, held, patience_ms), "repeat")
            except SharedByOthers as shared:
                asked = asked.beside(shared.shard)
        return RangeClaim(queue.name)

    def _close(self, held: PgRange, patience_ms: int, tx: PgTx) -> None:
        """Take a shard away from its holder. In a transaction of its own: so only one lock is held
        alone at a time."""
        self._hold(tx, held.queue, held.shard, patience_ms)
        if shards.close(tx, held):
            self._announce_room(tx, held.queue)

    def _claim_range(
        self, asked: RangeAsked, in_flight: Sequence[RangeClaim], tx: PgTx
    ) -> RangeClaim | RangeAsked | list[PgRange]:
        """The claim; or ranges that are to be closed first, as their leases have ended or this
        dispatcher held them before it was started again; or the next request: others were quicker,
        or jobs were changed. Such a change is committed first, because a transaction that has
        locked jobs must not wait for the lock of a shard."""
        ranges, looks = self._look(tx, [asked.queue], asked.now, until=asked.cutoff)
        continued = _continued(ranges, in_flight)
        held = [one for one in ranges if one.is_open and one.shard not in continued]
        over = [o for o in held if o.holder == asked.dispatcher or o.lease_until <= asked.now]
        if closable := [one for one in over if one.shard not in asked.shared]:
            return closable
        nothing = RangeClaim(
            asked.queue, busy_until=min((o.lease_until for o in held), default=None)
        )
        busy = {one.shard for one in held}
        if busy.issuperset(range(self._shards_of(asked.queue))):
            return nothing  # and a queue that others hold is left as it is
        look = looks[asked.queue]
        arrived = {
            one.shard: self._arrived(tx, asked, one, look.lines, continued[one.shard])
            for one in ranges
            if one.shard in continued
        }
        ready = self._ready(tx, asked, look, ranges, continued, arrived)
        if not ready.room:
            return nothing
        if ready.changed:
            return asked._replace(expires=False)
        busy |= asked.passed_over | asked.shared
        free = [line for line in ready.lines if line.shard not in busy]
        chosen = self._chosen(tx, asked, free, ranges, continued, arrived)
        if chosen is None:  # nobody tells when a shared lock is let go: so it looks again soon
            return nothing._replace(busy_until=None) if asked.shared else nothing
        return self._taken(tx, asked, chosen, ready)

    def _ready(
        self,
        tx: PgTx,
        asked: RangeAsked,
        look: QueueLook,
        ranges: Sequence[PgRange],
        continued: InFlight,
        arrived: Arrived,
    ) -> ReadyQueue:
        """The queue, made ready. What is in flight the dispatcher knows better than the rows."""
        counted = [
            one._replace(in_flight=len(continued[one.shard])) if one.shard in continued else one
            for one in ranges
        ]
        places = [LineHead(0, *some[0]) for some in arrived.values() if some]
        first = min(places, key=attrgetter("place"), default=None)
        look = look._replace(expired=look.expired and asked.expires)
        bounds = (asked.limit, asked.cutoff, asked.now)
        return self._make_ready(tx, asked.queue, look, *bounds, counted, first)

    def _chosen(
        self,
        tx: PgTx,
        asked: RangeAsked,
        lines: Sequence[LineHead],
        ranges: Sequence[PgRange],
        continued: InFlight,
        arrived: Arrived,
    ) -> ChosenShard | None:
        """The shard whose next job is the first in hand-over order; None: nothing is due."""
        places = [(one[0], shard) for shard, one in arrived.items() if one]
        for line in shards.first_outside(tx, asked.queue, lines, ranges):
            if line.due_at <= asked.cutoff:
                places.append((line.place, line.shard))
        if not places:
            return None
        _, shard = min(places)
        return ChosenShard(
            shard,
            sorted(line for line in lines if line.shard == shard),
            next((one for one in ranges if one.shard == shard), None),
            continued.get(shard),
            arrived.get(shard, ()),
        )

    def _taken(
        self, tx: PgTx, asked: RangeAsked, chosen: ChosenShard, ready: ReadyQueue
    ) -> RangeClaim | RangeAsked:
        """The next jobs of a shard, as many as there is room for, covered by its range: the end of
        the transaction. What is to be asked for next: somebody else was quicker, or all that waits
        there has expired."""
        lines = [line for line in chosen.lines if line.due_at <= asked.cutoff]
        if len(lines) == 1 and asked.at_once and chosen.held is None and ready.bucket is None:
            return self._taken_at_once(tx, asked, chosen, lines[0], ready.room)
        found = self._held_due(tx, asked, chosen, ready.room)
        if found is None:
            return asked
        if chosen.arrived:
            places = chosen.arrived[: min(ready.room, MERGED)]
            found = self._merged(tx, asked, found, places)[: ready.room]
        if not found:
            return asked._replace(passed_over=asked.passed_over | {chosen.number})
        jobs = [job for _, some in found for job in some]
        through = (found[-1][0], jobs[-1].due_at, jobs[-1].id)
        cover = _cover(asked, chosen, through, len(chosen.flying or ()) + len(jobs))
        fences, *_ = tx.end(cover, *self._spent(ready, len(jobs)))
        if not fences:
            return asked
        return RangeClaim(asked.queue, chosen.number, fences[0][0], jobs, asked.now)

    def _taken_at_once(
        self, tx: PgTx, asked: RangeAsked, chosen: ChosenShard, line: LineHead, room: int
    ) -> RangeClaim | RangeAsked:
        """The same for a shard with one line from which no range is held, in one journey."""
        take = _take_due(asked, line, chosen, room)
        patience_ms = self._patience.of(asked, chosen.number)
        [rows] = self._hold(tx, asked.queue, chosen.number, patience_ms, take, ends=True)
        if not rows:
            return asked._replace(at_once=False)
        jobs = list(map(_delivery, rows))
        return RangeClaim(asked.queue, chosen.number, chosen.fence + 1, jobs, asked.now)

    def _hold(
        self,
        tx: PgTx,
        queue: str,
        shard: int,
        patience_ms: int,
        *more: Asked,
        ends: bool = False,
    ) -> list[list[TupleRow]]:
        """Hold the lock of a shard alone until the end of the transaction; the rows of more
        statements, in the same journey, which may be its last. Raises `SharedByOthers` if the lock
        is not free in time: all transactions that want to share it wait behind this one."""
        number = shard_lock(self.db.address.schema, queue, shard)
        params = {"number": number, "ms": str(patience_ms)}
        try:
            journey = tx.end if ends else tx.together
            _, *rows = journey(("locks", "hold_shard", params), *more)
        except errors.LockNotAvailable:
            self._patience.waited(queue, shard, patience_ms)
            raise SharedByOthers(shard) from None
        self._patience.had(queue, shard)
        return rows

    def _held_due(
        self, tx: PgTx, asked: RangeAsked, chosen: ChosenShard, room: int
    ) -> list[JobsOfRank] | None:
        """Hold a shard and its range, so that nobody takes, settles or lets it go before the end of
        the transaction; then its next jobs, behind the range that is held. None: somebody has since
        it was seen, and what is there may be delivered already."""
        queue, shard = asked.queue, chosen.number
        lock: Asked = ("ranges", "lock", {"queue": queue, "shard": shard})
        first = [_due(asked, line, chosen, room, BATCH_BYTES) for line in chosen.lines[:1]]
        patience_ms = self._patience.of(asked, shard)
        rows, *due = self._hold(tx, queue, shard, patience_ms, lock, *first)
        seen = [] if chosen.seen is None else [(chosen.seen.holder, chosen.seen.fence)]
        if [tuple(row) for row in rows] != seen:
            return None
        found: list[JobsOfRank] = []
        bytes_left = BATCH_BYTES
        for line in chosen.lines:
            if room <= 0 or bytes_left <= 0:
                break
            more = due or tx.together(_due(asked, line, chosen, room, bytes_left))
            jobs = list(map(_delivery, more.pop()))
            if jobs:
                found.append((line.rank, jobs))
            room -= len(jobs)
            bytes_left -= sum(map(len, map(_PAYLOAD, jobs)))
        return found

    def _arrived(
        self,
        tx: PgTx,
        asked: RangeAsked,
        held: PgRange,
        lines: Sequence[LineHead],
        flying: set[str],
    ) -> list[PlaceInLine]:
        """The first jobs that have come into a range since it was taken and can be delivered, in
        order. Mostly there are none, which is seen by counting. Everything that waits may have come
        in, so no more is read than is in flight there and taken at once."""
        parts = [
            (line.rank, line.due_at, line.id, *end)
            for line in lines
            if line.shard == held.shard and (end := held.end_in(line.rank)) is not None
        ]
        if not parts:
            return []
        names = ("ranks", "firsts", "first_ids", "last_dues", "last_ids")
        columns = dict(zip(names, map(list, zip(*parts, strict=True)), strict=True))
        params = {"queue": held.queue, "shard": held.shard, **columns, "most": len(flying) + 1}
        if tx.run("ranges", "count_inside", params).get <= len(flying):
            return []
        params |= {"until": asked.cutoff, "now": asked.now, "most": len(flying) + MERGED}
        found: list[PlaceInLine] = [
            (rank, due_at, job_id)
            for rank, due_at, job_id in tx.rows("ranges", "all_inside", params)
            if job_id not in flying
        ]
        return found

    def _merged(
        self,
        tx: PgTx,
        asked: RangeAsked,
        due: Sequence[JobsOfRank],
        places: Sequence[PlaceInLine],
    ) -> list[JobsOfRank]:
        """These jobs and those at the places, in order, each by itself."""
        params = {"ids": [place[2] for place in places], "queue": asked.queue}
        found = {row[0]: Delivery._make(row) for row in tx.rows("ranges", "deliveries", params)}
        placed = [(rank, found[job_id]) for rank, _, job_id in places if job_id in found]
        placed += [(rank, job) for rank, jobs in due for job in jobs]
        placed.sort(key=lambda one: (one[0], one[1].due_at, one[1].id))
        return [(rank, [job]) for rank, job in placed]

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        dues = [at for name in queues for at in self.db.once(partial(self._next_dues, name))]
        return min(dues, default=None)

    def _next_dues(self, name: str, tx: PgTx) -> list[Moment]:
        """When something of the queue can be taken, as far as can be told. Lines are looked for
        where they were last, and everything is read in one journey: waiting processes ask often."""
        look = self._known_lines.begin(name, self._shards_of(name))
        queues, found, firsts, returns = tx.together(
            ("queues", "named", {"names": [name]}),
            ("ranges", "of_queues", {"queues": [name]}),
            look.statement,
            ("claims", "returns_of", {"queues": [name]}),
        )
        lines = [LineHead._make(row) for row in firsts]
        self._known_lines.learn(look, lines)
        row = queue_row(*queues[0]) if queues else None
        if row is None or row.queue.paused:
            return []
        ranges = [one for one in map(PgRange._make, found) if one.is_open]
        moments = [one.lease_until for one in ranges]
        if not row.limits.is_full(self._under_way(tx, row.queue, ranges)):
            heads = shards.first_outside(tx, name, lines, ranges)
            moments += [line.due_at for line in heads]
            moments += [at for _, at in returns]
        return row.limits.next_turns(moments)


def _due(asked: RangeAsked, line: LineHead, chosen: ChosenShard, limit: int, room: int) -> Asked:
    """The statement that finds the next jobs of a line, behind the range that is held."""
    return "ranges", "due", _due_params(asked, line, chosen, limit, room)


def _take_due(asked: RangeAsked, line: LineHead, chosen: ChosenShard, limit: int) -> Asked:
    """The statement that finds them and opens a range that covers them."""
    params = {
        **_due_params(asked, line, chosen, limit, BATCH_BYTES),
        "holder": asked.dispatcher,
        "lease_until": asked.now + asked.lease_ms,
        "lease_ms": asked.lease_ms,
    }
    return "ranges", "take_due", params


def _due_params(
    asked: RangeAsked, line: LineHead, chosen: ChosenShard, limit: int, room: int
) -> dict[str, Any]:
    end = None if chosen.held is None else chosen.held.end_in(line.rank)
    # Right before the first: others of that moment are gone, and leave dead entries.
    after_due, after_id = max((line.due_at, line.id[:-1]), end or (-1, ""))
    return {
        "queue": asked.queue,
        "shard": line.shard,
        "rank": line.rank,
        "after_due": after_due,
        "after_id": after_id,
        "until": asked.cutoff,
        "now": asked.now,
        "fence": chosen.fence,
        "limit": limit,
        "room": room,
    }


def _cover(asked: RangeAsked, chosen: ChosenShard, through: PlaceInLine, in_flight: int) -> Asked:
    """The statement that opens a range up to this place, or extends the one that is held."""
    held, cutoff = chosen.held, asked.cutoff
    if held is not None:
        through, cutoff = max(through, held.through), max(cutoff, held.cutoff)
    names = ("through_rank", "through_due", "through_id")
    params = {
        "queue": asked.queue,
        "shard": chosen.number,
        "holder": asked.dispatcher,
        "fence": 0 if held is None else held.fence,
        "lease_until": asked.now + asked.lease_ms,
        "lease_ms": asked.lease_ms,
        "cutoff": cutoff,
        "in_flight": in_flight,
        **dict(zip(names, through, strict=True)),
    }
    return "ranges", "take" if held is None else "go_on", params


def _continued(ranges: Sequence[PgRange], in_flight: Sequence[RangeClaim]) -> InFlight:
    """The shards that go on under the fence of these claims."""
    fences = {one.shard: one.fence for one in ranges if one.is_open}
    continued: InFlight = {}
    for claim in in_flight:
        if claim.fence > 0 and fences.get(claim.shard) == claim.fence:
            continued.setdefault(claim.shard, set()).update(map(_ID, claim.jobs))
    return continued
