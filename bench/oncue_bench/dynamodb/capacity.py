"""DynamoDB with partitions that take so much and no more, in virtual time.

Partition keys are hashed onto partitions; each takes 1,000 write and 3,000 read units in a second,
and the table as many as its quota. An index has partitions of its own, and a write that would
change an entry in a full one is throttled, though the table has room. What a partition did not use
is lost, unless `burst_seconds` says otherwise, and no partition is ever split.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

from oncue_bench.dynamodb import errors, statements
from oncue_bench.dynamodb.batches import LEFT, chosen, handed_back, places
from oncue_bench.dynamodb.meter import Meter
from oncue_bench.dynamodb.units import Charge
from oncue_bench.dynamodb.wrapped import READS, WRITES, Call, WrappedClient

WHOLE = -1  # in place of a partition: the whole table or index


class Limits(NamedTuple):
    """Units in a second."""

    partitions: int = 4
    writes: float = 1_000
    reads: float = 3_000
    table_writes: float = 40_000
    table_reads: float = 40_000
    burst_seconds: float = 1
    """Of so many seconds a partition keeps what it did not use."""


class Bucket:
    """Units that come by the second, up to some seconds' worth. It may owe some: what a request
    really costs is known when it is done."""

    def __init__(self, rate: float, seconds: float, now: float) -> None:
        self._rate = rate
        self._most = rate * max(1, seconds)
        self._level = self._most
        self._at = now

    def has(self, units: float, now: float) -> bool:
        self._level = min(self._most, self._level + self._rate * (now - self._at))
        self._at = now
        return self._level >= units

    def take(self, units: float) -> None:
        self._level -= units


class CapacityClient(WrappedClient):
    """Throttles what exceeds the limits, by the seconds that `now` tells.

    `throttles` counts the items that were refused, by the table or index (`table/index`) that was
    full; `used` counts the write units of each whole second. An update that moves its item to
    another place of an index is charged there, but is not refused for it.
    """

    def __init__(self, client: Any, now: Callable[[], float], limits: Limits | None = None) -> None:
        super().__init__(client)
        self.throttles: Counter[str] = Counter()
        self.used: Counter[int] = Counter()
        self._limits = limits or Limits()
        self._now = now
        self._meter = Meter(client)
        self._buckets: dict[tuple[str, int, str], Bucket] = {}
        self._lock = threading.Lock()

    @property
    def peak_writes(self) -> int:
        """Write units in the busiest second."""
        return max(self.used.values(), default=0)

    def during(self, call: Call) -> Any:
        if call.method not in READS | WRITES:
            return self.send(call)
        with self._lock:
            expected = self._meter.expected(call)
            let_in = [self._let_in(charges) for charges in expected]
            if call.method in LEFT and any(let_in):
                return self._part(call, expected, let_in)
            taken = [one for one, fits in zip(expected, let_in, strict=True) if fits]
            if call.method == statements.METHOD:
                full = {at: statements.THROTTLES[0] for at, fits in enumerate(let_in) if not fits}
                return statements.in_part(call, full, lambda part: self._done(part, taken))
            if all(let_in):
                return self._done(call, taken)
            self._take(chain(*taken), -1)
        raise self._refusal(call, let_in)

    def _part(self, call: Call, expected: list[list[Charge]], let_in: list[bool]) -> Any:
        """A batch of which something is let in; the rest is handed back."""
        known = list(zip(places(call), expected, let_in, strict=True))
        taken = chosen(call, {place for place, _, fits in known if fits})
        answer = self._done(taken, [charges for _, charges, fits in known if fits])
        if all(let_in):
            return answer
        return handed_back(answer, chosen(call, {place for place, _, fits in known if not fits}))

    def _done(self, call: Call, expected: list[list[Charge]]) -> Any:
        """Make the call, and charge what it really cost instead of what was expected."""
        charges, answer = self._meter.measured(call, lambda: self.send(call))
        self._take(chain(*expected), -1)
        self._take(charges)
        self.used[int(self._now())] += int(sum(charge.writes for charge in charges))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _refusal(self, call: Call, let_in: list[bool]) -> Exception:
        if call.method.startswith("transact"):
            codes = ["None" if fits else "ThrottlingError" for fits in let_in]
            return errors.cancelled(self.client, call.method, codes)
        return errors.throttled(self.client, call.method)

    def _let_in(self, charges: list[Charge]) -> bool:
        """Whether there is room for an item; if so, it is taken."""
        for charge in charges:
            if not all(bucket.has(units, self._now()) for bucket, units in self._of(charge)):
                self.throttles[charge.place] += 1
                return False
        self._take(charges)
        return True

    def _take(self, charges: Iterable[Charge], times: int = 1) -> None:
        for charge in charges:
            for bucket, units in self._of(charge):
                bucket.take(units * times)

    def _of(self, charge: Charge) -> Iterator[tuple[Bucket, float]]:
        """The buckets that a charge takes from: of its partition, and of the whole table."""
        home, limits = crc32(charge.partition.encode()) % self._limits.partitions, self._limits
        if charge.writes:
            yield self._bucket((charge.place, home, "W"), limits.writes), charge.writes
            yield self._bucket((charge.place, WHOLE, "W"), limits.table_writes), charge.writes
        if charge.reads:
            yield self._bucket((charge.place, home, "R"), limits.reads), charge.reads
            yield self._bucket((charge.place, WHOLE, "R"), limits.table_reads), charge.reads

    def _bucket(self, name: tuple[str, int, str], rate: float) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = Bucket(rate, self._limits.burst_seconds, self._now())
        return self._buckets[name]
