"""How workers' claims end in DynamoDB: settled by the worker, or reclaimed; and what expires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from oncue.core.fencing import GONE, Refused, Settlement, state_after
from oncue.core.job import Lapse
from oncue.core.lifecycle import State
from oncue.core.missed import Judge, Missed, is_astray, moved_lease
from oncue.core.missed import Look as Glance
from oncue.core.moment import Moment
from oncue.core.putoff import moved_return
from oncue.core.queue import Queue
from oncue.core.rate import begun_again
from oncue.core.record import Record
from oncue.core.retry import Verdict
from oncue.ports.claims import Leases, Settled
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.claims import DynamoClaims
from oncue.stores.dynamodb.codec import from_text, to_text
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Saving, what_was
from oncue.stores.dynamodb.keys import EXPIRING_SHARDS, LAST, PUT_OFF
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.leasing import ShardLease
from oncue.stores.dynamodb.live import LIVE_LOOKS
from oncue.stores.dynamodb.writes import unchanged


class DynamoEndings(DynamoClaims):
    """Implements the ends of claims of `oncue.ports.claims.ClaimStore`."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        queue_of = cache(self._fresh_queue)

        def act(job: Filed, settlement: Settlement) -> tuple[Refused | State, bool]:
            record = job.record
            queue = queue_of(record.queue).queue
            outcome = None if _is_forgotten(record, queue, now) else record.outcome_of(settlement)
            if outcome is not None:
                return state_after(outcome), False
            return (GONE, False) if record.hidden else self._settled(record, settlement, queue, now)

        answers = self.each_job([(one.id, one) for one in settlements], act, now)
        self._news.tell()
        refused = {at: one for at, one in enumerate(answers) if isinstance(one, Refused)}
        states = {at: one for at, one in enumerate(answers) if isinstance(one, State)}
        return Settled(refused, {at: states[at] for at in states if settlements[at].tells_state})

    def _settled(
        self, record: Record, settlement: Settlement, queue: Queue, now: Moment
    ) -> tuple[Refused | State, bool]:
        before = record.diagnostics[-1:]
        ending = record.settle(settlement, queue, now)
        if isinstance(ending, Refused):
            return ending, record.diagnostics[-1:] != before
        if ending is not None and ending.is_final and not queue.keeps_history:
            state = record.state
            record.hide()
            return state, True
        return record.state, True

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> Mapping[int, Refused]:
        queue_of = cache(self._fresh_queue)

        def act(job: Filed, asked: tuple[Lapse, Verdict]) -> tuple[Refused | None, bool]:
            record = job.record
            if record.hidden:
                return GONE, False
            ending = record.reclaim(*asked, now)
            if isinstance(ending, Refused):
                return ending, False
            queue = queue_of(record.queue).queue  # also for `save`, which uses what is remembered
            if ending.is_final and not queue.keeps_history:
                record.hide()
            return None, True

        answers = self.each_job([(one[0].id, one) for one in verdicts], act, now)
        self._news.tell()
        return {at: one for at, one in enumerate(answers) if isinstance(one, Refused)}

    def expire(self, now: Moment, limit: int) -> int:
        entries = self._expiring(keys.digits(now) + LAST, limit)
        jobs = self.read_records((keys.read_by_due(at)[1] for at in entries), what_was)
        self._cover(jobs.values())
        waiting = [
            job
            for job in jobs.values()
            if job.record.state is State.SCHEDULED and not job.record.covered
        ]
        over = [job for job in waiting if job.record.has_lapsed(now)]
        done = self.save([self._expiry(job, now) for job in over], now)
        self._news.tell()
        return sum(done)

    def leases(self) -> Leases:
        live = self.table.first_entries(LIVE_LOOKS, "", LAST, 1)
        lapses = [at for at, _ in map(keys.read_by_due, live) if at < keys.NEVER]
        running = bool(lapses or self._open_ranges())
        lapses += [at for at, _ in map(keys.read_by_due, self._expiring(LAST, 1))]
        return Leases(running, self._last_look()[0], min(lapses, default=None))

    def _expiring(self, upto: str, limit: int) -> list[str]:
        """The first entries of waiting jobs that expire."""
        looks = map(keys.expiring, range(EXPIRING_SHARDS))
        return self.table.first_entries(looks, "", upto, limit)

    def _open_ranges(self) -> list[tuple[ShardLease, KnownQueue]]:
        """The shards that are held, of all queues."""
        queues = {one.name: one for one in self._all_queues() if one.ranges}
        leases = self._leases((one.name, shard) for one in queues.values() for shard in one.shards)
        return [(one, queues[one.queue]) for one in leases.values() if one.holder is not None]

    def _last_look(self) -> tuple[Glance | None, int]:
        item = self.table.get(keys.LAST_LOOK)
        if item is None:
            return None, 0
        return Glance(*from_text(item["rec"])), item["ver"]

    def has_leases_astray(self, now: Moment) -> bool:
        ranges = self._open_ranges()
        if any(is_astray(one.until, one.length_ms, now) for one, _ in ranges):
            return True
        return any(
            job.record.lease.is_astray(job.record.updated_at, now) for job in self._live_jobs()
        )

    def judge_leases(self, judge: Judge) -> Missed | None:
        """The look is recorded first: of several that judge at the same time, one moves leases. If
        it dies in between, claims are lost early, and their late writes are refused."""
        while True:
            last, ver = self._last_look()
            judged = judge(last)
            if judged is None:
                return None
            look, missed = judged
            item = {**keys.LAST_LOOK._asdict(), "ver": ver + 1, "rec": to_text(look)}
            if self.table.put(item, unchanged(ver)):
                break
        if missed is not None:
            self._move_leases(missed)
            self._news.tell()
        return missed

    def _move_leases(self, missed: Missed) -> None:
        """Each lease is judged by the time at which it was read, however long that took: by an
        earlier one, it would seem to be from before the clock was set back. If a job changes
        meanwhile, its worker was heard: that is a new lease."""
        now = self.clock.now
        moved = [job for job in self._live_jobs() if _is_moved(job.record, missed, now())]
        self.save([Saving(job) for job in moved], now())
        for lease, known in self._open_ranges():
            until = moved_lease(lease.until, lease.length_ms, missed.ranges_ms, now())
            if until < lease.until:
                self._news.add(lease.queue, until)
            if until != lease.until:
                self.write_lease(lease, lease._replace(until=until), known, now())
        for known in self._all_queues():
            self._begin_again(known)

    def _begin_again(self, known: KnownQueue) -> None:
        """Buckets from before the clock was set back begin again, and no job is put off longer than
        the policy of its queue ever does."""
        under_way = self._under_way(known.name)
        now = self.clock.now()
        if under_way.bucket is not None and under_way.bucket.at > now:
            bucket = begun_again(under_way.bucket, now)
            self.table.put(*under_way._replace(bucket=bucket).as_put(known.name, now))
        latest = moved_return(keys.NEVER, known.queue.retry, now)
        for pk in known.lines():
            above = f"{PUT_OFF}#{keys.digits(latest)}"
            items = list(self.table.query(pk, above, PUT_OFF + LAST))
            savings = []
            for job in self._good(items, now):
                not_before = job.record.not_before or 0
                until = moved_return(not_before, known.queue.retry, now)
                if until < not_before:
                    job.record.not_before = until
                    savings.append(Saving(job))
            self.save(savings, now)


def _is_forgotten(record: Record, queue: Queue, now: Moment) -> bool:
    """Whether a job went with its claim so long ago that the claim is not known any more."""
    lease_ms = round(queue.lease_seconds * 1000)
    return record.hidden and now >= (record.finished_at or 0) + lease_ms


def _is_moved(record: Record, missed: Missed, now: Moment) -> bool:
    """Judge a claim anew after so much was missed; whether that changed it."""
    if record.lapses_at is None:
        return False
    before = record.lease, record.overlong_at, record.updated_at
    record.move(missed.claims_ms, now)
    return before != (record.lease, record.overlong_at, record.updated_at)
