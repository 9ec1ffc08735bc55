"""The contract suite on another server than usual, an emulator of DynamoDB, the oldest version of
PostgreSQL that is promised, or pgbouncer before it: python -m tests.chaos.emulated NAME SECONDS
SEED. Tests are drawn in the order of the seed until the time is over; at least `FEWEST` must run.

What is left out here by name are deviations of an emulator from DynamoDB Local, each with what the
emulator does.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.servers.emulators import CHOICE, endpoint_of
from tests.servers.pgbouncer import pgbouncer_url
from tests.servers.postgres import postgres_url
from tests.stores.postgres import POOLED, VERSION

SUITE = Path(__file__).parents[1] / "contract"
FEWEST = 20
OLDEST = "14"
"""Version of PostgreSQL."""
ON_POSTGRESQL = (OLDEST, POOLED)
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    name: {} for name in ("dynoxide", "ministack", *ON_POSTGRESQL)
}
"""By server: beginnings of names of tests, and why."""


def start(server: str) -> str:
    """Its address."""
    if server == POOLED:
        return pgbouncer_url()
    return postgres_url(server) if server == OLDEST else endpoint_of(server)


class Drawing:
    """Chooses the tests of one kind of store in a random order, and ends in time."""

    def __init__(self, server: str, seconds: float, seed: int) -> None:
        self._kind = "postgresql" if server in ON_POSTGRESQL else "dynamodb"
        self._left_out = tuple(LEFT_OUT[server])
        self._ends = time.monotonic() + seconds
        self._random = random.Random(seed)
        self.passed = self.failed = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wanted = [one for one in items if self._kind in one.name and not self._omits(one)]
        items[:] = self._random.sample(wanted, len(wanted))

    def _omits(self, item: pytest.Item) -> bool:
        """The state machines have a part of their own, and take as long as all others."""
        return "test_state_machine" in item.nodeid or item.name.startswith(self._left_out)

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if time.monotonic() > self._ends:
            item.session.shouldstop = "the time is over"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed


def main(server: str, seconds: str, seed: str) -> int:
    os.environ[VERSION if server in ON_POSTGRESQL else CHOICE] = server
    drawing = Drawing(server, float(seconds), int(seed))
    quiet = ["-p", "no:xdist", "--no-header", "--tb=short", "--show-capture=no", "-qq"]
    ended = pytest.main([str(SUITE), *quiet, "-m", "not slow"], plugins=[drawing])
    usual = (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED)
    left_out = f", {len(LEFT_OUT[server])} kinds left out" if LEFT_OUT[server] else ""
    print(f"{server}: {drawing.passed} tests of the contract passed{left_out}", flush=True)
    return int(ended not in usual or bool(drawing.failed) or drawing.passed < FEWEST)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
