"""Lists of jobs in DynamoDB, in the order of due time and id, merged from the parts that are in
that order: each rank of each line, the finished jobs of each state and shard, the jobs of an owner
or a key. Live jobs are in no such order: all of them are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice

from oncue.core.bulk import BulkChange
from oncue.core.changes import applies, fits
from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.job import JobFilter, JobPage
from oncue.core.lacks import refuse_all_jobs
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.ports.bulk import BulkFound
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Wanted, everything, what_was
from oncue.stores.dynamodb.keys import LAST, PUT_OFF
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.ranges import DynamoRanges

LOOK = 100  # jobs read for a page that is to be changed, unless a longer one is wanted

Place = tuple[Moment, str]
"""Due time and id."""
Part = Callable[[Place, Moment, int], list[Place]]
"""The first places of one part of a list: after a place, until a due time, at most so many."""


class DynamoListing(DynamoRanges):
    """Implements `JobStore.page` and `oncue.ports.bulk.BulkStore`."""

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        refuse_all_jobs(wanted)
        states = frozenset(State) if wanted.state is None else frozenset({wanted.state})
        jobs, end = self._page(wanted, states, after, limit, everything)
        found = [job.record.as_job() for job in jobs if fits(job.record.as_seen(), wanted)]
        return JobPage(found, end)

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        refuse_all_jobs(wanted)
        jobs, end = self._page(wanted, change.states, after, max(limit, LOOK), what_was)
        seen = [job.record.as_seen() for job in jobs]
        found = [
            one
            for one in seen
            if fits(one, wanted) and applies(one, change.states, change.begun_at)
        ]
        if len(found) > limit:
            end = cursor_at((found[limit - 1].due_at, found[limit - 1].id))
        return BulkFound([one.id for one in found[:limit]], end)

    def _page(
        self,
        wanted: JobFilter,
        states: frozenset[State],
        after: Cursor | None,
        limit: int,
        parts: Wanted,
    ) -> tuple[list[Filed], Cursor | None]:
        """The jobs at the first places, and where to go on, if there may be more."""
        start: Place = (-1, "")
        if after is not None:
            due_at, job_id = place_at(after, (int, str))
            start = (int(due_at), str(job_id))
        if wanted.due_after is not None:
            start = max(start, (wanted.due_after - 1, LAST))
        until = LATEST if wanted.due_before is None else wanted.due_before - 1
        lists = self.table.each(
            lambda part: part(start, until, limit), list(self._parts(wanted, states))
        )
        places = list(islice(_once(merge(*lists)), limit))
        jobs = self.read((job_id for _, job_id in places), parts)
        self._cover(jobs.values())
        now = self.clock.now()
        found = [
            jobs[job_id]
            for due_at, job_id in places
            if job_id in jobs
            and jobs[job_id].record.due_at == due_at
            and jobs[job_id].is_visible(now)
        ]
        return found, cursor_at(places[-1]) if len(places) == limit else None

    def _parts(self, wanted: JobFilter, states: frozenset[State]) -> Iterator[Part]:
        """The parts in which a wanted job may be."""
        if wanted.owner is not None:
            yield self._owned(wanted.owner)
            return
        if wanted.queue is None:
            queues = [one for one in self._all_queues() if one.exists]
        else:
            queues = [self._fresh_queue(wanted.queue)]
        if wanted.key is not None:
            key = wanted.key
            yield from (self._keyed(known.name, key) for known in queues)
            return
        for known in queues:
            yield from self._of_queue(known, states)

    def _of_queue(self, known: KnownQueue, states: frozenset[State]) -> Iterator[Part]:
        # A job inside an open range shows as dispatched, and waits in its line.
        if State.SCHEDULED in states or State.DISPATCHED in states:
            for pk in known.lines():
                for rank in self._ranks(pk):
                    yield self._waiting(pk, rank)
        if states & LIVE:
            yield self._live_of(known.name)
        for state in sorted(states & FINAL):
            for shard in known.shards:
                yield self._finished(keys.finished(known.name, state, shard))

    def _ranks(self, pk: str) -> list[str]:
        """The ranks in use in a line, by due time."""
        ranks = (place.rank for place in self._firsts(pk, "0", PUT_OFF + LAST))
        return [keys.PUT_OFF_BY_DUE if rank == PUT_OFF else rank for rank in ranks]

    def _waiting(self, pk: str, rank: str) -> Part:
        def part(start: Place, until: Moment, limit: int) -> list[Place]:
            above = f"{rank}#{keys.by_due(max(start[0], 0), start[1])}#{LAST}"
            if start[0] < 0:
                above = f"{rank}#"
            items = self.table.query(pk, above, f"{rank}#{keys.digits(until)}#{LAST}", limit=limit)
            return [keys.read_place(item["sk"])[1:3] for item in items]

        return part

    def _finished(self, look: str) -> Part:
        def part(start: Place, until: Moment, limit: int) -> list[Place]:
            entries = self.table.look(look, *_bounds(start, until), limit=limit)
            return list(map(keys.read_by_due, entries))

        return part

    def _owned(self, owner: str) -> Part:
        def part(start: Place, until: Moment, limit: int) -> list[Place]:
            items = self.table.query(keys.owned(owner), *_bounds(start, until), limit=limit)
            return [keys.read_by_due(item["sk"]) for item in items]

        return part

    def _keyed(self, queue: str, key: str) -> Part:
        def part(start: Place, until: Moment, limit: int) -> list[Place]:
            pk = keys.keyed(queue, key)
            items = self.table.query(pk, *_bounds(start, until), limit=limit)
            places = [keys.read_by_due(item["sk"]) for item in items]
            _, holder = self._holders([(queue, key)]).get((queue, key), ("", None))
            if holder is not None:
                places += _within([(holder.record.due_at, holder.id)], start, until)
            return sorted(places)[:limit]

        return part

    def _live_of(self, queue: str) -> Part:
        def part(start: Place, until: Moment, limit: int) -> list[Place]:
            live = (job.record for job in self._live_jobs())
            places = ((one.due_at, one.id) for one in live if one.queue == queue)
            return sorted(_within(places, start, until))[:limit]

        return part


def _bounds(start: Place, until: Moment) -> tuple[str, str]:
    above = "" if start[0] < 0 else keys.by_due(*start)
    return above, keys.digits(until) + LAST


def _within(places: Iterable[Place], start: Place, until: Moment) -> list[Place]:
    return [one for one in places if start < one and one[0] <= until]


def _once(places: Iterator[Place]) -> Iterator[Place]:
    """Each place once: a job may have left one part for another meanwhile."""
    last: Sequence[object] = ()
    for place in places:
        if place != last:
            yield place
        last = place
