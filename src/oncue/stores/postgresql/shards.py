"""Shards that dispatchers hold, and lines: the waiting jobs of one shard and rank, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from oncue.core.moment import Moment
from oncue.stores.postgresql.tx import PgTx

FIRST_WAITING_RANK = 10  # below it: reclaimed work

PlaceInLine = tuple[int, Moment, str]
"""Rank, due time and id: the order of hand-over."""


def rank_of(priority: int, *, ahead: bool) -> int:
    """The rank of a waiting job, as the column of that name has it."""
    return (9 if ahead else 19) - priority


class PgRange(NamedTuple):
    """The range claim of a shard, as its row has it (`ranges.sql: columns`)."""

    queue: str
    shard: int
    fence: int
    holder: str | None
    """None: it was let go, or taken away."""
    lease_until: Moment
    lease_ms: int
    cutoff: Moment
    through_rank: int
    through_due: Moment
    through_id: str
    in_flight: int

    @property
    def through(self) -> PlaceInLine:
        return self.through_rank, self.through_due, self.through_id

    @property
    def is_open(self) -> bool:
        return self.holder is not None

    def end_in(self, rank: int) -> tuple[Moment, str] | None:
        """Due time and id of the last place that it covers in a line; None: it covers none."""
        if not self.is_open or rank > self.through_rank:
            return None
        if rank == self.through_rank:
            return min((self.through_due, self.through_id), (self.cutoff, LAST_TEXT))
        return self.cutoff, LAST_TEXT

    def covers(self, place: PlaceInLine) -> bool:
        return self.is_open and place[1] <= self.cutoff and place <= self.through


LAST_TEXT = "\U0010ffff"


class LineHead(NamedTuple):
    """The jobs that wait in one shard with one rank; the first of them."""

    shard: int
    rank: int
    due_at: Moment
    id: str

    @property
    def place(self) -> PlaceInLine:
        return self.rank, self.due_at, self.id

    @property
    def is_reclaimed(self) -> bool:
        return self.rank < FIRST_WAITING_RANK


def ranges_of(tx: PgTx, queues: Iterable[str]) -> list[PgRange]:
    """The ranges of these queues, also those that nobody holds."""
    return _read(tx.rows("ranges", "of_queues", {"queues": list(queues)}))


def open_ranges(tx: PgTx, *, lock: bool = False) -> list[PgRange]:
    return _read(tx.rows("ranges", "lock_open" if lock else "open"))


def _read(rows: Iterable[Sequence[Any]]) -> list[PgRange]:
    return [PgRange._make(row) for row in rows]


def close(tx: PgTx, held: PgRange) -> bool:
    """Take a shard away from its holder. False: it is no longer as it was seen."""
    tx.run("ranges", "close", held._asdict())
    return tx.changes() > 0


def lines(tx: PgTx, queue: str) -> list[LineHead]:
    return [LineHead._make(row) for row in tx.rows("claims", "lines", {"queue": queue})]


def first_outside(
    tx: PgTx, queue: str, heads: Iterable[LineHead], ranges: Iterable[PgRange]
) -> list[LineHead]:
    """Of each line the first job that no open range of its shard covers, where there is one."""
    held = {one.shard: one for one in ranges if one.queue == queue}
    found = []
    for line in heads:
        over = held.get(line.shard)
        end = None if over is None else over.end_in(line.rank)
        if end is not None and (line.due_at, line.id) <= end:
            place = {"queue": queue, "shard": line.shard, "rank": line.rank}
            params = {**place, "due_at": end[0], "id": end[1]}
            behind = tx.run("claims", "first_behind", params).fetchone()
            if behind is None:
                continue
            line = line._replace(due_at=behind[0], id=behind[1])
        found.append(line)
    return found
