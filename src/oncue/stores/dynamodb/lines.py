"""The lines of a queue in DynamoDB: what is due there, what comes back, and what is stale.

A line is sorted by rank and due time, so the due jobs of one rank are one Query. Which ranks are in
use is found by jumping from each to the next. Jobs that are not due are not read, but for the first
of each rank.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from oncue.core.fencing import Settlement
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.putoff import back_in_line_until
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.sharing import Taker
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving, Wanted, everything
from oncue.stores.dynamodb.keys import LAST, PUT_OFF, Key, WaitingPlace
from oncue.stores.dynamodb.leasing import ShardLease
from oncue.stores.dynamodb.limits import DynamoLimits
from oncue.stores.dynamodb.writes import Item

log = logging.getLogger("oncue.store")

TORN = "a part of it is missing from the table"

AHEAD, OTHERS, ALL = ("0", "0" + LAST), ("1", "1" + LAST), ("0", "1" + LAST)
"""Ranks of reclaimed work, of everything else, and of both."""

BACK_AT_ONCE = 100
"""Put-off jobs that are brought back into line together, at least."""

Head = dict[str, Moment]
"""By rank, when the first job of a line is due; at the rank `PUT_OFF`, when it returns. It may be
late by a moment: who waits for work looks again every second."""


class DynamoLines(DynamoLimits):
    def _firsts(
        self, pk: str, above: str, upto: str, *, lately: bool = False
    ) -> Iterator[WaitingPlace]:
        """The first waiting place of each rank of a line."""
        while first := next(self.table.query(pk, above, upto, limit=1, lately=lately), None):
            place = keys.read_place(first["sk"])
            yield place
            above = place.rank + LAST

    def _due_items(
        self, pk: str, limit: int, until: Moment, ranks: tuple[str, str] = ALL
    ) -> list[Item]:
        """The first waiting items of a line that are due by then, in order. `ranks`: those of which
        ranks; the first bound may be a place, behind which they are."""
        found: list[Item] = []
        for place in self._firsts(pk, *ranks):
            if place.moment <= until:
                above = max(ranks[0], f"{place.rank}#")
                last = f"{place.rank}#{keys.digits(until)}#{LAST}"
                found += self.table.query(pk, above, last, limit=limit - len(found))
            if len(found) >= limit:
                break
        return found

    def _head(self, pk: str) -> Head:
        firsts = self._firsts(pk, "0", PUT_OFF + LAST, lately=True)
        return {place.rank: place.moment for place in firsts}

    def _good(self, items: Sequence[Item], now: Moment, wanted: Wanted = everything) -> list[Filed]:
        """The jobs behind waiting items. An item whose job has a record is good only if the record
        says that the job waits just there; others are removed. A job that is torn fails."""
        ids = [keys.read_place(item["sk"]).id for item in items]
        records = self.table.read(keys.job(job_id) for job_id in ids)
        chosen: dict[str, Item] = {}
        stale: list[Key] = []
        for job_id, item in zip(ids, items, strict=True):
            record = records.get(keys.job(job_id), item)
            if "rec" in record:
                chosen[job_id] = record
            else:
                stale.append(Key(item["pk"], item["sk"]))
        jobs = self.parse(chosen, wanted)
        good: list[Filed] = []
        for job_id, item in zip(ids, items, strict=True):
            job = jobs.get(job_id)
            if job is not None and _waits_at(job, item) and not job.is_gone(now):
                good.append(job)
            elif job is not None:
                stale.append(Key(item["pk"], item["sk"]))
        self.table.write(removed=stale)
        return self._whole(good, now)

    def _whole(self, jobs: Sequence[Filed], now: Moment) -> list[Filed]:
        """Those of which no part is missing. The others cannot be handed over, and fail; whoever
        holds a range that covers one does the same."""
        whole = [job for job in jobs if not job.is_torn]
        torn = [job for job in jobs if job.is_torn]
        known = self._known({job.record.queue for job in torn})
        for job in torn:
            log.error("job %s of queue %s fails: %s", job.id, job.record.queue, TORN)
            give_up(job.record, known[job.record.queue].queue, now)
        self.save([Saving(job, is_unrivalled=True) for job in torn], now)
        return whole

    def _ready(
        self, pk: str, limit: int, now: Moment, next_place: Callable[[], str | None]
    ) -> None:
        """Bring put-off jobs whose moment has come back into line; cancel those that have
        expired. They come in the order of their return, so more than `limit` are brought back: the
        first of the queue may be among the others. `next_place`: of the job that is in line and
        would be handed over next."""
        last = f"{PUT_OFF}#{keys.digits(now)}#{LAST}"
        most = max(limit, BACK_AT_ONCE)
        items = list(self.table.query(pk, f"{PUT_OFF}#", last, limit=most))
        if not items:
            return
        first = next_place()
        rank, due_at = (LAST, None) if first is None else keys.read_place(first)[:2]
        savings = []
        for job in self._unexpired(self._good(items, now), now):
            behind = due_at is not None and keys.rank(job.record.next_turn) >= rank
            if not job.record.is_put_off(back_in_line_until(now, due_at if behind else None)):
                job.record.not_before = None
                savings.append(Saving(job))
        self.save(savings, now)

    def _next_items(
        self, pk: str, limit: int, cutoff: Moment, in_flight: Collection[str]
    ) -> list[Item]:
        """The first due items of a line that are not in flight."""
        items = self._due_items(pk, limit + len(in_flight), cutoff)
        return [one for one in items if keys.read_place(one["sk"]).id not in in_flight][:limit]

    def _takeable(
        self,
        pk: str,
        limit: int,
        cutoff: Moment,
        now: Moment,
        in_flight: Collection[str],
        held: ShardLease | None,
    ) -> list[Item]:
        """As `_next_items`, but what has expired is cancelled, and those behind it are taken
        instead. What could not be cancelled stays: somebody takes it at this moment."""
        tried: set[str] = set()
        while True:
            items = self._next_items(pk, limit, cutoff, in_flight)
            over = [one for one in items if one.get("expires", now + 1) <= now]
            if tried.issuperset(one["sk"] for one in over):
                return items
            tried.update(one["sk"] for one in over)
            self._unexpired(self._good(over, now), now, held)

    def _unexpired(
        self, jobs: Iterable[Filed], now: Moment, held: ShardLease | None = None
    ) -> list[Filed]:
        """Those that have not expired; the others are cancelled, unless another holds a range that
        covers them. `held`: the lease under which they are looked at."""
        good: list[Filed] = []
        over: list[Saving] = []
        for job in jobs:
            if job.record.has_lapsed(now):
                over.append(self._expiry(job, now, held))
            else:
                good.append(job)
        self.save(over, now)
        return good

    def _expiry(self, job: Filed, now: Moment, held: ShardLease | None = None) -> Saving:
        checks = self._check_free(job) if held is None else [held.stands()]
        job.record.expire(now)
        return Saving(job, checks)


def _waits_at(job: Filed, item: Item) -> bool:
    if job.record.state is not State.SCHEDULED or job.line is None:
        return False
    return job.line.pk == item["pk"] and item["sk"] in (job.line.sk, job.line.twin)


def give_up(
    record: Record, queue: Queue, now: Moment, error: str = TORN, code: str = "torn"
) -> None:
    """A job that cannot be handed over fails, by the claim that it has or by one of its own."""
    if record.state is State.SCHEDULED:
        record.take(queue, Taker("oncue", 1), now, ("", 0), alone=True)
    failure = Settlement(record.id, record.epoch, Verb.FAIL, error=error, code=code, detail=error)
    record.settle(failure, queue, now)
    if not queue.keeps_history:
        record.hide()
