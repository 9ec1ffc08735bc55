"""The limits of a queue in DynamoDB: one item with the bucket of its rate and the number of its
jobs that are under way.

Only queues with a limit have it. It changes in one transaction with the jobs that are taken or
given back, so the number is exact. Jobs that were taken before the queue had a limit are counted
when it is set, or else by their next heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.rate import Bucket, Limits, Room
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filing import SavePlan, Saving
from oncue.stores.dynamodb.jobs import MOST_RACES, DynamoJobs, too_many_races
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.writes import TRANSACT_AT_ONCE, Item, Put, Write, merged, unchanged


class UnderWay(NamedTuple):
    """What the table knows of the limits of a queue."""

    ver: int = 0
    in_flight: int = 0
    bucket: Bucket | None = None

    def limits(self, queue: Queue) -> Limits:
        return Limits(queue.paused, queue.concurrency, queue.rate_per_second, self.bucket)

    def room(self, queue: Queue, most: int, now: Moment) -> Room:
        return self.limits(queue).room(self.in_flight, most, now)

    def taken(self, queue: Queue, count: int, now: Moment) -> UnderWay:
        """After so many were handed over. They count as in flight by another way."""
        if queue.rate_per_second is None or not count:
            return self
        filled = rate.fill(self.bucket, queue.rate_per_second, now)
        return self._replace(bucket=rate.take(filled, count))

    def moved(self, by: int) -> UnderWay:
        return self._replace(in_flight=max(0, self.in_flight + by))

    def as_put(self, name: str, now: Moment) -> Put:
        ver = max(now, self.ver + 1)
        item: Item = {**keys.limit(name)._asdict(), "ver": ver, "in_flight": self.in_flight}
        if self.bucket is not None:
            # Turns are counted in billionths, which may be more than a number of the table carries
            # exactly: so it is text.
            item |= {"turns": str(self.bucket.turns), "filled_at": self.bucket.at}
        return Put(item, unchanged(self.ver))


def _read_under_way(item: Item | None) -> UnderWay:
    if item is None:
        return UnderWay()
    bucket = Bucket(int(item["turns"]), item["filled_at"]) if "turns" in item else None
    return UnderWay(item["ver"], item["in_flight"], bucket)


class DynamoLimits(DynamoJobs):
    def _under_way(self, name: str) -> UnderWay:
        """What is under way of a queue."""
        return _read_under_way(self.table.get(keys.limit(name)))

    def _apply(
        self, plans: Sequence[SavePlan], known: Mapping[str, KnownQueue], now: Moment
    ) -> list[bool]:
        """Jobs that begin or cease to count are written with the item of their queue."""
        done: dict[int, bool] = {}
        counted: dict[str, list[int]] = {}
        for at, plan in enumerate(plans):
            if plan.job.counted != plan.filed.counted:
                counted.setdefault(plan.filed.record.queue, []).append(at)
        others = [at for at, plan in enumerate(plans) if plan.job.counted == plan.filed.counted]
        applied = super()._apply([plans[at] for at in others], known, now)
        done |= dict(zip(others, applied, strict=True))
        for name, places in counted.items():
            some = self._apply_counted([plans[at] for at in places], name, now)
            done |= dict(zip(places, some, strict=True))
        return [done[at] for at in range(len(plans))]

    def _apply_counted(
        self, plans: Sequence[SavePlan], name: str, now: Moment, taking: Queue | None = None
    ) -> list[bool]:
        """Write plans with the item of their queue: as many as its limits leave room for if they
        take jobs (`taking`: its settings), else all of them."""
        done = [False] * len(plans)
        left = list(range(len(plans)))
        for _ in range(MOST_RACES):
            if not left:
                return done
            under_way = self._under_way(name)
            part = _fitting(plans, left)
            if taking is not None:
                part = part[: under_way.room(taking, len(part), now).most]
                under_way = under_way.taken(taking, len(part), now)
            if not part:
                return done
            by = sum(plans[at].filed.counted - plans[at].job.counted for at in part)
            groups: dict[int, Sequence[Write]] = {-1: [under_way.moved(by).as_put(name, now)]}
            groups |= {at: plans[at].together for at in part}
            writes, owners = merged(groups)
            failed = {at for place in self.table.transact(writes) for at in owners[place]}
            if not failed:
                for at in part:
                    done[at] = True
            over = failed or set(part)
            left = [at for at in left if at not in over]
        raise too_many_races()

    def take_limited(self, savings: Sequence[Saving], known: KnownQueue, now: Moment) -> list[bool]:
        """Save jobs that are taken from a limited queue, as many as its limits leave room for."""
        plans = [self._plan(one, known, now) for one in savings]
        self.table.write(item for plan in plans for item in plan.before)
        done = self._apply_counted(plans, known.name, now, taking=known.queue)
        self._follow_up(compress(plans, done), {known.name: known})
        return done


def _fitting(plans: Sequence[SavePlan], left: Sequence[int]) -> list[int]:
    """As many of them as fit in a transaction with the item of their queue."""
    room = TRANSACT_AT_ONCE - 1
    part: list[int] = []
    for at in left:
        room -= len(plans[at].together)
        if room < 0:
            break
        part.append(at)
    return part
