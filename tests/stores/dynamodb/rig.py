"""The DynamoDB store in the hands of a test: several nodes on one table, each with a client of its
own that can be put in trouble."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from oncue.clock import FakeClock
from oncue.core.queue import Queue
from oncue.stores.dynamodb import creation, keys
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.contract.desk import Desk
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.ttl import HeldTtl
from tests.stores.dynamodb.world import World

T = TypeVar("T")
R = TypeVar("R")


class Hasty(threading.Event):
    """Whoever waits for it does not."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class SteadyTable(Table):
    """Asks one thing after the other, and asks again without a pause: so a seed gives the same run
    every time, and nothing sleeps."""

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        super().__init__(name, connect)
        self._closing = Hasty()

    def each(self, ask: Callable[[T], R], parts: Iterable[T]) -> list[R]:
        return [ask(part) for part in parts]


class Node:
    """A store, its client, and a desk to work at. Several nodes have one clock."""

    def __init__(self, client: FaultyClient, table: str, clock: FakeClock, shards: int) -> None:
        self.client = client
        self.store = DynamoStore(SteadyTable(table, lambda: client), clock, shards=shards)
        self.desk = Desk(self.store, clock, minted=True)


class Rig:
    """A table of its own on the session's server. Nothing is deleted by time to live unless a test
    says so (`held`). `inside`: put around the client of the server, inside of the trouble."""

    def __init__(
        self,
        client: Any,
        *,
        shards: int = 1,
        inside: Callable[[Any], Any] = lambda client: client,
        queues: Iterable[Queue] = (),
    ) -> None:
        self.clock = FakeClock()
        self.held = HeldTtl(client)
        self.inner = inside(self.held)
        self.name = f"rig-{uuid4().hex}"
        creation.create(SteadyTable(self.name, lambda: self.inner))
        self.world = World(self.inner, now=lambda: self.clock.now() / 1000)
        self._shards = shards
        self.nodes: list[Node] = []
        self.calm = self.node()
        """A node without trouble."""
        for queue in queues:
            self.calm.desk.set(queue)

    def node(self, faults: Mapping[Fault, float] | None = None, seed: int = 0, **more: Any) -> Node:
        """One more node. `more`: for its `FaultyClient`, or the `Plan` of its faults."""
        named = {name: more.pop(name) for name in _OF_PLAN if name in more}
        plan = Plan(seed, faults or {}, **named)
        client = FaultyClient(self.inner, plan, world=self.world, **more)
        return self._add(client)

    def _add(self, client: FaultyClient) -> Node:
        self.nodes.append(Node(client, self.name, self.clock, self._shards))
        return self.nodes[-1]

    def quiet_desk(self) -> Desk:
        """Of a node whose requests pass neither trouble nor what is `inside`."""
        return self._add(FaultyClient(self.held, Plan(0, {}))).desk

    def line(self, queue: str) -> list[str]:
        """The places of all items in the lines of a queue."""
        table = self.calm.store.table
        return [
            item["sk"]
            for shard in range(self._shards)
            for item in table.query(keys.line(queue, shard))
        ]

    def everything(self) -> list[tuple[str, str]]:
        """The keys of all items of the table."""
        items, _ = self.calm.store.table.scan(None, 10_000)
        return sorted((item["pk"], item["sk"]) for item in items)

    def close(self) -> None:
        for node in self.nodes:
            node.store.close()
        self.held.delete_table(TableName=self.name)


_OF_PLAN = ("only", "sparing", "first_n", "after_n")
