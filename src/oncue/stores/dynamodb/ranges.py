"""Dispatchers' range claims in DynamoDB.

A dispatcher looks at the first due jobs of a shard, writes into the lease of the shard how far it
takes them (`through`), and only then reads their records: what was cancelled before is seen, and
what is cancelled later is refused. It sends what is left. Settling writes the jobs first and the
lease last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from random import randrange
from typing import NamedTuple

from oncue.core.fencing import Refused
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.ports.claims import RangeClaim
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.endings import DynamoEndings
from oncue.stores.dynamodb.filed import Filed, turn_at
from oncue.stores.dynamodb.filing import Saving
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.leasing import LOOK_AHEAD_MS, ShardLease
from oncue.stores.dynamodb.offers import SHARDS_AT_ONCE
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import Item, unchanged

Continued = dict[int, set[str]]
"""By shard: the jobs in flight of the claims that go on."""


class Asked(NamedTuple):
    """What a dispatcher asks for."""

    dispatcher: str
    limit: int
    cutoff: Moment
    now: Moment
    length_ms: int


class DynamoRanges(DynamoEndings):
    """Implements the dispatchers' side of `oncue.ports.claims.ClaimStore`."""

    def __init__(self, table: Table, clock: Clock, shards: int) -> None:
        super().__init__(table, clock, shards)
        self._sent: dict[tuple[str, int, int], dict[str, Filed]] = {}
        """By queue, shard and fence: the jobs that are in flight, as they were read. What another
        process took is read again when it is settled."""

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
        cutoff = min(now if due_until is None else due_until, now + LOOK_AHEAD_MS)
        asked = Asked(dispatcher, limit, cutoff, now, round(lease_seconds * 1000))
        for _ in range(MOST_RACES):
            claim = self._claim_range(queue.name, asked, in_flight)
            if claim is not None:
                self._news.tell()
                return claim
        raise too_many_races()

    def _claim_range(
        self, name: str, asked: Asked, in_flight: Sequence[RangeClaim]
    ) -> RangeClaim | None:
        """None: others were quicker, look again."""
        now = asked.now
        known = self._with(self._fresh_queue(name), KnownQueue.for_ranges, now)
        leases = {one.shard: one for one in self._leases((name, n) for n in known.shards).values()}
        continued = _continued(leases, in_flight)
        for shard, lease in leases.items():
            is_former = lease.holder == asked.dispatcher  # of an earlier life of this dispatcher
            if shard not in continued and (is_former or lease.has_ended(now)):
                leases[shard] = self._close(lease, known, now)
        free = {
            shard: lease
            for shard, lease in leases.items()
            if lease.holder is None or shard in continued
        }
        busy = [lease.until for shard, lease in leases.items() if shard not in free]
        nothing = RangeClaim(name, busy_until=min(busy, default=None))
        if known.queue.paused or not known.ranges:  # or nothing was ever stored in it
            return nothing
        rooms = self._rooms(known, free, continued, asked)
        first = self._first_shard(known, list(rooms), free, continued, asked)
        if first is None:
            return nothing
        most = asked._replace(limit=rooms[first])
        return self._claim_shard(known, free[first], most, continued.get(first))

    def _first_shard(
        self,
        known: KnownQueue,
        shards: Sequence[int],
        leases: Mapping[int, ShardLease],
        continued: Continued,
        asked: Asked,
    ) -> int | None:
        """The shard whose next job is the first in the order of hand-over; None: none has any to
        take. They are looked at a few at a time."""
        first = randrange(len(shards)) if shards else 0
        turned = [*shards[first:], *shards[:first]]
        for at in range(0, len(turned), SHARDS_AT_ONCE):
            some = turned[at : at + SHARDS_AT_ONCE]
            heads = self.table.each(
                lambda shard: self._next_place(known, leases[shard], continued.get(shard), asked),
                some,
            )
            found = [(head, shard) for head, shard in zip(heads, some, strict=True) if head]
            if found:
                return min(found)[1]
        return None

    def _next_place(
        self, known: KnownQueue, lease: ShardLease, in_flight: set[str] | None, asked: Asked
    ) -> str | None:
        """The place of the next job of a shard; None: there is none to take. `in_flight` None: the
        shard is free."""
        pk = keys.line(known.name, lease.shard)
        held = None if in_flight is None else lease

        def first(cutoff: Moment) -> str | None:
            return self._first_place(pk, asked._replace(cutoff=cutoff), in_flight or set(), held)

        self._ready(pk, asked.limit, asked.now, lambda: first(asked.now))
        return first(asked.cutoff)

    def _first_place(
        self, pk: str, asked: Asked, in_flight: set[str], held: ShardLease | None
    ) -> str | None:
        """The place of the first due job of a line. What has expired is cancelled on the way, each
        time twice as many jobs. A plain job never expires."""
        limit, last = 1, ""
        while items := self._next_items(pk, limit, asked.cutoff, in_flight):
            place: str = items[0]["sk"]
            # What is still there after a try is for the one who takes it, or took it meanwhile.
            if "rec" in items[0] or place == last:
                return place
            jobs = self._unexpired(self._good(items, asked.now), asked.now, held)
            first = next((job.line for job in jobs), None)
            if first is not None:
                return first.sk
            limit, last = min(2 * limit, asked.limit), place
        return None

    def _claim_shard(
        self, known: KnownQueue, lease: ShardLease, asked: Asked, in_flight: set[str] | None
    ) -> RangeClaim | None:
        """Take the first due jobs of one shard; None: others were quicker. `in_flight` None: the
        shard is not held by this dispatcher, and is taken by a new fence."""
        now = asked.now
        pk = keys.line(known.name, lease.shard)
        held = None if in_flight is None else lease
        items = self._takeable(pk, asked.limit, asked.cutoff, now, in_flight or set(), held)
        if known.queue.is_limited:  # so that no turn is spent on what is not there any more
            good = {job.id for job in self._unexpired(self._good(items, now), now, held)}
            items = [item for item in items if keys.read_place(item["sk"]).id in good]
        if not items:
            return None
        then = lease._replace(
            holder=asked.dispatcher if in_flight is None else lease.holder,
            fence=lease.fence + (in_flight is None),
            until=max(lease.until, now + asked.length_ms),
            length_ms=asked.length_ms,
            cutoff=max(lease.cutoff, asked.cutoff),
            through=max(lease.through, turn_at(items[-1]["sk"])),
            in_flight=len(in_flight or ()) + len(items),
        )
        if not self.write_lease(lease, then, known, now, taken=len(items)):
            return None
        sendable = self._sendable(items, known, now)
        if not sendable and in_flight is None:
            stored = then._replace(ver=max(now, lease.ver + 1))
            self.write_lease(stored, stored.let_go(), known, now)
            return None
        sent = self._sent.setdefault((known.name, lease.shard, then.fence), {})
        sent.update((job.id, job) for job in sendable)
        deliveries = [job.record.as_delivery() for job in sendable]
        return RangeClaim(known.name, lease.shard, then.fence, deliveries, now)

    def _rooms(
        self,
        known: KnownQueue,
        leases: Mapping[int, ShardLease],
        continued: Continued,
        asked: Asked,
    ) -> dict[int, int]:
        """How many jobs may be taken from each shard, where any may."""
        if not known.queue.is_limited:
            return dict.fromkeys(leases, asked.limit)
        under_way = self._unstalled(known, asked.now)
        rooms: dict[int, int] = {}
        for shard, lease in leases.items():
            # What the shard has counted and is not in flight any more leaves room.
            by = len(continued.get(shard, ())) - lease.counted
            most = under_way.moved(by).room(known.queue, asked.limit, asked.now).most
            if most:
                rooms[shard] = most
        return rooms

    def _sendable(self, items: Sequence[Item], known: KnownQueue, now: Moment) -> list[Filed]:
        """The jobs of a range that was just written, without those that ended before. If a worker
        may be about to take one without a look at the range, each is written: so it is too late."""
        jobs = self._good(items, now)
        over = {job.id: job for job in jobs if job.record.has_lapsed(now)}
        for job in over.values():
            job.record.expire(now)
        self.save([Saving(job) for job in over.values()], now)
        left = [job for job in jobs if job.id not in over]
        if not known.is_changing_hands(now):
            return left
        done = self.save([Saving(job, is_unrivalled=True) for job in left], now)
        return [job for job, was in zip(left, done, strict=True) if was]

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        for _ in range(MOST_RACES):
            lease = self._lease_of(claim)
            if lease is None:
                return False
            if lease.until >= lease_until:
                return True
            then = lease._replace(until=lease_until)
            if self.table.put(then.as_item(lease.ver + 1), unchanged(lease.ver)):
                return True
        raise too_many_races()

    def _lease_of(self, claim: RangeClaim) -> ShardLease | None:
        """The lease under which a claim was made, if it stands."""
        lease = self._lease(claim.queue, claim.shard)
        current = claim.fence > 0 and lease.fence == claim.fence
        return lease if current and lease.holder is not None else None

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        known, lease = self._queue_and_lease(claim.queue, claim.shard)
        place = claim.queue, claim.shard, claim.fence
        if claim.fence <= 0 or lease.fence != claim.fence:
            self._sent.pop(place, None)
            return False
        if lease.holder is None:  # this very call has let it go before
            return True
        self._settle_jobs(claim, lease, [*delivered, *refused], refused, known, now)
        if not left:
            self._sent.pop(place, None)
        held: ShardLease | None = lease
        for _ in range(MOST_RACES):
            if held is None:
                return False
            then = held._replace(in_flight=left) if left else held.let_go()
            if self.write_lease(held, then, known, now):
                self._announce_let_go(claim, known, let_go=not left)
                return True
            held = self._lease_of(claim)
        raise too_many_races()

    def _announce_let_go(self, claim: RangeClaim, known: KnownQueue, *, let_go: bool) -> None:
        """There may be room, and what was not settled waits again."""
        if known.queue.concurrency is not None:
            self._news.add(claim.queue, 0)
        if let_go and claim.jobs:
            self._news.add(claim.queue, min(job.due_at for job in claim.jobs))
        self._news.tell()

    def _settle_jobs(
        self,
        claim: RangeClaim,
        lease: ShardLease,
        ids: Sequence[str],
        refused: Mapping[str, Refusal],
        known: KnownQueue,
        now: Moment,
    ) -> None:
        """Apply what the sink answered. A job that is not as it was sent is left alone: if the
        lease stands after a job was read, nobody but its holder has changed the job before, and if
        somebody does so later, the job is not written."""
        held: ShardLease | None = lease
        attempts = {job.id: job.attempt for job in claim.jobs}
        queue = known.queue

        def look(jobs: Iterable[Filed]) -> None:
            nonlocal held
            held = self._lease_of(claim)

        def act(job: Filed, refusal: Refusal | None) -> tuple[Refused | None, bool]:
            is_as_sent = job.record.attempt + 1 == attempts.get(job.id)
            if held is None or not held.covers(job.record) or not is_as_sent:
                return None, False
            _apply(refusal, job.record, held, claim, queue, now)
            return None, True

        sent = self._sent.get((claim.queue, claim.shard, claim.fence), {})
        known_jobs = {job_id: job for job_id in ids if (job := sent.pop(job_id, None)) is not None}
        left = self._settle_sent(known_jobs, queue, refused, act, now)
        unsettled = [one for one in ids if one not in known_jobs or one in left]
        self.each_job([(one, refused.get(one)) for one in unsettled], act, now, look=look)

    def _settle_sent(
        self,
        jobs: Mapping[str, Filed],
        queue: Queue,
        refused: Mapping[str, Refusal],
        act: Callable[[Filed, Refusal | None], tuple[Refused | None, bool]],
        now: Moment,
    ) -> set[str]:
        """Settle jobs as they were sent, without reading them again; those that have changed since.
        A plain job that leaves nothing behind is only removed."""
        gone = {
            job_id: job.line.keys
            for job_id, job in jobs.items()
            if job.line is not None
            and job.is_plain
            and not job.sides  # a record that it got since may refer to them
            and job.record.key is None
            and job_id not in refused
            and not queue.keeps_history
        }
        self.table.write(removed=chain(*gone.values()))
        savings = [
            Saving(job, is_unrivalled=True)
            for job_id, job in jobs.items()
            if job_id not in gone and act(job, refused.get(job_id))[1]
        ]
        done = self.save(savings, now)
        return {one.job.id for one, was in zip(savings, done, strict=True) if not was}


def _apply(
    refusal: Refusal | None,
    record: Record,
    lease: ShardLease,
    claim: RangeClaim,
    queue: Queue,
    now: Moment,
) -> None:
    """What a sink said of a job that it was sent."""
    if refusal is not None and not refusal.permanent:
        record.put_off(queue.retry, refusal.detail, now)
        return
    error = None if refusal is None else refusal.detail
    record.deliver(lease.holder or "", claim.claimed_at, error, queue, now)
    if not queue.keeps_history:
        record.hide()


def _continued(leases: Mapping[int, ShardLease], in_flight: Sequence[RangeClaim]) -> Continued:
    """The shards that go on under the fence of these claims."""
    continued: Continued = {}
    for claim in in_flight:
        lease = leases.get(claim.shard)
        if lease is not None and lease.holder is not None and lease.fence == claim.fence:
            continued.setdefault(claim.shard, set()).update(job.id for job in claim.jobs)
    return continued
