"""What can be taken from queues in DynamoDB, and which of it is taken first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isqrt
from operator import itemgetter
from random import randrange

from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.sharing import Taker, share_out
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed, turn_at
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.keys import LAST
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.leasing import ShardLease
from oncue.stores.dynamodb.limits import UnderWay
from oncue.stores.dynamodb.lines import AHEAD, ALL, OTHERS
from oncue.stores.dynamodb.live import DynamoLive
from oncue.stores.dynamodb.writes import Item, Put, unchanged

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
    ready: set[str] = field(default_factory=set)
    """Lines into which put-off jobs were brought back."""

    def has(self, item: Item) -> bool:
        """Whether a waiting item can be taken: no range covers it, and it was not found before."""
        place = keys.read_place(item["sk"])
        lease = self.leases.get(keys.shard_in(item["pk"]))
        is_covered = lease is not None and lease.reaches(place.moment, turn_at(item["sk"]))
        return not is_covered and place.id not in self.seen


class DynamoOffers(DynamoLive):
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

    def _shares(
        self, takers: Mapping[int, Taker], offers: Mapping[str, Offer], now: Moment
    ) -> dict[int, Sequence[Filed]]:
        """What each taker gets. Reclaimed work is looked for in the first shards of a queue, and in
        the others only for those who get nothing else."""

        def first(limit: int, reclaimed: bool) -> list[Filed]:
            some = slice(SHARDS_AT_ONCE) if reclaimed else slice(None)
            return self._choose(offers, limit, now, AHEAD if reclaimed else OTHERS, some)

        def left(limit: int, reclaimed: bool) -> list[Filed]:
            rest = slice(SHARDS_AT_ONCE, None)
            return self._choose(offers, limit, now, AHEAD, rest) if reclaimed else []

        shares = dict(zip(takers, share_out(list(takers.values()), first), strict=True))
        short = [at for at, share in shares.items() if not share]
        return shares | dict(zip(short, share_out([takers[at] for at in short], left), strict=True))

    def _choose(
        self,
        offers: Mapping[str, Offer],
        limit: int,
        now: Moment,
        ranks: tuple[str, str],
        some: slice,
    ) -> list[Filed]:
        """The first due jobs, for which there is room, of these ranks and some of the shards."""
        chosen: list[Filed] = []
        for offer in offers.values():
            shards = offer.shards[some]
            for first in range(0, len(shards), SHARDS_AT_ONCE):
                most = min(offer.room, limit - len(chosen))
                if most <= 0:
                    break
                few = shards[first : first + SHARDS_AT_ONCE]
                found = self._take_from(offer, few, most, now, ranks)
                offer.room -= len(found)
                chosen += found
        return chosen

    def _take_from(
        self, offer: Offer, shards: Sequence[int], limit: int, now: Moment, ranks: tuple[str, str]
    ) -> list[Filed]:
        """The first due jobs of some shards. What has expired is cancelled, and does not count."""
        lines = [keys.line(offer.known.name, shard) for shard in shards]
        self._ready_each(offer, [pk for pk in lines if pk not in offer.ready], limit, now)
        found: list[Filed] = []
        for some in self._free_jobs(offer, lines, limit, now, ranks):
            found += some
            if len(found) >= limit:
                break
        offer.seen.update(job.id for job in found[:limit])
        return found[:limit]

    def _ready_each(self, offer: Offer, lines: Sequence[str], limit: int, now: Moment) -> None:
        """Bring put-off jobs of lines that were not looked at back into line."""
        self.table.each(
            lambda pk: self._ready(pk, limit, now, lambda: self._next_free(offer, pk, now)), lines
        )
        offer.ready.update(lines)

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


def _share(limit: int, lines: int) -> int:
    """How many items of each line are nearly always enough for the first `limit` of all: jobs are
    spread by chance, so a line has seldom many more than the others."""
    fair = -(-limit // lines)
    return min(limit, fair + 4 * isqrt(fair) + 4)


def _merged(parts: Iterable[Sequence[Item]], limit: int) -> list[Item]:
    return sorted(chain(*parts), key=itemgetter("sk"))[:limit]
