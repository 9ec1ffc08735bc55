"""Settled claims on jobs that are gone, in SQLite: so that a repetition is recognised."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from zlib import crc32

import apsw

from oncue.core.fencing import Settlement, Write, words
from oncue.core.moment import Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("claims")
_FEW = 16  # marks that are sought one by one, which is faster than to look at every mark of a call


class Settled:
    """What one call settled of jobs that are gone. It is kept as one row, as long as the longest of
    their leases: a row for each job would cost as much as the job."""

    def __init__(self, tx: apsw.Connection, now: Moment) -> None:
        self._tx = tx
        self._now = now
        self._words: list[str] = []
        self._ids: list[str] = []
        self._lease_seconds = 0.0

    def add(self, one: Settlement) -> None:
        self._words.append(_word(one))
        self._ids.append(one.id)
        self._lease_seconds = max(self._lease_seconds, one.lease_seconds)

    def add_all(self, group: Sequence[Settlement]) -> None:
        """Add completions of the same epoch."""
        if any(one.result is not None for one in group):
            for one in group:
                self.add(one)
            return
        first = group[0]
        ids = [one.id for one in group]
        self._words.append(words(ids, first.epoch, Write("complete")))
        self._ids += ids
        longest = max(one.lease_seconds for one in group)
        self._lease_seconds = max(self._lease_seconds, longest)

    def keep(self) -> None:
        """Write the row, and remove those whose time is over."""
        if self._words:
            until = self._now + round(self._lease_seconds * 1000)
            marks = _marks(self._ids)
            alone = len(marks) == 1
            row = {
                "until": until,
                "mark": marks[0] if alone else None,
                "marks": None if alone else marks.tobytes(),
                "claims": "".join(self._words),
            }
            self._tx.execute(SQL["settle"], row)
            forget_settled(self._tx, self._now)


def repeated(tx: apsw.Connection, settlements: Sequence[Settlement], now: Moment) -> list[bool]:
    """For each, whether this very write settled its claim before, as far as that is remembered. A
    claim that was settled alone is found by an index. Of those that were settled together with
    others, four bytes of each are read."""
    asked = [_word(one).rstrip() for one in settlements]
    wanted = set(asked)
    found: set[str] = set()
    for claims in _candidates(tx, _marks([one.id for one in settlements]), now):
        found |= wanted.intersection(claims.split(" "))
        if len(found) == len(wanted):
            break
    return [word in found for word in asked]


def _candidates(tx: apsw.Connection, marks: array[int], now: Moment) -> Iterator[str]:
    """The claims of all rows that have one of these marks."""
    params = {"marks": rows.numbers(marks), "now": now}
    yield from (claims for [claims] in rows.fetch(tx, SQL["settled_alone"], params))
    wanted = set(marks)
    sought = [array("I", [mark]).tobytes() for mark in wanted] if len(wanted) <= _FEW else None
    # The newest first: a worker that got no answer repeats soon.
    for seq, others in rows.stream(tx, SQL["settled_marks"], {"now": now}):
        if sought is None:
            may_be = not wanted.isdisjoint(memoryview(others).cast("I"))
        else:
            may_be = any(mark in others for mark in sought)
        if may_be:
            [claims] = rows.first(tx, SQL["settled_claims"], {"seq": seq})
            yield claims


def any_settled_over(tx: apsw.Connection, now: Moment) -> bool:
    """Whether `forget_settled` has something to remove."""
    return rows.first(tx, SQL["settled_over"], {"now": now}) is not None


def forget_settled(tx: apsw.Connection, now: Moment) -> None:
    tx.execute(SQL["forget_settled"], {"now": now})


def _word(one: Settlement) -> str:
    assert one.write is not None  # a hand-over settles nothing
    return words([one.id], one.epoch, one.write)


def _marks(ids: Sequence[str]) -> array[int]:
    return array("I", map(crc32, map(str.encode, ids)))
