"""Before jobs of a queue are taken: how many may be, what has expired, what is in line again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from oncue.core import rate
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.putoff import back_in_line_until
from oncue.core.queue import Queue
from oncue.core.rate import Bucket
from oncue.ports.clock import Clock
from oncue.stores.postgresql import records
from oncue.stores.postgresql.jobs import PgJobs
from oncue.stores.postgresql.known_lines import FULL_LOOK_SECONDS, LONGEST_SECONDS, SHARE
from oncue.stores.postgresql.settings import QueueRow, queue_row, rows_of
from oncue.stores.postgresql.shards import LineHead, PgRange, first_outside, lines
from oncue.stores.postgresql.tx import Asked, PgTx

EXPIRED_AT_ONCE = 500  # jobs that are cancelled by one look
EXPIRED_SEEN = 100  # of all queues, to see whether there are any of one
BACK_TOGETHER = 1000  # put-off jobs that are in line again by one look
EVER = -1
_PLACE = attrgetter("place")


class QueueLook(NamedTuple):
    """The facts about a queue that are read before anything is taken from it."""

    row: QueueRow | None
    """None: there is no row; the queue has default settings."""
    lines: list[LineHead]
    returning: Sequence[tuple[str, int, Moment]]
    """Put-off jobs whose moment has come: id, rank, moment."""
    expired: bool
    """Whether something has expired that would be taken."""


class ReadyQueue(NamedTuple):
    """A queue from which jobs may be taken."""

    row: QueueRow | None
    """None: there is no row; the queue has default settings."""
    room: int
    lines: list[LineHead]
    bucket: Bucket | None = None
    changed: bool = False
    """Whether expired jobs were cancelled or put-off jobs are in line again."""


class Expiries:
    """The moment since which jobs may have expired without being cancelled.

    Jobs that had an expiry and are done leave dead entries in its index until vacuum removes them,
    and it removes none while a long transaction is open. So a look begins where the last look at
    everything found the first expired job, and reads a hundred at most: a million may expire at
    once. A job that a look misses is not handed over; a later look or the reclaimer cancels it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: tuple[Moment, float] = (EVER, 0.0)
        """Replaced as a whole: any thread may read it."""

    def since(self) -> Moment:
        """EVER: everything is to be looked at."""
        since, good_until = self._known
        return since if self._clock.monotonic() < good_until else EVER

    def learn(self, now: Moment, begun: float, first: Moment | None) -> None:
        """Note the result of a look at all jobs that have expired by `now`, which began at `begun`
        (monotonic clock). `first`: when the first of them expired; None: there was none."""
        at = self._clock.monotonic()
        rest = min(max(SHARE * (at - begun), FULL_LOOK_SECONDS), LONGEST_SECONDS)
        self._known = now if first is None else first - 1, at + rest


