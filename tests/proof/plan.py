"""Which call meets which fault: drawn from a seed, counted, and over when told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Fault(StrEnum):
    FAIL = "fails before anything was done"
    TIMEOUT = "succeeds, but the caller sees a time-out"
    DELAY = "takes long"
    THROTTLE = "is throttled"
    HALF_REFUSED = "takes half a batch and refuses the rest for now"
    HALF_DOWN = "takes a part of a batch and goes down"
    STALE = "answers from before the last write"
    CONFLICT = "loses a race"
    LATE = "times out, and arrives after requests that follow"
    SHORT = "answers with less than a page"
    TORN = "is seen half done"


_OF_SERVERS = {Fault.LATE, Fault.SHORT, Fault.TORN}
OF_PORTS: tuple[Fault, ...] = tuple(fault for fault in Fault if fault not in _OF_SERVERS)
"""What can befall a store or a sink; the others befall requests to a server."""


class Plan:
    """A seeded plan of faults.

    `rates` gives each fault's chance per call that it can befall; their sum is at most 1. `only`
    limits it to these methods, `sparing` leaves those out, and `first_n` limits it to the first n
    calls that remain; then all is well. The first `after_n` calls of all go well, too. `fired`
    counts what really happened, `trace` keeps it in order, `calls` counts what was asked.
    """

    def __init__(
        self,
        seed: int,
        rates: Mapping[Fault, float],
        *,
        only: Collection[str] | None = None,
        sparing: Collection[str] = (),
        first_n: int | None = None,
        after_n: int = 0,
    ) -> None:
        if sum(rates.values()) > 1:
            raise ValueError("the rates of a plan add up to more than 1")
        self.rates = dict(rates)
        self.fired: Counter[Fault] = Counter()
        self.calls: Counter[str] = Counter()
        self.trace: list[tuple[str, Fault]] = []
        self._only = None if only is None else frozenset(only)
        self._sparing = frozenset(sparing)
        self._left = first_n
        self._after = after_n
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._healed = False

    def draw(self, method: str, possible: Collection[Fault]) -> Fault | None:
        """The fault that this call meets, counted as fired; None for most."""
        with self._lock:
            self.calls[method] += 1
            if self.calls.total() <= self._after or not self._concerned(method):
                return None
            fault = self._pick(self._random.random())
            if fault is None or fault not in possible:
                return None
            self.fired[fault] += 1
            self.trace.append((method, fault))
            return fault

    def heads(self) -> bool:
        """A coin, for faults that come in two forms."""
        with self._lock:
            return self._random.random() < 0.5

    def choice(self, options: Sequence[T]) -> T:
        """One of them, for faults that come in several forms."""
        with self._lock:
            return self._random.choice(options)

    def part(self, batch: Sequence[T]) -> list[T]:
        """Some of a batch of two or more, in its order, but not all."""
        with self._lock:
            places = self._random.sample(range(len(batch)), self._random.randrange(1, len(batch)))
        return [batch[place] for place in sorted(places)]

    def heal(self) -> None:
        """No fault from here on."""
        self._healed = True

    def _concerned(self, method: str) -> bool:
        chosen = self._only is None or method in self._only
        if self._healed or not chosen or method in self._sparing:
            return False
        if self._left is not None:
            self._left -= 1
            return self._left >= 0
        return True

    def _pick(self, point: float) -> Fault | None:
        for fault, rate in self.rates.items():
            if point < rate:
                return fault
            point -= rate
        return None
