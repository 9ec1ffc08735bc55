"""The request of a dispatcher, and the shard from which it gets jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncue.core.moment import Moment
from oncue.ports.clock import Clock
from oncue.stores.postgresql.locks import NO_PATIENCE_MS
from oncue.stores.postgresql.shards import LineHead, PgRange, PlaceInLine

SHARD_PATIENCE_MS = 20  # longer than transactions of the store itself share the lock of a shard
LONGEST_PATIENCE_MS = 320
SHARE = 5  # after a wait in vain, the lock is only tried for so many times the length of the wait
WAITED_FOR = 4  # shards; if so many are shared, the others are only tried


class RangeAsked(NamedTuple):
    """The request of a dispatcher."""

    queue: str
    dispatcher: str
    limit: int
    cutoff: Moment
    now: Moment
    lease_ms: int
    expires: bool = True
    """Whether jobs that have expired are cancelled before. Once is enough: they are not taken."""
    passed_over: frozenset[int] = frozenset()
    """Shards of which nothing could be taken."""
    at_once: bool = True
    """Whether one journey reads the next jobs of a shard and covers them. That costs the server
    half a microsecond more for each job, so it is not done while other batches are in flight, and
    not again after it has found nothing."""
    shared: frozenset[int] = frozenset()
    """Shards whose locks are shared for long by open transactions of others."""

    def beside(self, shard: int) -> RangeAsked:
        """Leave out a shard that others share for long."""
        return self._replace(shared=self.shared | {shard})


class ChosenShard(NamedTuple):
    """The shard from which jobs are taken next."""

    number: int
    lines: list[LineHead]
    seen: PgRange | None
    """Its range; None: it never had one."""
    flying: set[str] | None
    """The jobs in flight, if its dispatcher goes on with the range; None: it takes a new one."""
    arrived: Sequence[PlaceInLine]
    """Jobs that have come into that range since it was taken."""

    @property
    def held(self) -> PgRange | None:
        """The range with which its dispatcher goes on."""
        return None if self.flying is None else self.seen

    @property
    def fence(self) -> int:
        """The fence of its range when that was read. 0: it has none."""
        return 0 if self.seen is None else self.seen.fence


class ShardPatience:
    """For how long a dispatcher waits for the lock of a shard. If many transactions share a lock in
    turn, it is never free. A dispatcher that waits for it gets it before transactions that come
    later. But while it waits, they wait behind it. So after a wait in vain it only tries the lock
    for five times as long, and then waits twice as long as before, up to a limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waited: dict[tuple[str, int], tuple[int, float]] = {}
        """By queue and shard, after a wait in vain: its milliseconds, and when to wait again."""

    def of(self, asked: RangeAsked, shard: int) -> int:
        """For how many milliseconds to wait for the lock of this shard."""
        if len(asked.shared) >= WAITED_FOR:
            return NO_PATIENCE_MS
        waited_ms, again_at = self._waited.get((asked.queue, shard), (0, 0.0))
        if not waited_ms:
            return SHARD_PATIENCE_MS
        is_rested = self._clock.monotonic() >= again_at
        return min(2 * waited_ms, LONGEST_PATIENCE_MS) if is_rested else NO_PATIENCE_MS

    def had(self, queue: str, shard: int) -> None:
        """Note that the lock was got."""
        self._waited.pop((queue, shard), None)

    def waited(self, queue: str, shard: int, patience_ms: int) -> None:
        """Note a wait in vain."""
        if patience_ms > NO_PATIENCE_MS:
            again_at = self._clock.monotonic() + SHARE * patience_ms / 1000
            self._waited[queue, shard] = (patience_ms, again_at)


class SharedByOthers(Exception):
    """Other transactions still shared the lock of a shard when the wait for it ended."""

    def __init__(self, shard: int) -> None:
        super().__init__()
        self.shard = shard
