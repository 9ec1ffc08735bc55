"""The kill run: askers and dispatchers die at random points until enough have; then what is left
is delivered in peace, and the checker says whether anything was lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from oncue.core.queue import Queue
from oncue.stores.sqlite import SqliteStore
from tests.chaos.child import CHUNK, QUEUE
from tests.proof.checker import Card, verdict
from tests.proof.logs import AskLog, ReceiverLog
from tests.proof.points import VARIABLE

ASKER_POINTS = ("before-insert-commit", "after-insert-commit")
DISPATCHER_POINTS = (
    "after-claim-range",
    "mid-batch",
    "after-deliver-before-settle",
    "after-settle",
)
DISPATCHERS = 2
LEASE_SECONDS = 1.0
BATCH = 5000


class KillRun:
    """`jobs` asked for, at least `kills` deaths, on one SQLite file in `folder`."""

    def __init__(
        self, folder: Path, *, jobs: int, kills: int, seconds: float, seed: int = 0
    ) -> None:
        self._folder = folder
        self._jobs = jobs
        self._wanted_kills = kills
        self._ends = time.monotonic() + seconds
        self._random = random.Random(seed)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = 0

    def run(self) -> Card:
        store = SqliteStore(self._folder / "jobs.db")
        store.put_queue(Queue(QUEUE, sink="log:", lease_seconds=LEASE_SECONDS, retention_seconds=0))
        try:
            self._until(self._enough, kill=True)
            self._stop_all()
            self._until(lambda: store.next_due([QUEUE]) is None, kill=False)
        finally:
            self._stop_all()
            store.close()
        return self._card()

    def _enough(self) -> bool:
        return self.kills >= self._wanted_kills and self._asked() >= self._jobs

    def _until(self, done: Callable[[], bool], *, kill: bool) -> None:
        while not done():
            if time.monotonic() > self._ends:
                raise TimeoutError(f"the kill run did not end in time ({self.kills} kills)")
            self._bury()
            self._bear(kill)
            time.sleep(0.02)

    def _bury(self) -> None:
        for name, child in list(self._children.items()):
            code = child.poll()
            if code is None:
                continue
            del self._children[name]
            if code == -signal.SIGKILL:
                self.kills += 1
            elif code:
                raise RuntimeError(f"{name} ended by itself with {code}")

    def _bear(self, kill: bool) -> None:
        for number in range(DISPATCHERS):
            self._spawn(f"dispatcher-{number}", DISPATCHER_POINTS if kill else ())
        if kill:  # the dead need work to die over
            self._spawn("asker", ASKER_POINTS if self._random.random() < 0.3 else ())

    def _spawn(self, name: str, points: tuple[str, ...]) -> None:
        if name in self._children:
            return
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop(VARIABLE, None)
        if points and self._wanted_kills:
            point = self._random.choice(points)
            environment[VARIABLE] = f"{point}:{self._random.randint(1, 4)}"
        role = name.partition("-")[0]
        share = max(CHUNK, 2 * self._jobs // max(self._wanted_kills, 2))
        what = str(share) if role == "asker" else name
        command = [sys.executable, "-m", "tests.chaos.child", role, str(self._folder), what]
        self._children[name] = subprocess.Popen(command, env=environment)

    def _asked(self) -> int:
        """About how many jobs were asked for: each leaves two short lines."""
        path = self._folder / "asks.log"
        return path.stat().st_size // 150 if path.exists() else 0

    def _stop_all(self) -> None:
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children.clear()

    def _card(self) -> Card:
        history = AskLog(self._folder / "asks.log").read()
        received = ReceiverLog(self._folder / "received.log").read()
        return verdict(
            history,
            received,
            max_duplicates=self.kills * BATCH,
            min_acknowledged=self._jobs // 2,
            min_faults=self._wanted_kills,
            faults_fired=self.kills,
        )
