"""Workers' claims in DynamoDB: taking jobs, and the signs of life that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import isqrt
from operator import itemgetter
from random import randrange
from typing import TypeVar

from oncue.core.fencing import GONE, Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import LIVE
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.sharing import Taker, in_order, share_out
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed, is_past, turn_at
from oncue.stores.dynamodb.filing import Saving, Wanted, what_was
from oncue.stores.dynamodb.jobs import MOST_RACES, rounds, too_many_races
from oncue.stores.dynamodb.keys import LAST
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.leasing import ShardLease
from oncue.stores.dynamodb.limits import UnderWay
from oncue.stores.dynamodb.lines import AHEAD, ALL, OTHERS
from oncue.stores.dynamodb.live import DynamoLive
from oncue.stores.dynamodb.writes import Item, Put, unchanged

T = TypeVar("T")

SHARDS_AT_ONCE = 8
"""Order holds over so many shards of a queue. A claim looks at no more of them, if they have enough
for it."""


@dataclass(slots=True)
class Offer:
    """What one call may take from a queue."""

    known: KnownQueue
    queue: Queue
    """As the caller has it: leases are given by its settings."""
    room: int
    leases: dict[int, ShardLease] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    """Jobs that were found already."""
    shards: list[int] = field(default_factory=list)
    """In the order in which they are looked at."""

    def has(self, item: Item) -> bool:
        """Whether a waiting item can be taken: no range covers it, and it was not found before."""
        place = keys.read_place(item["sk"])
        lease = self.leases.get(keys.shard_in(item["pk"]))
        is_covered = lease is not None and lease.reaches(place.moment, turn_at(item["sk"]))
        return not is_covered and place.id not in self.seen


class DynamoClaims(DynamoLive):
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
        taken: list[list[Claimed]] = [[] for _ in takers]
        for _ in range(MOST_RACES):
            short = {at: takers[at] for at in range(len(takers)) if not taken[at]}
            if self._share_out(short, queues, taken, nonce, now):
                break
        self._news.tell()
        return [in_order(claims, queues) for claims in taken]

    def _share_out(
        self,
        takers: Mapping[int, Taker],
        queues: Sequence[Queue],
        taken: list[list[Claimed]],
        nonce: str,
        now: Moment,
    ) -> bool:
        """Let those who have nothing yet take what is due. False: others were quicker, look
        again."""
        offers = self._offers(queues, sum(taker.limit for taker in takers.values()), now)
        shares = share_out(
            list(takers.values()),
            lambda limit, reclaimed: self._choose(
                offers, limit, now, AHEAD if reclaimed else OTHERS
            ),
        )
        if not self._are_current(offers):
            return False
        savings: dict[str, list[tuple[int, Saving]]] = {}
        for at, share in zip(takers, shares, strict=True):
            for job in share:
                offer = offers[job.record.queue]
                ranges = offer.known.ranges
                checks = self._check_free(job) if ranges else []
                alone = len(share) == 1
                job.record.take(offer.queue, takers[at], now, (nonce, at), alone=alone)
                savings.setdefault(offer.known.name, []).append(
                    (at, Saving(job, checks, is_unrivalled=not ranges))
                )
        complete = True
        for name, some in savings.items():
            done = self._take([one for _, one in some], offers[name].known, now)
            complete = complete and all(done)
            for (at, one), was in zip(some, done, strict=True):
                if was:
                    taken[at].append(one.job.record.as_claimed())
        return complete

    def _are_current(self, offers: Mapping[str, Offer]) -> bool:
        """Whether the queues are as they were taken to be when jobs were chosen. This is the last
        thing that is read: a dispatcher that takes a job of theirs for the first time from now on
        writes it, and then it is no longer as it was chosen."""
        now_known = self._fresh(offers)
        return all(now_known[name].ver == offer.known.ver for name, offer in offers.items())

    def _take(self, savings: Sequence[Saving], known: KnownQueue, now: Moment) -> list[bool]:
        if known.queue.is_limited:
            return self.take_limited(savings, known, now)
        return self.save(savings, now)

    def _offers(self, queues: Sequence[Queue], most: int, now: Moment) -> dict[str, Offer]:
        """What may be taken from these queues, as they are remembered; those whose range claims
        have ended are closed."""
        known = {
            name: self._with(one, KnownQueue.for_workers, now)
            for name, one in self._known(queue.name for queue in queues).items()
        }
        given = {queue.name: queue for queue in queues}
        ranged = [one for one in known.values() if one.ranges]
        leases = self._leases((one.name, shard) for one in ranged for shard in one.shards)
        offers: dict[str, Offer] = {}
        for name, one in known.items():
            found = [leases[name, shard] for shard in one.shards if one.ranges]
            held = {
                lease.shard: self._close(lease, one, now) if lease.has_ended(now) else lease
                for lease in found
            }
            room = 0 if one.queue.paused or not one.ver else most
            if one.queue.is_limited:
                room = self._unstalled(one, now).room(one.queue, most, now).most
            first = randrange(len(one.shards))
            shards = [*one.shards[first:], *one.shards[:first]]
            offers[name] = Offer(one, given[name], room, held, shards=shards)
        return offers

    def _unstalled(self, known: KnownQueue, now: Moment) -> UnderWay:
        """What is under way. If the clock was set back and something is due, the bucket begins
        again: else it would begin again at each look, and never gain a turn."""
        under_way = self._under_way(known.name)
        room = under_way.room(known.queue, 1, now)
        if not room.begun_again or not any(self._due_items(pk, 1, now) for pk in known.lines()):
            return under_way
        self.table.put(*under_way._replace(bucket=room.bucket).as_put(known.name, now))
        return self._under_way(known.name)

    def _close(self, lease: ShardLease, known: KnownQueue, now: Moment) -> ShardLease:
        """Take a shard away from its holder. The lease as it is then, whoever was quicker."""
        closed = lease.let_go()._replace(fence=lease.fence + 1)
        self.write_lease(lease, closed, known, now)
        return self._lease(lease.queue, lease.shard)

    def write_lease(
        self, was: ShardLease, then: ShardLease, known: KnownQueue, now: Moment, taken: int = 0
    ) -> bool:
        """Write the lease of a shard, with the limits of its queue if it has any. `taken`: how many
        jobs are handed over with it. False: it is no longer as it was, or there is no room."""
        queue, name = known.queue, known.name
        counted = then.in_flight if queue.concurrency is not None else 0
        then = then._replace(counted=counted)
        put = Put(then.as_item(max(now, was.ver + 1)), unchanged(was.ver))
        by = then.counted - was.counted
        if not by and not (taken and queue.rate_per_second is not None):
            return self.table.put(*put)
        for _ in range(MOST_RACES):
            under_way = self._under_way(name)
            if taken and under_way.room(queue, taken, now).most < taken:
                return False
            limit = under_way.taken(queue, taken, now).moved(by).as_put(name, now)
            failed = self.table.transact([put, limit])
            if not failed:
                return True
            if 0 in failed:
                return False
        raise too_many_races()

    def _choose(
        self, offers: Mapping[str, Offer], limit: int, now: Moment, ranks: tuple[str, str]
    ) -> list[Filed]:
        """The first due jobs, for which there is room, of these ranks."""
        chosen: list[Filed] = []
        for offer in offers.values():
            # Reclaimed work is rare, so that nearly always all shards are looked at for it.
            at_once = len(offer.shards) if ranks == AHEAD else SHARDS_AT_ONCE
            for first in range(0, len(offer.shards), at_once):
                most = min(offer.room, limit - len(chosen))
                if most <= 0:
                    break
                shards = offer.shards[first : first + at_once]
                found = self._take_from(offer, shards, most, now, ranks)
                offer.room -= len(found)
                chosen += found
        return chosen

    def _take_from(
        self, offer: Offer, shards: Sequence[int], limit: int, now: Moment, ranks: tuple[str, str]
    ) -> list[Filed]:
        """The first due jobs of some shards. What has expired is cancelled, and does not count."""
        lines = [keys.line(offer.known.name, shard) for shard in shards]
        if ranks == AHEAD:
            self.table.each(
                lambda pk: self._ready(pk, limit, now, lambda: self._next_free(offer, pk, now)),
                lines,
            )
        found: list[Filed] = []
        for some in self._free_jobs(offer, lines, limit, now, ranks):
            found += some
            if len(found) >= limit:
                break
        offer.seen.update(job.id for job in found[:limit])
        return found[:limit]

    def _next_free(self, offer: Offer, pk: str, now: Moment) -> str | None:
        """The place of the next job of a line."""
        jobs = chain.from_iterable(self._free_jobs(offer, [pk], 1, now, ALL))
        return next((job.line.sk for job in jobs if job.line), None)

    def _free_jobs(
        self, offer: Offer, lines: Sequence[str], limit: int, now: Moment, ranks: tuple[str, str]
    ) -> Iterator[list[Filed]]:
        """The due jobs of some lines that are in no range, part by part. The first part is what is
        free among `limit` items; each next one looks at twice as many. What has expired is
        cancelled."""
        above, upto = ranks
        while True:
            items = self._first_items(lines, limit, now, (above, upto))
            free = [item for item in items if offer.has(item)]
            yield self._unexpired(self._good(free, now), now)
            if len(items) < limit:
                return
            above = items[-1]["sk"]
            limit *= 2

    def _first_items(
        self, lines: Sequence[str], limit: int, until: Moment, ranks: tuple[str, str]
    ) -> list[Item]:
        """The first due items of some lines, in the order of hand-over. Of each line a fair share
        is read, and more only of those in which more of the first ones may be."""
        share = _share(limit, len(lines))
        parts = self.table.each(lambda pk: self._due_items(pk, share, until, ranks), lines)
        found = _merged(parts, limit)
        last = found[-1]["sk"] if len(found) == limit else LAST
        cut = {
            pk: part[-1]["sk"] for pk, part in zip(lines, parts, strict=True) if len(part) == share
        }
        short = [(pk, end) for pk, end in cut.items() if end < last] if share < limit else []
        more = self.table.each(
            lambda one: self._due_items(one[0], limit - share, until, (one[1], ranks[1])), short
        )
        return _merged([*parts, *more], limit) if short else found

    def _claimed_by(
        self, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
    ) -> list[list[Claimed]]:
        """What a call took, by taker, as far as the claims hold. Their leases begin anew."""
        held: list[list[Claimed]] = [[] for _ in range(takers)]
        found = [job.id for job in self._live_jobs() if _is_taken_by(nonce, job.record)]
        jobs = self.read_records(found).values()  # with all that a worker is given
        savings: list[Saving] = []
        for job in self._whole([job for job in jobs if _is_taken_by(nonce, job.record)], now):
            record = job.record
            record.lease, record.updated_at = record.lease.heard_of(now), now
            savings.append(Saving(job))
        for one, was in zip(savings, self.save(savings, now), strict=True):
            if was and one.job.record.nonce is not None:
                held[one.job.record.nonce[1]].append(one.job.record.as_claimed())
        return [in_order(claims, queues) for claims in held]

    def each_job(
        self,
        asked: Sequence[tuple[str, T]],
        act: Callable[[Filed, T], tuple[object, bool]],
        now: Moment,
        wanted: Wanted = what_was,
        look: Callable[[Iterable[Filed]], None] | None = None,
    ) -> list[object]:
        """Let `act` change each of these jobs; its answers. It answers with whether it changed the
        job, which is then written; if that is too late, it is asked again. A job that is not there
        is `GONE`. `look` sees jobs after each reading; by default they are taken to be claimed by
        workers, and it sees which of them are covered."""
        read = self.read_claimed if look is None else self.read
        answers: dict[int, object] = {}
        for part in rounds(dict(enumerate(asked)), lambda one: [one[0]]):
            left = part
            for _ in range(MOST_RACES):
                jobs = read([job_id for job_id, _ in left.values()], wanted)
                (look or self._cover)(jobs.values())
                changed: dict[int, Saving] = {}
                for at, (job_id, what) in left.items():
                    job = jobs.get(job_id)
                    if job is None or job.is_gone(now):
                        answers[at] = GONE
                        continue
                    answers[at], is_changed = act(job, what)
                    if is_changed:
                        changed[at] = Saving(job)
                done = self.save(list(changed.values()), now)
                left = {at: left[at] for at, was in zip(changed, done, strict=True) if not was}
                if not left:
                    break
            else:
                raise too_many_races()
        return [answers[at] for at in range(len(asked))]

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        queue_of = cache(self._fresh_queue)

        def act(job: Filed, touch: Touch) -> tuple[Touched | Refused, bool]:
            record = job.record
            if record.hidden:
                return GONE, False
            before = record.diagnostics[-1:]
            answer = record.touch(touch, queue_of(record.queue).queue, now)
            return answer, isinstance(answer, Touched) or record.diagnostics[-1:] != before

        return self.each_job([(one.id, one) for one in touches], act, now)  # type: ignore[return-value]

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        jobs = self.read((job_id for job_id, _ in claims), what_was)
        self._cover(jobs.values())
        now = self.clock.now()
        found: dict[int, Refused] = {}
        for at, (job_id, epoch) in enumerate(claims):
            job = jobs.get(job_id)
            why = GONE if job is None or not job.is_visible(now) else job.record.interruption(epoch)
            if why is not None:
                found[at] = why
        return found

    def put_operation(
        self, job_id: str, epoch: int, operation: Operation, now: Moment
    ) -> Operation | Refused:
        part = f"o.{operation.name}"

        def act(job: Filed, report: Operation) -> tuple[Operation | Refused, bool]:
            record = job.record
            if record.hidden:
                return GONE, False
            before = record.diagnostics[-1:], record.operations.get(report.name)
            answer = record.put_operation(epoch, report, now)
            after = record.diagnostics[-1:], record.operations.get(report.name)
            return answer, before != after

        def wanted(name: str) -> bool:
            return name == part or is_past(name)

        [answer] = self.each_job([(job_id, operation)], act, now, wanted)
        return answer  # type: ignore[return-value]


def _share(limit: int, lines: int) -> int:
    """How many items of each line are nearly always enough for the first `limit` of all: jobs are
    spread by chance, so a line has seldom many more than the others."""
    fair = -(-limit // lines)
    return min(limit, fair + 4 * isqrt(fair) + 4)


def _merged(parts: Iterable[Sequence[Item]], limit: int) -> list[Item]:
    return sorted(chain(*parts), key=itemgetter("sk"))[:limit]


def _is_taken_by(nonce: str, record: Record) -> bool:
    """Whether a job is held by the call with this nonce."""
    if record.state not in LIVE or not record.lease.until:
        return False
    return record.nonce is not None and record.nonce[0] == nonce
