"""The worlds of `tests/proof`, played on DynamoDB in trouble: the requests of all nodes fail, are
throttled, meet conflicts, come late, are done without an answer, and are seen half done."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from oncue.clock import FakeClock
from oncue.stores.dynamodb import creation, endings, keys, live, table
from oncue.stores.dynamodb.store import DynamoStore
from tests.proof.checker import Card
from tests.proof.plan import Fault, Plan
from tests.proof.scenes import Scene
from tests.proof.world import World
from tests.stores.dynamo import OwnTable, new_name
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.replica import Replica
from tests.stores.dynamodb.rig import SteadyTable
from tests.stores.dynamodb.ttl import HeldTtl
from tests.stores.dynamodb.world import World as Requests

QUICK: Mapping[Fault, float] = {
    Fault.FAIL: 0.03,
    Fault.TIMEOUT: 0.04,
    Fault.THROTTLE: 0.03,
    Fault.LATE: 0.03,
    Fault.CONFLICT: 0.04,
    Fault.HALF_REFUSED: 0.03,
    Fault.HALF_DOWN: 0.03,
    Fault.SHORT: 0.04,
    Fault.TORN: 0.1,
    Fault.STALE: 0.1,
}
PLAIN: Mapping[Fault, float] = {one: rate for one, rate in QUICK.items() if one is not Fault.LATE}
"""For jobs of which nothing is left when they are delivered: if a request to store one arrives
after that, it is delivered again."""
SLOW: Mapping[Fault, float] = {**QUICK, Fault.DELAY: 0.01}
"""Whoever stands still may hand over what was cancelled meanwhile: there, nobody cancels."""
IMPATIENCE_SECONDS = 0.07  # three tries, or four
STANDSTILL_SECONDS = 12.0  # longer than a lease


class Storm:
    """One run. `plan` says what befell requests."""

    def __init__(self, client: Any, faults: Mapping[Fault, float], seed: int) -> None:
        self._held = HeldTtl(client)
        self._seed = seed
        self.plan = Plan(seed, faults)
        self._client: FaultyClient | None = None

    def play(self, scene: Scene, jobs: int, seconds: float) -> Card:
        with ExitStack() as stack:
            # Nobody needs many partitions of the index here, and each costs a request.
            for module in (live, endings):
                stack.enter_context(patch.object(module, "LIVE_LOOKS", [keys.live(0)]))
            stack.enter_context(patch.object(keys.look_shard, "__defaults__", (1,)))
            stack.enter_context(patch.object(endings, "EXPIRING_SHARDS", 1))
            stack.enter_context(patch.object(keys, "EXPIRING_SHARDS", 1))
            stack.enter_context(patch.object(table, "PATIENCE_SECONDS", IMPATIENCE_SECONDS))
            stack.enter_context(patch.object(table, "uniform", max))
            return scene.play(self._seed, self._open, jobs, seconds, self._enter)

    def _open(self, clock: FakeClock) -> DynamoStore:
        """In peace, until the world begins."""
        name = new_name()
        creation.create(SteadyTable(name, lambda: self._held))
        replica = Replica(self._held, name)
        requests = Requests(self._held, now=lambda: clock.now() / 1000, replica=replica)
        self._client = FaultyClient(self._held, Plan(0, {}), world=requests)
        store = OwnTable(SteadyTable(name, lambda: self._client), clock, shards=1)
        store.dropped.append(replica.name)
        return store

    def _enter(self, world: World) -> None:
        client = self._client
        assert client is not None

        def heal(_: object) -> None:
            if world.clock.monotonic() >= world.seconds:
                self.plan.heal()

        client.plan, client.before = self.plan, heal
        client.between = lambda _: world.everybody()
        client._pause, client._pause_seconds = world.pause, STANDSTILL_SECONDS
