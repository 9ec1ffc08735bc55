"""Settled claims on jobs that are gone, in SQLite: so that a repetition is recognised."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from zlib import crc32

from oncue.core.fencing import Settlement, words
from oncue.core.moment import Moment
from oncue.stores.sqlite import rows

SQL = rows.load("claims")
_WRITE_OF = attrgetter("epoch", "verb", "result", "error")
_FEW = 16  # marks that are sought one by one, which is faster than to look at every mark of a call


def remember_settled(tx: rows.Tx, gone: Sequence[Settlement], now: Moment) -> None:
    """What one call settled of jobs that are gone. It is kept as one row, as long as the longest of
    their leases: a row for each job would cost as much as the job. Rows whose time is over go."""
    if not gone:
        return
    alike = (list(group) for _, group in groupby(gone, key=_WRITE_OF))
    marks = _marks(gone)
    alone = len(marks) == 1
    row = {
        "until": now + round(max(one.lease_seconds for one in gone) * 1000),
        "mark": marks[0] if alone else None,
        "marks": None if alone else marks.tobytes(),
        "claims": "".join(map(_words, alike)),
    }
    tx.execute(SQL["settle"], row)
    tx.execute(SQL["forget_settled"], {"now": now})


def repeated(tx: rows.Tx, settlements: Sequence[Settlement], now: Moment) -> list[bool]:
    """For each, whether this very write settled its claim before, as far as that is remembered. A
    claim that was settled alone is found by an index. Of those that were settled together with
    others, four bytes of each are read."""
    asked = [_words([one]).rstrip() for one in settlements]
    wanted = set(asked)
    found: set[str] = set()
    for claims in _candidates(tx, _marks(settlements), now):
        found |= wanted.intersection(claims.split(" "))
        if len(found) == len(wanted):
            break
    return [word in found for word in asked]


def _candidates(tx: rows.Tx, marks: array[int], now: Moment) -> Iterator[str]:
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


def _words(alike: Sequence[Settlement]) -> str:
    """One word for each, as `core/fencing.py: words` writes them, of settlements by one write."""
    first = alike[0]
    assert first.write is not None  # a hand-over settles nothing
    return words([one.id for one in alike], first.epoch, first.write)


def _marks(settlements: Sequence[Settlement]) -> array[int]:
    return array("I", [crc32(one.id.encode()) for one in settlements])
