"""What a dispatcher asks for, and the shard from which it gets that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncue.core.moment import Moment
from oncue.stores.postgresql.locks import NO_PATIENCE_MS
from oncue.stores.postgresql.shards import LineHead, PgRange, PlaceInLine

SHARD_PATIENCE_MS = 20  # longer than the store itself shares a shard, and others wait behind it
WAITED_FOR = 4  # shards; if so many are shared, the others are only tried


class RangeAsked(NamedTuple):
    """What a dispatcher asks for."""

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
    shared: frozenset[int] = frozenset()
    """Shards whose locks others share for long: a transaction of theirs is open."""

    @property
    def patience_ms(self) -> int:
        """For the lock of the next shard."""
        return SHARD_PATIENCE_MS if len(self.shared) < WAITED_FOR else NO_PATIENCE_MS

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


class SharedByOthers(Exception):
    """Others share the lock of a shard for longer than it was waited for."""

    def __init__(self, shard: int) -> None:
        super().__init__()
        self.shard = shard
