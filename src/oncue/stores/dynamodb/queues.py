"""Queues in DynamoDB: settings, deletion, when something is next due, and what was kept long
enough."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice

from oncue.core.lacks import uncounted
from oncue.core.lifecycle import FINAL
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue, QueueStats, why_kept
from oncue.core.retention import Pruned, Retention
from oncue.core.schedule import Schedule
from oncue.ports.queues import QueueDeletion
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.event_pruning import DynamoEventPruning
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving, what_was
from oncue.stores.dynamodb.keys import LAST, NEVER, PUT_OFF
from oncue.stores.dynamodb.known import LONG_AGO, KnownQueue
from oncue.stores.dynamodb.leasing import LOOK_AHEAD_MS, MARGIN_MS, ShardLease
from oncue.stores.dynamodb.lines import Head
from oncue.stores.dynamodb.listing import DynamoListing
from oncue.stores.dynamodb.schedules import DynamoSchedules
from oncue.stores.dynamodb.writes import unchanged

REVIVED_WITHIN_MS = 3_600_000
"""For so long after its deletion, and once more after that, a queue is looked at for a job that
arrived just then."""


class DynamoQueues(DynamoListing, DynamoSchedules, DynamoEventPruning):
    """Implements `oncue.ports.queues.QueueStore`."""

    def queues(self) -> list[Queue]:
        now = self.clock.now()
        found = [self._revived(known, now) for known in self._all_queues()]
        return [known.queue for known in found if known.exists]

    def _revived(self, known: KnownQueue, now: Moment) -> KnownQueue:
        """A deleted queue is there again if a job arrived while it was deleted."""
        if not known.deleted_at:
            return known
        if self._has_waiting(known):
            return self._register([known.name], now)[known.name]
        if now > known.deleted_at + REVIVED_WITHIN_MS:
            item = replace(known, deleted_at=LONG_AGO).as_item(max(now, known.ver + 1))
            self.table.put(item, unchanged(known.ver))
        return known

    def _has_waiting(self, known: KnownQueue) -> bool:
        """An item that a crash left behind, or that came late, is no job."""
        return any(map(self._is_in_use, known.lines()))

    def _is_in_use(self, pk: str) -> bool:
        above, now = "", self.clock.now()
        while items := list(self.table.query(pk, above, limit=10)):
            if self._good(items, now, what_was):
                return True
            above = items[-1]["sk"]
        return False

    def put_queue(self, seen: Queue | None, queue: Queue) -> bool:
        now = self.clock.now()
        known = self._fresh_queue(queue.name)
        stored = known.queue if known.exists else None
        if stored != seen:
            return False
        then = known.set(queue, self._memory.default_shards)
        if not self.table.put(then.as_item(max(now, known.ver + 1)), unchanged(known.ver)):
            return False
        self._fresh_queue(queue.name)
        if queue.concurrency is not None and known.queue.concurrency is None:
            self._count_live(queue.name, now)
        self._tell_settings(now)
        self._news.tell()
        return True

    def _count_live(self, name: str, now: Moment) -> None:
        """Count what was taken before the queue had a limit."""
        live = [Saving(job) for job in self._live_jobs() if job.record.queue == name]
        self.save([one for one in live if not one.job.counted], now)
        for lease, known in self._open_ranges():
            if lease.queue == name:
                self.write_lease(lease, lease, known, now)

    def delete_queue(self, name: str, now: Moment, limit: int) -> QueueDeletion:
        known = self._fresh_queue(name)
        why = why_kept(
            name,
            unfinished=self._has_unfinished(known),
            schedule=self._schedule_of(name),
            rule=self._rule_of(name),
        )
        if why is not None:
            return QueueDeletion("kept", why)
        if not known.exists:
            return QueueDeletion("unknown")
        if self._prune_queue(known, LATEST, now, limit) >= limit:
            return QueueDeletion("more")
        gone = replace(known, queue=self._memory.new(name).queue, deleted_at=now)
        if not self.table.put(gone.as_item(max(now, known.ver + 1)), unchanged(known.ver)):
            return QueueDeletion("more")
        self.table.remove(keys.limit(name))
        self._tell_settings(now)
        self._news.tell()
        return self._after_deletion(name)

    def _after_deletion(self, name: str) -> QueueDeletion:
        """A job may have arrived after the look and before the deletion: then it is there again."""
        known = self._fresh_queue(name)
        if known.deleted_at is not None and self._has_waiting(known):
            self._register([name], self.clock.now())
            return QueueDeletion("kept", f"queue {name} has got new jobs just now.")
        return QueueDeletion("deleted")

    def _has_unfinished(self, known: KnownQueue) -> bool:
        if self._has_waiting(known):
            return True
        return any(job.record.queue == known.name for job in self._live_jobs())

    def _schedule_of(self, queue: str) -> str | None:
        """A schedule that makes jobs for the queue."""
        return next((one.name for one in self._every_schedule() if _makes(one, queue)), None)

    def _rule_of(self, queue: str) -> str | None:
        """A rule that makes jobs for the queue."""
        return next((one.name for one in self._every_rule() if one.queue == queue), None)

    def stats(self, name: str) -> QueueStats:
        return QueueStats({}, None)

    def due_counts(
        self, name: str, start: Moment, until: Moment, step_ms: int
    ) -> Mapping[Moment, int]:
        raise uncounted()

    # When something is next due.

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        return min(self._all_dues(queues).values(), default=None)

    def look_for_news(self, queues: Collection[str] | None) -> tuple[str, dict[str, Moment]]:
        """See `news.py: Look`."""
        changes = self.table.get(keys.CHANGES)
        mark = "" if changes is None else changes["mark"]
        if queues is None:
            queues = [known.name for known in self._all_queues()]
        return mark, self._all_dues(queues)

    def _all_dues(self, queues: Collection[str]) -> dict[str, Moment]:
        known = [one for one in self._fresh(queues).values() if one.exists]
        dues = zip(known, self.table.each(self._next_dues, known), strict=True)
        return {one.name: min(moments) for one, moments in dues if moments}

    def _next_dues(self, known: KnownQueue) -> list[Moment]:
        """When something of the queue can be taken, as far as can be told."""
        if known.queue.paused:
            return []
        heads = dict(zip(known.shards, self.table.each(self._head, known.lines()), strict=True))
        leases = self._open_leases(known, heads)
        moments = [lease.until for lease in leases.values()]
        if not known.queue.is_limited:
            return moments + self._dues(heads, leases)
        under_way = self._under_way(known.name)
        limits = under_way.limits(known.queue)
        if not limits.is_full(under_way.in_flight):
            moments += self._dues(heads, leases)
        return limits.next_turns(moments)

    def _open_leases(self, known: KnownQueue, heads: Mapping[int, Head]) -> dict[int, ShardLease]:
        """Of the shards that are held, those whose end may matter: what is due later than a
        dispatcher ever looks is not covered. The limits of a queue count what all of them hold."""
        if not known.ranges:
            return {}
        latest = NEVER if known.queue.is_limited else self.clock.now() + LOOK_AHEAD_MS + MARGIN_MS
        wanted = [one for one, head in heads.items() if min(head.values(), default=NEVER) <= latest]
        found = self._leases((known.name, shard) for shard in wanted).values()
        return {one.shard: one for one in found if one.holder is not None}

    def _dues(self, heads: Mapping[int, Head], leases: Mapping[int, ShardLease]) -> list[Moment]:
        """The first due times of all shards that no range covers."""
        dues: list[Moment] = []
        for shard, head in heads.items():
            dues += self._beyond(leases[shard], head) if shard in leases else head.values()
        return dues

    def _beyond(self, lease: ShardLease, head: Head) -> list[Moment]:
        """The first due time of each rank behind an open range."""
        pk = keys.line(lease.queue, lease.shard)
        last_rank = lease.through.partition("#")[0]
        found: list[Moment] = []
        for rank, first in head.items():
            if rank == PUT_OFF or rank > last_rank:
                found.append(first)
                continue
            covered = f"{rank}#{keys.digits(lease.cutoff)}#{LAST}"
            if rank == last_rank:
                covered = min(covered, f"{lease.through}#{LAST}")
            item = next(self.table.query(pk, covered, rank + LAST, limit=1), None)
            if item is not None:
                found.append(keys.read_place(item["sk"]).moment)
        return found

    # What was kept long enough.

    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """The time to live removes what each queue keeps no longer. Only what is to go earlier than
        that is looked for here."""
        more = False
        for known in self._fresh(kept.finished_before).values():
            before = kept.finished_before[known.name]
            seconds = known.queue.retention_seconds
            if known.exists and (seconds is None or before > now - round(seconds * 1000)):
                more = self._prune_queue(known, before, now, limit) >= limit or more
        more = self._prune_events(now, kept.bounds, limit) or more
        return Pruned(None, more)

    def _prune_queue(self, known: KnownQueue, before: Moment, now: Moment, limit: int) -> int:
        """Remove finished jobs of a queue, the first due ones first. How many."""
        looks = [
            keys.finished(known.name, state, shard) for state in FINAL for shard in known.shards
        ]
        entries = self._in_order(looks, limit)
        over: list[Filed] = []
        while len(over) < limit and (some := list(islice(entries, limit))):
            jobs = self.read_records((keys.read_by_due(at)[1] for at in some), what_was).values()
            over += [job for job in jobs if job.is_visible(now) and _ended_before(job, before)]
        for job in over[:limit]:
            job.record.hide()
        self.save([Saving(job) for job in over[:limit]], now)
        return len(over[:limit])

    def _in_order(self, looks: Sequence[str], at_once: int) -> Iterator[str]:
        """All entries of some parts of the index, merged in their order. Of the parts together,
        about so many are read at a time."""
        most = at_once // len(looks) + 1

        def rest(look: str, part: list[str]) -> Iterator[str]:
            yield from part
            while len(part) == most:
                part = list(self.table.look(look, part[-1], limit=most))
                yield from part

        firsts = self.table.each(lambda look: list(self.table.look(look, limit=most)), looks)
        return merge(*map(rest, looks, firsts))


def _ended_before(job: Filed, before: Moment) -> bool:
    return job.record.finished_at is not None and job.record.finished_at < before


def _makes(schedule: Schedule, queue: str) -> bool:
    return schedule.queue == queue and schedule.emits is None