class PgReadying(PgJobs):
    _expiries: Expiries

    def _look(
        self,
        tx: PgTx,
        names: Sequence[str],
        now: Moment,
        locks: Iterable[int] = (),
        until: Moment | None = None,
    ) -> tuple[list[PgRange], dict[str, QueueLook]]:
        """The ranges of these queues and what each has, read in one journey after these locks are
        shared. Before, the rows of queues with limits are locked, in the order of names: limits
        hold for all who take from a queue. What is due by `until` is looked for; None: by now.
        Without locks no transaction is begun: mostly nothing is to be taken."""
        limited = any(self._settings.queue(name).is_limited for name in names)
        numbers, read = sorted(locks), "lock_named" if limited else "named"
        first: list[Asked] = [("queues", read, {"names": list(names)})]
        if numbers:
            first.append(("locks", "share", {"numbers": numbers}))
        first.append(("ranges", "of_queues", {"queues": list(names)}))
        begun = {name: self._known_lines.begin(name, self._shards_of(name)) for name in names}
        since, began = self._expiries.since(), self.clock.monotonic()
        asked: list[Asked] = []
        for name, lines_of in begun.items():
            expired = {"until": now if until is None else until, "since": since}
            asked += (lines_of.statement, *_asked_of_queue(name, now, expired))
        if since == EVER:
            asked.append(("claims", "first_expired", {"now": now}))
        look = tx.together if limited or numbers else tx.peek
        answers = look(*first, *asked)
        if since == EVER:
            first_expired = [at for [at] in answers.pop()]
            self._expiries.learn(now, began, min(first_expired, default=None))
        queues, ranges, rest = answers[0], answers[len(first) - 1], answers[len(first) :]
        rows = {row[0]: queue_row(*row) for row in queues}
        if not limited and any(row.queue.is_limited for row in rows.values()):
            rows = rows_of(tx, list(names), lock=True)
            ranges = tx.rows(*first[-1])  # as they are now that nobody else takes jobs
        looks = {}
        found = zip(names, rest[::3], rest[1::3], rest[2::3], strict=True)
        for name, firsts, returning, [[expired]] in found:
            heads = list(map(LineHead._make, firsts))
            self._known_lines.learn(begun[name], heads)
            looks[name] = QueueLook(rows.get(name), heads, returning, expired)
        return list(map(PgRange._make, ranges)), looks

    def _make_ready(
        self,
        tx: PgTx,
        name: str,
        look: QueueLook,
        limit: int,
        until: Moment,
        now: Moment,
        ranges: Sequence[PgRange],
        first: LineHead | None = None,
    ) -> ReadyQueue:
        """How many jobs may be taken that are due by `until`, at most `limit`. If there is room and
        something waits (`first`: also inside a range of the caller's own), what has expired is
        cancelled, and put-off jobs are in line again. Else nothing is changed."""
        row, found, returning, expired = look
        due = first is not None or any(line.due_at <= until for line in found)
        if not due and not returning:
            return ReadyQueue(row, 0, found)
        room = self._room(tx, row, ranges, limit, now)
        if row is not None and room.bucket is not None and room.begun_again:
            self._keep_bucket(tx, name, room.bucket)
        changed = False
        if room.most and expired and self._expire_due(tx, name, until, now):
            found, changed = lines(tx, name), True
        if room.most and returning:
            waiting = first_outside(tx, name, found, ranges)
            ahead = [one for one in (first, *waiting) if one is not None and one.due_at <= now]
            if self._bring_back(tx, name, returning, min(ahead, key=_PLACE, default=None), now):
                found, changed = lines(tx, name), True
        return ReadyQueue(row, room.most, found, room.bucket, changed)

    def _room(
        self,
        tx: PgTx,
        row: QueueRow | None,
        ranges: Sequence[PgRange],
        limit: int,
        now: Moment,
    ) -> rate.Room:
        if row is None:
            return rate.Room(limit)
        return row.limits.room(self._under_way(tx, row.queue, ranges), limit, now)

    def _under_way(self, tx: PgTx, queue: Queue, ranges: Iterable[PgRange]) -> int:
        """How many jobs are taken, as far as that matters: without a concurrency, 0."""
        if queue.concurrency is None:
            return 0
        params = {"queue": queue.name, "limit": queue.concurrency}
        live: int = tx.run("claims", "count_live", params).get
        return live + sum(one.in_flight for one in ranges if one.is_open)

    def _keep_bucket(self, tx: PgTx, name: str, bucket: Bucket) -> None:
        tx.run(*_bucket(name, bucket))

    def _spent(self, ready: ReadyQueue, count: int) -> list[Asked]:
        """The statements that note that so many were taken from a queue that had room for them."""
        if ready.row is None or ready.bucket is None or not count:
            return []
        return [_bucket(ready.row.queue.name, rate.take(ready.bucket, count))]

    def _expire_due(self, tx: PgTx, name: str, until: Moment, now: Moment) -> bool:
        """Cancel what has expired and would be taken. Whether anything was."""
        params = {"queue": name, "until": until, "now": now, "limit": EXPIRED_AT_ONCE}
        params |= {"since": self._expiries.since()}
        ids = [row[0] for row in tx.rows("claims", "expired_due", params)]
        return bool(ids and self._expire(tx, ids, now))

    def _expire(self, tx: PgTx, job_ids: Sequence[str], now: Moment) -> int:
        """Cancel those of these jobs that have expired, are not being delivered, and which nobody
        holds. How many."""
        over = [
            one
            for one in self._lock_waiting(tx, job_ids, free=True).values()
            if one.record.state is State.SCHEDULED
            and not one.record.covered
            and one.record.has_lapsed(now)
        ]
        for one in over:
            one.record.expire(now)
        records.save(tx, over)
        return len(over)

    def _bring_back(
        self,
        tx: PgTx,
        queue: str,
        returning: Sequence[tuple[str, int, Moment]],
        first: LineHead | None,
        now: Moment,
    ) -> bool:
        """Give put-off jobs whose moment has come their place in line again. `first`: the job that
        would be handed over next. Those that somebody holds stay put off. Whether any was."""
        back = [
            job_id
            for job_id, rank, not_before in returning
            if not_before
            <= back_in_line_until(now, first.due_at if first and rank >= first.rank else None)
        ]
        back = list(self._lock_waiting(tx, back, free=True)) if back else []
        if not back:
            return False
        for due_at, rank in tx.rows("claims", "back_in_line", {"ids": back, "until": now}):
            tx.tell(queue, due_at, rank)
        return True


def _asked_of_queue(name: str, now: Moment, expired: dict[str, Moment]) -> list[Asked]:
    """What returns to the queue, and whether something in it has expired."""
    params = {"queue": name, "now": now}
    return [
        ("claims", "returning", {**params, "limit": BACK_TOGETHER}),
        ("claims", "is_expired_due", {**params, **expired, "limit": EXPIRED_SEEN}),
    ]


def _bucket(name: str, bucket: Bucket) -> Asked:
    return "queues", "put_bucket", {"name": name, "turns": bucket.turns, "filled_at": bucket.at}
