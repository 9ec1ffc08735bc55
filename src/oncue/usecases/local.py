"""The parts of a scheduler that its use cases share, in the process that opened the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line imports use cases to describe itself, and should start at once
    from oncue.engine.engine import Engine
    from oncue.engine.policies import Policies
    from oncue.ports.clock import Clock
    from oncue.ports.store import Store
    from oncue.telemetry.counters import Telemetry


class Local:
    store: Store
    clock: Clock
    policies: Policies
    telemetry: Telemetry
    engine: Engine
