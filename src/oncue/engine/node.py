"""A node: one process on a store, as everything that runs in it shares it."""

from __future__ import annotations

from typing import NamedTuple

from oncue.engine.policies import Policies
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.telemetry.counters import Telemetry


class Node(NamedTuple):
    store: Store
    clock: Clock
    policies: Policies
    telemetry: Telemetry

    @staticmethod
    def of(store: Store, clock: Clock) -> Node:
        return Node(store, clock, Policies(store, clock), Telemetry(clock))
