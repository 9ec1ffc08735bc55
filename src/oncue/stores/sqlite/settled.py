"""Settled claims on jobs that are gone, in SQLite: so that a repetition is recognised."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple
from zlib import crc32

from oncue.core.fencing import Settlement, possible_words, words
from oncue.core.moment import Moment
from oncue.stores.sqlite import rows

SQL = rows.load("claims")
_FEW = 16  # marks that are sought one by one, which is faster than to look at every mark of a call


class Departed(NamedTuple):
    """Settlements in a queue that keeps no history: their jobs are gone now, or when they end."""

    settlements: Sequence[Settlement]
    outcome: str
    lease_seconds: float
    """Of their queue: for so long a repetition is recognised."""

    @property
    def words(self) -> str:
        alike = (list(group) for _, group in groupby(self.settlements, _alike))
        return "".join([words([one.id for one in same], same[0], self.outcome) for same in alike])


_alike = attrgetter("epoch", "verb", "result", "error")


def remember_settled(tx: rows.Tx, gone: Sequence[Departed], now: Moment) -> None:
    """Keep the settlements of one call as one row, as long as the longest of their leases: a row
    for each job would cost as much as the job. Rows whose time is over are removed."""
    if gone:
        marks = _marks([one for some in gone for one in some.settlements])
        claims = "".join([some.words for some in gone])
        _remember(tx, marks, claims, max(some.lease_seconds for some in gone), now)


def remember_range(tx: rows.Tx, digest: bytes, lease_seconds: float, now: Moment) -> None:
    """Keep as one row that all jobs of a worker's range were completed."""
    _remember(tx, array("I", [crc32(digest)]), digest.hex(), lease_seconds, now)


def is_range_completed(tx: rows.Tx, digest: bytes, now: Moment) -> bool:
    params = {"marks": rows.numbers([crc32(digest)]), "now": now}
    return (digest.hex(),) in rows.fetch(tx, SQL["settled_alone"], params)


def _remember(
    tx: rows.Tx, marks: array[int], claims: str, lease_seconds: float, now: Moment
) -> None:
    alone = len(marks) == 1
    row = {
        "until": now + round(lease_seconds * 1000),
        "mark": marks[0] if alone else None,
        "marks": None if alone else marks.tobytes(),
        "claims": claims,
    }
    tx.execute(SQL["settle"], row)
    tx.execute(SQL["forget_settled"], {"now": now})


def outcomes_of(tx: rows.Tx, settlements: Sequence[Settlement], now: Moment) -> list[str | None]:
    """For each, with which outcome this very write settled its claim before, as far as that is
    remembered. A claim that was settled alone is found by an index. Of those that were settled
    together with others, four bytes of each are read."""
    asked = [possible_words(one) for one in settlements]
    wanted = {word for words in asked for word in words}
    missing = len({(one.id, one.epoch) for one in settlements})
    found: set[str] = set()
    for claims in _candidates(tx, _marks(settlements), now):
        found |= wanted.intersection(claims.split(" "))
        if len(found) >= missing:
            break
    return [next((end for word, end in words.items() if word in found), None) for words in asked]


def _candidates(tx: rows.Tx, marks: array[int], now: Moment) -> Iterator[str]:
    """The claims of all rows that have one of these marks."""
    params = {"marks": rows.numbers(marks), "now": now}
    yield from (claims for [claims] in rows.fetch(tx, SQL["settled_alone"], params))
    wanted = set(marks)
    sought = [array("I", [mark]).tobytes() for mark in wanted] if len(wanted) <= _FEW else None
    # The newest first: a worker that got no answer repeats soon.
    found: Any = tx.execute(SQL["settled_marks"], {"now": now})
    for seq, others in found:
        if sought is None:
            may_be = not wanted.isdisjoint(memoryview(others).cast("I"))
        else:
            may_be = any(mark in others for mark in sought)
        if may_be:
            [claims] = rows.first(tx, SQL["settled_claims"], {"seq": seq})
            yield claims


def _marks(settlements: Sequence[Settlement]) -> array[int]:
    return array("I", [crc32(one.id.encode()) for one in settlements])
