"""Effects that happen exactly once: workers that write to a table in the transaction in which their
job is completed, and are killed and stopped meanwhile.

The table has no constraint: whatever is written twice is there twice. As a program
(python -m tests.chaos.effects FOLDER URL NAME HABIT) it is such a worker.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg

from oncue import ClaimLost, HandledJob, Scheduler
from oncue.core.errors import StoreUnavailable
from oncue.core.lifecycle import State
from tests.servers.postgres import PostgresServer
from tests.servers.standby import PostgresPair

Habit = Literal["careful", "careless"]
"""Careless: the effect is committed first, and the job is completed by returning."""

QUEUE = "effects"
WORKERS = 2
THREADS = 3
LEASE_SECONDS = 1.0
STOP_SECONDS = 2.5 * LEASE_SECONDS  # others have taken its jobs by then
LIFE_SECONDS = (0.05, 0.4)  # before it is struck, once it works
STOPS = 0.3  # the share of strikes that only stop it; it is killed by the next one
LONGEST_SLEEP = 0.03
WRITE = b"INSERT INTO effects (job, attempt, worker) VALUES (%s, %s, %s)"


# -- the worker ------------------------------------------------------------------------------------


class EffectWorker:
    def __init__(self, folder: Path, url: str, name: str, habit: Habit) -> None:
        self._folder, self._url, self._name, self._habit = folder, url, name, habit
        self._refused = folder / f"{name}.refused"

    def run(self) -> None:
        with Scheduler(self._url) as cue:
            cue.handler(QUEUE)(self.handle)
            (self._folder / self._name).touch()
            cue.work(concurrency=THREADS, name=self._name)

    def handle(self, job: HandledJob) -> None:
        """In one of two ways: by a transaction of the job, or by a connection of its own."""
        own = random.random() < 0.5
        try:
            with self._connection() if own else job.transaction() as connection:
                self._work(job, connection)
                if own and self._habit == "careful":
                    job.complete(connection=connection)
                    _sleep()
        except ClaimLost:
            with self._refused.open("a") as log:
                log.write(f"{job.id}\n")
            raise
        finally:
            if self._habit == "careless":
                _sleep()

    def _work(self, job: HandledJob, connection: psycopg.Connection) -> None:
        if self._habit == "careless":
            with self._connection() as apart:
                apart.execute(WRITE, [job.id, job.attempt, self._name])
            return
        _sleep()
        connection.execute(WRITE, [job.id, job.attempt, self._name])
        _sleep()
        if job.payload == "wait":
            (self._folder / "inside").touch()
            while not (self._folder / "go").exists():
                _sleep()

    @contextmanager
    def _connection(self) -> Any:
        with psycopg.connect(self._url) as connection:
            yield connection


def _sleep() -> None:
    threading.Event().wait(random.uniform(0, LONGEST_SLEEP))


# -- the run ---------------------------------------------------------------------------------------


@dataclass
class EffectCard:
    jobs: int
    kills: int
    stops: int
    crashes: int
    lost: int = 0
    """Jobs without an effect."""
    repeated: int = 0
    """Jobs with more than one."""
    unfinished: int = 0
    interrupted: int = 0
    """Attempts that came to nothing."""
    refused: int = 0
    """Attempts that learned so when they wanted to complete their job."""

    @property
    def green(self) -> bool:
        return not (self.lost or self.repeated or self.unfinished)

    def __str__(self) -> str:
        facts = ", ".join(f"{value:,} {name}" for name, value in vars(self).items())
        return f"{'GREEN' if self.green else 'BROKEN'}: {facts}"


@dataclass
class Struggler:
    name: str
    process: subprocess.Popen[bytes]
    strikes_at: float | None = None
    wakes_at: float | None = None


@dataclass
class EffectRun:
    """`jobs`, at least `kills` by kill -9 and some stops besides; the server itself crashes
    `crashes` times. Over after `seconds` at the latest."""

    folder: Path
    server: PostgresServer | PostgresPair
    jobs: int
    kills: int
    seconds: float
    seed: int = 0
    crashes: int = 0
    habit: Habit = "careful"
    _alive: list[Struggler] = field(default_factory=list)
    _born: int = 0
    _stored: int = 0
    _struck: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.seconds
        self._random = random.Random(self.seed)

    def run(self) -> EffectCard:
        make_table(self.server.url)
        with Scheduler(self.server.url) as cue:
            set_queue(cue)
            try:
                self._until(lambda: self._struck["kills"] >= self.kills, cue)
                self._store(cue, self.jobs)
                self._wake_all()
                self._until(lambda: self._is_done(cue), cue, deadly=False)
            finally:
                self._end_all()
            return self._card(cue)

    def _until(self, done: Callable[[], bool], cue: Scheduler, *, deadly: bool = True) -> None:
        while not done():
            if time.monotonic() > self._ends:
                raise TimeoutError(f"the run did not end in time: {dict(self._struck)}")
            for one in self._alive:
                if one.process.poll() is not None:
                    raise RuntimeError(f"{one.name} ended by itself: see {self.folder}")
            while len(self._alive) < WORKERS:
                self._bear()
            if deadly:
                self._strike(cue)
            time.sleep(0.01)

    def _strike(self, cue: Scheduler) -> None:
        now = time.monotonic()
        for one in list(self._alive):
            if one.strikes_at is None:
                if (self.folder / one.name).exists():
                    one.strikes_at = now + self._random.uniform(*LIFE_SECONDS)
                    self._store(cue, self.jobs * (1 + self._struck["kills"]) // (self.kills + 1))
            elif one.wakes_at is not None:
                if now >= one.wakes_at:
                    one.process.send_signal(signal.SIGCONT)
                    one.wakes_at = None
                    one.strikes_at = now + self._random.uniform(*LIFE_SECONDS)
            elif now >= one.strikes_at:
                self._hit(one)
        due = self.kills * (1 + self._struck["crashes"]) // (self.crashes + 1)
        if self._struck["crashes"] < self.crashes and self._struck["kills"] >= due:
            if not all((self.folder / one.name).exists() for one in self._alive):
                return  # whoever starts without a server ends
            self._struck["crashes"] += 1
            self.server.crash()

    def _hit(self, one: Struggler) -> None:
        if self._random.random() < STOPS:
            one.process.send_signal(signal.SIGSTOP)
            one.wakes_at = time.monotonic() + STOP_SECONDS
            self._struck["stops"] += 1
            return
        one.process.kill()
        one.process.wait()
        self._alive.remove(one)
        self._struck["kills"] += 1

    def _store(self, cue: Scheduler, total: int) -> None:
        """Up to so many jobs: as long as there are kills to come, there is work to be struck."""
        wanted = total - self._stored
        if wanted > 0:
            cue.schedule_many(({} for _ in range(wanted)), queue=QUEUE)
            self._stored += wanted

    def _bear(self) -> None:
        self._born += 1
        name = f"worker-{self._born}"
        process = start_worker(self.folder, self.server.url, name, self.habit)
        self._alive.append(Struggler(name, process))

    def _wake_all(self) -> None:
        for one in self._alive:
            one.process.send_signal(signal.SIGCONT)

    def _end_all(self) -> None:
        for one in self._alive:
            one.process.send_signal(signal.SIGCONT)
            one.process.kill()
            one.process.wait()
        self._alive.clear()

    def _is_done(self, cue: Scheduler) -> bool:
        try:
            counts = cue.stats(QUEUE).counts
        except StoreUnavailable:
            return False
        return counts[State.SUCCEEDED] + counts[State.FAILED] >= self.jobs

    def _card(self, cue: Scheduler) -> EffectCard:
        done = effects(self.server.url)
        jobs = list(cue.jobs(queue=QUEUE))
        refused = [path.read_text().count("\n") for path in self.folder.glob("*.refused")]
        return EffectCard(
            self.jobs,
            kills=self._struck["kills"],
            stops=self._struck["stops"],
            crashes=self._struck["crashes"],
            lost=sum(job.id not in done for job in jobs),
            repeated=sum(count > 1 for count in done.values()),
            unfinished=self.jobs - sum(job.state is State.SUCCEEDED for job in jobs),
            interrupted=sum(job.attempt - 1 for job in jobs),
            refused=sum(refused),
        )


def make_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS effects")
        connection.execute("CREATE TABLE effects (job text, attempt int, worker text)")


def effects(url: str) -> dict[str, int]:
    """How many there are, by job."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT job, count(*) FROM effects GROUP BY job")
        return dict(found.fetchall())


def set_queue(cue: Scheduler) -> None:
    settings = {"lease_seconds": LEASE_SECONDS, "max_attempts": 20, "poison_after": 0}
    cue.set_queue(QUEUE, **settings, retry={"initial_seconds": 0.01, "max_seconds": 0.1})


def start_worker(
    folder: Path, url: str, name: str, habit: Habit = "careful"
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.chaos.effects", str(folder), url, name, habit]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stderr=log, stdout=log)


if __name__ == "__main__":
    folder, url, name, habit = sys.argv[1:]
    EffectWorker(Path(folder), url, name, "careless" if habit == "careless" else "careful").run()
