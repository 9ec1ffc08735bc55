"""Where the lines of a queue begin, as this process last saw it.

Jobs that were taken leave dead entries at the beginning of the index until vacuum removes them, and
it removes none while a long transaction is open. A look that begins where the last one found the
first job does not walk through them. News reports each job that is stored before that place. If no
news is heard, each look is a look at everything. Jobs of which no news came are found by a look at
everything, once a second, or less often if that takes long.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from oncue.core.moment import LATEST, Moment
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.stores.postgresql.shards import LineHead, rank_of
from oncue.stores.postgresql.tx import Asked

FULL_LOOK_SECONDS = 1.0
LONGEST_SECONDS = 10.0
USUAL_RANK = rank_of(0, ahead=False)
EMPTY = (LATEST, "")  # where a line begins in which no job waits
SHARE = 100  # a look at everything is made when so many times its length have passed


class LookBounds(NamedTuple):
    """Where to look: in these lines, in each from its due time and id on."""

    shards: list[int]
    ranks: list[int]
    floors: list[Moment]
    floor_ids: list[str]


class LinesLook(NamedTuple):
    """A look at the lines of a queue."""

    queue: str
    shards: int
    bounds: LookBounds | None
    """None: everywhere."""
    news_count: int
    """How much news had come before it began."""
    begun: float
    """When, by the monotonic clock."""
    known: _Known | None
    """The lines that were known when it began."""

    @property
    def statement(self) -> Asked:
        """The statement that finds the first jobs of the lines."""
        if self.bounds is None:
            return "claims", "lines", {"queue": self.queue}
        return "claims", "known_lines", {"queue": self.queue, **self.bounds._asdict()}


@dataclass(slots=True)
class _Known:
    shards: frozenset[int]
    ranks: frozenset[int]
    floors: dict[tuple[int, int], tuple[Moment, str]]
    """By shard and rank: due time and id of the first job. Many may be due at one instant, and most
    of them gone. A line that is not here had none."""
    good_until: float
    """When everything is to be looked at again, by the monotonic clock."""

    def lower(self, due_at: Moment) -> None:
        """A job of that due time may be first in any line, with any id."""
        for line in product(self.shards, self.ranks):
            self.floors[line] = min((due_at, ""), self.floors.get(line, EMPTY))


class KnownLines:
    """Safe to use from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        now_and_after_fork(self, KnownLines._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Known] = {}
        self._news_count = 0
        self._newest: dict[str | None, int] = {}
        """By queue: which number its newest news had."""
        self._hears = False

    def hears(self, hears: bool) -> None:
        """Whether news of other processes is heard from now on."""
        with self._lock:
            self._hears = hears
            self._count_news(None)

    def begin(self, queue: str, shards: int) -> LinesLook:
        """Where to look next in a queue with so many shards. `learn` takes the answer."""
        at = self._clock.monotonic()
        with self._lock:
            known = self._queues.get(queue)
            if not self._hears or known is None or at >= known.good_until:
                return LinesLook(queue, shards, None, self._news_count, at, known)
            lines = [
                (*line, *known.floors.get(line, EMPTY))
                for line in product(known.shards, known.ranks)
            ]
            bounds = LookBounds(*map(list, zip(*lines, strict=True)))
            return LinesLook(queue, shards, bounds, self._news_count, at, known)

    def begin_everywhere(self, queues: Mapping[str, int]) -> list[LinesLook]:
        """A look at everything in these queues, each with so many shards."""
        at = self._clock.monotonic()
        with self._lock:
            return [
                LinesLook(name, count, None, self._news_count, at, self._queues.get(name))
                for name, count in queues.items()
            ]

    def learn(self, look: LinesLook, lines: Iterable[LineHead]) -> None:
        """Take over the lines that a look found, unless it may have missed jobs: news came since it
        began, or a look at everything that ended before it may have found more."""
        found = list(lines)
        floors = {(line.shard, line.rank): (line.due_at, line.id) for line in found}
        at = self._clock.monotonic()
        with self._lock:
            if max(self._newest.get(name, 0) for name in (look.queue, None)) > look.news_count:
                return
            known = self._queues.get(look.queue)
            if known is not look.known:
                return
            if look.bounds is None:
                shards = frozenset([*range(look.shards), *(line.shard for line in found)])
                ranks = frozenset([USUAL_RANK, *(line.rank for line in found)])
                rest = min(max(SHARE * (at - look.begun), FULL_LOOK_SECONDS), LONGEST_SECONDS)
                self._queues[look.queue] = _Known(shards, ranks, floors, at + rest)
            elif known is not None:
                known.floors = floors

    def note_news(
        self, news: Mapping[str | None, Moment], ranks: Mapping[str, Collection[int]]
    ) -> None:
        """Jobs were stored, or wait again, in these queues: the first due time, and their ranks."""
        with self._lock:
            for queue, due_at in news.items():
                self._count_news(queue)
                known = None if queue is None else self._queues.get(queue)
                if queue is not None and known is not None:
                    known.ranks |= frozenset(ranks.get(queue, ()))
                    # 0 says that there is room. If there are ranks, a job came with it.
                    if due_at > 0 or ranks.get(queue):
                        known.lower(due_at)

    def _count_news(self, queue: str | None) -> None:
        """Count news of a queue. None: nothing is known of any queue from now on."""
        self._news_count += 1
        if queue is None:
            self._queues.clear()
            self._newest.clear()
        self._newest[queue] = self._news_count
