"""Counts requests and units: the emulator's own figures are wrong for some requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncue_bench.dynamodb.meter import Meter
from oncue_bench.dynamodb.units import Charge
from oncue_bench.dynamodb.wrapped import READS, WRITES, Call, WrappedClient


class Bill:
    """What some requests came to."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.charges: list[Charge] = []

    @property
    def reads(self) -> float:
        return sum(charge.reads for charge in self.charges)

    @property
    def writes(self) -> float:
        """Indexes included."""
        return sum(charge.writes for charge in self.charges)

    @property
    def index_writes(self) -> float:
        return sum(charge.writes for charge in self.charges if "/" in charge.place)

    def of(self, prefix: str) -> tuple[float, float]:
        """Reads and writes of the partition keys that begin so, in the table and in indexes."""
        chosen = [charge for charge in self.charges if charge.partition.startswith(prefix)]
        return sum(one.reads for one in chosen), sum(one.writes for one in chosen)

    def __str__(self) -> str:
        asked = ", ".join(f"{n} {method}" for method, n in sorted(self.requests.items()))
        return f"{self.writes:g} W, {self.reads:g} R: {asked}"


class CountingClient(WrappedClient):
    """Counts what reaches the service; `total` is the bill since the beginning.

    It asks about items before and after each write, so it is slow, and exact for one caller at a
    time. Put it inside a `FaultyClient`, not around it: what the network loses costs nothing.
    """

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.total = Bill()
        self._open = [self.total]
        self._meter = Meter(client)

    @contextmanager
    def counted(self) -> Iterator[Bill]:
        """The bill of what is asked within the block."""
        bill = Bill()
        self._open.append(bill)
        try:
            yield bill
        finally:
            self._open.remove(bill)

    def during(self, call: Call) -> Any:
        charges, answer = self._meter.measured(call, lambda: self.send(call))
        for bill in self._open:
            bill.requests[call.method] += call.method in READS | WRITES
            bill.charges += charges
        if isinstance(answer, Exception):
            raise answer
        return answer
