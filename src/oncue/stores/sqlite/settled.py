"""Settled claims on jobs that are gone, in SQLite: so that a repetition is recognised."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from oncue.core.fencing import words, write_of
from oncue.core.moment import Moment
from oncue.ports.claims import Settlement
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("claims")


class Settled:
    """For one call that settles. All that it settled is one row, for as long as the longest lease
    of it: a row for each job would cost as much as the job."""

    def __init__(self, tx: apsw.Connection, now: Moment) -> None:
        self._tx = tx
        self._now = now
        self._words: list[str] = []
        self._lease_seconds = 0.0

    def add(self, one: Settlement) -> None:
        self._words.append(_word(one))
        self._lease_seconds = max(self._lease_seconds, one.lease_seconds)

    def add_all(self, group: Sequence[Settlement]) -> None:
        """Add completions of the same epoch."""
        if any(one.result is not None for one in group):
            for one in group:
                self.add(one)
            return
        first = group[0]
        alike = write_of(first.verb, None, None)
        self._words.append(words([one.id for one in group], first.epoch, alike))
        longest = max(one.lease_seconds for one in group)
        self._lease_seconds = max(self._lease_seconds, longest)

    def repeated(self, settlements: Sequence[Settlement]) -> list[bool]:
        """For each, whether it was settled by this very write before, not too long ago."""
        asked = [_word(one).rstrip() for one in settlements]
        wanted = set(asked)
        found = wanted.intersection("".join(self._words).split(" "))
        # The newest first: a worker that got no answer repeats soon.
        for [claims] in rows.stream(self._tx, SQL["settled"], {"now": self._now}):
            if len(found) == len(wanted):
                break
            found |= wanted.intersection(claims.split(" "))
        return [word in found for word in asked]

    def keep(self) -> None:
        """Write the row, and remove those whose time is over."""
        if self._words:
            until = self._now + round(self._lease_seconds * 1000)
            self._tx.execute(SQL["settle"], {"until": until, "claims": "".join(self._words)})
            forget_settled(self._tx, self._now)


def any_settled_over(tx: apsw.Connection, now: Moment) -> bool:
    """Whether `forget_settled` has something to remove."""
    return rows.first(tx, SQL["settled_over"], {"now": now}) is not None


def forget_settled(tx: apsw.Connection, now: Moment) -> None:
    tx.execute(SQL["forget_settled"], {"now": now})


def _word(one: Settlement) -> str:
    return words([one.id], one.epoch, write_of(one.verb, one.result, one.error))
