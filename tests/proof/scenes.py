"""The scenes in which a world is played: what befalls it, and by which bounds it is judged. A scene
and a seed give the same run every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oncue.clock import FakeClock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from tests.proof.checker import Card
from tests.proof.plan import OF_PORTS, Fault, Plan
from tests.proof.points import OF_EVENTS, POINTS
from tests.proof.world import FAULTY_SECONDS, TAKEOVER_SECONDS, TURNED_TAKEOVER_SECONDS, World
from tests.stores.port import METHODS

MakeStore = Callable[[FakeClock], Store]

# There are fewer batches than calls; and whoever is slow half of the time gets nothing done.
RATES = {Fault.HALF_REFUSED: 0.8, Fault.HALF_DOWN: 0.4, Fault.DELAY: 0.1}

# Whoever stands still for longer than its lease right before a hand-over will still hand over what
# was reclaimed and cancelled meanwhile. No store can prevent that; so nobody cancels where somebody
# may stand still.
UNFENCED = {Fault.DELAY}

HOUR = 3600.0
SLACK_SECONDS = 1.0  # a turn of the clock by less than this is not noticed


@dataclass(frozen=True)
class Scene:
    """`min_faults` of these must fire, or the run is void."""

    faults: Mapping[Fault, float] = field(default_factory=dict)
    orders: str = ""
    turns: tuple[tuple[float, float], ...] = ()
    rough: bool = True
    cancels: bool = True
    honest: bool = True
    drops: bool = False
    whole: bool = False
    minted: bool = False
    only: frozenset[str] | None = None
    min_faults: int = 0
    bounds: Mapping[str, Any] = field(default_factory=dict)

    def play(
        self,
        seed: int,
        make_store: MakeStore = MemoryStore,
        jobs: int = 120,
        seconds: float = FAULTY_SECONDS,
        enter: Callable[[World], object] = lambda world: None,
    ) -> Card:
        """`enter` is called with the world before it is played."""
        world = World(
            Plan(seed, self.faults, only=self.only),
            seed,
            jobs,
            deaths=self.orders,
            turns=self.turns,
            rough=self.rough,
            cancels=self.cancels,
            honest=self.honest,
            drops=self.drops,
            whole=self.whole,
            minted=self.minted,
            make_store=make_store,
            seconds=seconds,
        )
        enter(world)
        card = world.run(min_acknowledged=jobs // 2, min_faults=self.min_faults, **self.bounds)
        world.close()
        return card


def _orders(points: Iterable[str], counts: Iterable[int], prefix: str = "") -> str:
    return ",".join(f"{prefix}{point}:{count}" for point in points for count in counts)


_PROMPT = {"takeover_seconds": TAKEOVER_SECONDS}
_TURNED = {
    "takeover_seconds": TURNED_TAKEOVER_SECONDS + SLACK_SECONDS,
    "slack_seconds": SLACK_SECONDS,
}
_OF_JOBS = sorted(POINTS - OF_EVENTS)
# Stopped after a reclaim, the only reclaimer there is would take over late.
_OF_STOPS = sorted(POINTS - OF_EVENTS - {"after-reclaim"})

CALM = Scene(rough=False, bounds={**_PROMPT, "max_duplicates": 0})
ROUGH = Scene(bounds=_PROMPT)

FAULTS = {
    fault.name.lower(): Scene(
        {fault: RATES.get(fault, 0.2)}, cancels=fault not in UNFENCED, min_faults=3
    )
    for fault in OF_PORTS
}
TOGETHER = {
    "quick": Scene({fault: 0.05 for fault in OF_PORTS if fault not in UNFENCED}, min_faults=20),
    "slow": Scene(dict.fromkeys(OF_PORTS, 0.05), cancels=False, min_faults=20),
}
DEATHS = {
    point: Scene(
        # Somebody has to leave something to reclaim.
        orders=_orders({point, "after-claim"}, (1, 4, 9)),
        min_faults=2,
        bounds=_PROMPT,
    )
    for point in _OF_JOBS
} | {"all": Scene(orders=_orders(_OF_JOBS, (1, 4, 9, 15)), min_faults=10, bounds=_PROMPT)}
STOPS = {
    "first": Scene(orders=_orders(_OF_STOPS, (1, 6), "stop:"), cancels=False, min_faults=5),
    "later": Scene(orders=_orders(_OF_STOPS, (3, 9), "stop:"), cancels=False, min_faults=5),
}
WHOLE = Scene(rough=False, whole=True)
NOT_CALLED = frozenset({"close", "watch"})
"""The end of a node is no call that anybody repeats. What a watcher is told may be lost in every
scene with failures."""
TIMEOUTS = {
    method: Scene(
        {Fault.TIMEOUT: 0.9 if method == "extend_range" else 0.4},  # deliveries seldom last
        whole=True,
        only=frozenset({method}),
        min_faults=2,
    )
    for method in sorted(METHODS - NOT_CALLED)
}
"""For every method of the port: calls that were applied and whose answer was lost."""
ANY_TIMEOUT = Scene({Fault.TIMEOUT: 0.1}, whole=True, min_faults=20)
TURNS = {
    "forward": Scene(turns=((30, HOUR),), bounds=_TURNED),
    "back": Scene(turns=((30, -HOUR),), bounds=_TURNED),
    "forward and back": Scene(turns=((25, HOUR), (80, -HOUR)), bounds=_TURNED),
    "back and forward": Scene(turns=((25, -HOUR), (80, HOUR)), bounds=_TURNED),
    "back among deaths": Scene(
        turns=((30, -HOUR),), orders=_orders(_OF_JOBS, (2, 5, 9)), min_faults=5, bounds=_TURNED
    ),
}
ALL = {
    "calm": CALM,
    "rough": ROUGH,
    **{f"fault {name}": scene for name, scene in FAULTS.items()},
    **{f"together {name}": scene for name, scene in TOGETHER.items()},
    **{f"death {name}": scene for name, scene in DEATHS.items()},
    **{f"stop {name}": scene for name, scene in STOPS.items()},
    "whole": WHOLE,
    "any timeout": ANY_TIMEOUT,
    **{f"timeout {name}": scene for name, scene in TIMEOUTS.items()},
    **{f"turn {name}": scene for name, scene in TURNS.items()},
}
