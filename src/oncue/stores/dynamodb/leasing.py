"""The lease of a shard: which dispatcher delivers its jobs, and how far.

While a lease is held, the waiting jobs of the shard up to `through` that are due by `cutoff` count
as dispatched. Whoever changes one of them that is due soon makes sure, in the same transaction,
that no lease covers it. A dispatcher never takes what is due later than that. "Soon" goes by the
time of the service, which every answer tells anew: the clock of a machine that was set back is put
right by the answer that brings the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.record import Record
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.filing import Filing
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.writes import Check, If, Item, has, unchanged

LOOK_AHEAD_MS = 120_000  # how much earlier than due a dispatcher may take a job
MARGIN_MS = 10_000  # by so much the clocks of two nodes may differ
_FREE = "attribute_not_exists(#through) OR #through < :turn OR #cutoff < :due"


class ShardLease(NamedTuple):
    queue: str
    shard: int
    ver: int = 0
    fence: int = 0
    """Rises whenever the shard gets another holder, and is never reset."""
    holder: str | None = None
    """None: it was let go."""
    until: Moment = 0
    length_ms: int = 0
    cutoff: Moment = 0
    through: str = ""
    in_flight: int = 0
    counted: int = 0
    """How many of them count in the limits of the queue."""

    def covers(self, record: Record) -> bool:
        return (
            record.queue == self.queue
            and record.state is State.SCHEDULED
            and record.not_before is None
            and self.reaches(record.due_at, keys.turn_text(record.next_turn))
        )

    def reaches(self, due_at: Moment, turn: str) -> bool:
        """Whether a job that waits with this turn is inside the range."""
        return self.holder is not None and due_at <= self.cutoff and turn <= self.through

    def has_ended(self, now: Moment) -> bool:
        """Whether it is held longer than it was given."""
        return self.holder is not None and self.until <= now

    def stands(self) -> Check:
        """That its holder has not lost it."""
        return Check(keys.lease(self.queue, self.shard), has("fence", self.fence))

    def let_go(self) -> ShardLease:
        return ShardLease(self.queue, self.shard, self.ver, self.fence)

    def as_item(self, ver: int) -> Item:
        key = keys.lease(self.queue, self.shard)._asdict()
        if self.holder is None:
            return {**key, "ver": ver, "fence": self.fence}
        return {**key, **dict(zip(_STORED, self[3:], strict=True)), "ver": ver}


_STORED = ShardLease._fields[3:]


def read_lease(queue: str, shard: int, item: Item | None) -> ShardLease:
    """The lease of a shard; None: it was never taken."""
    if item is None:
        return ShardLease(queue, shard)
    stored = {name: item[name] for name in _STORED if name in item}
    return ShardLease(queue, shard, item["ver"], **stored)


class Leasing(Filing):
    def _with(
        self, known: KnownQueue, mark: Callable[[KnownQueue, Moment], KnownQueue], now: Moment
    ) -> KnownQueue:
        """The queue with a mark that stays for ever, if the table has the queue."""
        while known.ver and (then := mark(known, now)) != known:
            self.table.put(then.as_item(max(now, known.ver + 1)), unchanged(known.ver))
            known = self._fresh_queue(known.name)
        return known

    def _lease(self, queue: str, shard: int) -> ShardLease:
        return read_lease(queue, shard, self.table.get(keys.lease(queue, shard)))

    def _queue_and_lease(self, name: str, shard: int) -> tuple[KnownQueue, ShardLease]:
        """A queue and the lease of one of its shards, in one request."""
        queue_key, lease_key = keys.queue(name), keys.lease(name, shard)
        found = self.table.read([queue_key, lease_key])
        known = self._memory.learn(name, found.get(queue_key))
        return known, read_lease(name, shard, found.get(lease_key))

    def _leases(self, shards: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ShardLease]:
        wanted = dict.fromkeys(shards)
        found = self.table.read(keys.lease(*one) for one in wanted)
        return {one: read_lease(*one, found.get(keys.lease(*one))) for one in wanted}

    def _cover(self, jobs: Iterable[Filed]) -> None:
        """See which of these jobs are inside an open range."""
        soon = [job for job in jobs if self._may_be_covered(job)]
        leases = self._leases(_shard(job) for job in soon)
        for job in soon:
            job.record.covered = leases[_shard(job)].covers(job.record)

    def _may_be_covered(self, job: Filed) -> bool:
        latest = self.clock.now() + LOOK_AHEAD_MS + MARGIN_MS
        return job.line is not None and job.line.twin is None and job.record.due_at <= latest

    def _check_free(self, job: Filed) -> list[Check]:
        """What must hold so that a waiting job can be changed."""
        if not self._may_be_covered(job):
            return []
        turn, due_at = keys.turn_text(job.record.next_turn), job.record.due_at
        return [Check(keys.lease(*_shard(job)), If(_FREE, {"turn": turn, "due": due_at}))]


def _shard(job: Filed) -> tuple[str, int]:
    assert job.line is not None
    return job.record.queue, job.line.shard
