"""The kill run for workers (the one for dispatchers is in `tests/chaos`): processes that ask and
work, killed at named points, again and again.

Of each kind two processes are alive at any time. Every one is born with an order to die at a point;
whoever dies is born again under another name. Once there were enough deaths the last ones live on
until nothing is left to do. Then the checker compares what was asked with what was received.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event

from oncue import Scheduler, State
from oncue.clock import SystemClock
from tests.integration.crew import Child, Crew, wait_until
from tests.proof.checker import Card, verdict
from tests.proof.logs import AskLog

LEASE_SECONDS = 1.0
UNFINISHED = (State.SCHEDULED, State.DISPATCHED, State.EXECUTING)
ANYWHERE = "anywhere"  # at no point of its own: it is killed whatever it is doing
CHANCE = 0.02  # per look
POINTS = {
    "child_asker": ("before-insert-commit", "after-insert-commit"),
    "child_worker": ("after-claim", "after-settle", "after-reclaim", ANYWHERE, ANYWHERE),
}
# A reclaimed job comes first to whoever is born next. Nobody dies of the first thing they do, or
# three deaths in a row could make poison of a job that is not.
EARLIEST, LATEST = 2, 6


@dataclass
class KillRun:
    """`backlog` bounds what waits at any time, and thereby what a death can repeat."""

    folder: Path
    jobs: int
    kills: int
    seed: int = 1
    backlog: int = 400
    minutes: float = 1.0
    deaths: int = 0
    _living: list[tuple[str, Child]] = field(default_factory=list)
    _doomed: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.asks = AskLog(self.folder / "asks.log")
        self._clock = SystemClock()
        self._ends = self._clock.monotonic() + self.minutes * 60
        self.group = self.backlog // 20

    def run(self) -> Card:
        with Crew(self.folder) as crew, Scheduler(crew.url) as cue:
            cue.set_queue("work", lease_seconds=LEASE_SECONDS, max_attempts=20)
            for module in POINTS:
                for _ in range(2):
                    self._bear(crew, module)
            while self._acknowledged() < self.jobs or self.deaths < self.kills:
                assert self._clock.monotonic() < self._ends, self._late(cue)
                self._strike()
                self._bury(crew)
                self._ask(cue)
            self._finish(crew, cue)
            return verdict(
                self.asks.read(),
                crew.log.read(),
                max_duplicates=self.deaths * self.backlog,
                min_acknowledged=self.jobs // 2,
                min_faults=self.kills,
                faults_fired=self.deaths,
            )

    def _bear(self, crew: Crew, module: str) -> None:
        """Another process of this kind; with an order to die while deaths are wanted."""
        number = len(crew.children)
        name = self.folder / "asks.log" if module == "child_asker" else f"{module} {number}"
        point = self.random.choice(POINTS[module])
        when = self.random.randint(EARLIEST, LATEST)
        doomed = self.deaths < self.kills
        orders = f"{point}:{when}" if doomed and point != ANYWHERE else ""
        child = crew.start(module, name, orders=orders)
        self._living.append((module, child))
        if doomed and point == ANYWHERE:
            self._doomed.append(child)

    def _strike(self) -> None:
        if self._doomed and self.random.random() < CHANCE:
            self._doomed.pop(0).signal(signal.SIGKILL)

    def _bury(self, crew: Crew) -> None:
        for module, child in [one for one in self._living if not one[1].alive]:
            assert child.was_killed, f"{module} ended by itself: {child.said}"
            self._living.remove((module, child))
            child.end()
            self.deaths += 1
            self._bear(crew, module)

    def _ask(self, cue: Scheduler) -> None:
        """Ask for some, unless enough waits, or later deaths would find nothing to do."""
        waiting = self._waiting(cue)
        share = self.jobs * (self.deaths + 1) / (self.kills + 1)
        if waiting == 0 or (self._acknowledged() < share and waiting <= self.backlog - self.group):
            self.random.choice(self._askers()).tell(str(self.group))
        Event().wait(0.01)

    def _acknowledged(self) -> int:
        path = self.asks.log.path
        return path.read_bytes().count(b'"acknowledged"') if path.exists() else 0

    def _waiting(self, cue: Scheduler) -> int:
        return sum(cue.stats("work").counts[state] for state in UNFINISHED)

    def _finish(self, crew: Crew, cue: Scheduler) -> None:
        """The askers ask for what they were told and go; the others clear up. Whoever still has an
        order may die of it."""
        for child in self._askers():
            child.hang_up()
            child.wait()
            assert child.was_killed or child.process.returncode == 0, child.said
            self.deaths += child.was_killed
        self._living = [one for one in self._living if one[0] != "child_asker"]

        def cleared_up() -> bool:
            self._bury(crew)
            return self._waiting(cue) == 0

        left = max(1.0, self._ends - self._clock.monotonic())
        wait_until(cleared_up, f"nothing is left to do: {self._late(cue)}", left)

    def _askers(self) -> list[Child]:
        return [child for module, child in self._living if module == "child_asker"]

    def _late(self, cue: Scheduler) -> str:
        asked, waiting = self._acknowledged(), self._waiting(cue)
        return f"{self.deaths} deaths, {asked} acknowledged, {waiting} waiting"
