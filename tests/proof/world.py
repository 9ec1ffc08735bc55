"""A whole small world in one thread: somebody who asks, dispatchers, a reclaimer and workers on one
store, every one of them stepped by hand on a fake clock, in an order drawn from a seed.

Whenever a call is slow, time passes *and the others act*: that is how a lease comes to end in the
middle of somebody's step. Whoever dies at a point is born again, under another name, knowing
nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.policies import Policies
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from tests.proof.checker import Card, verdict
from tests.proof.faults import FaultySink, FaultyStore
from tests.proof.history import History, Received, StaleWrite
from tests.proof.inhabitants import LEASE_SECONDS, Asker, Puller, Remote
from tests.proof.plan import Plan
from tests.proof.points import KillingSink, KillingStore, Points
from tests.proof.rivals import Rival

START: Moment = 1_800_000_000_000
SLOW_SECONDS = 12.0  # longer than a lease
SPREAD_MS = 60_000  # due times lie within the first minute
SENT = Queue("sent", sink="sent", lease_seconds=LEASE_SECONDS)
PULLED = Queue("pulled", lease_seconds=LEASE_SECONDS, max_attempts=20)
HANDED = Queue(
    "handed",
    sink="handed",
    completion="worker",
    lease_seconds=LEASE_SECONDS,
    timeout_seconds=3 * LEASE_SECONDS,
    max_attempts=20,
)
QUEUES = (SENT, PULLED, HANDED)

Turn = Callable[[], object]


class Died(KeyboardInterrupt):  # which nothing holds up in the main thread
    """What SIGKILL is in here."""


def die(with_signal: signal.Signals) -> None:
    raise Died


class World:
    """`jobs` jobs are asked for, in three queues: sent to a sink, pulled by a worker, handed to a
    sink for a worker. `deaths` are orders to die at points; `truth` is the store itself, without
    its troubles. `run` plays until nothing is left to
    do, with the plan healed on the way."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        jobs: int = 120,
        *,
        deaths: str = "",
        cancels: bool = True,
        make_store: Callable[[FakeClock], Store] = MemoryStore,
    ) -> None:
        self.plan = plan
        self.deaths = 0
        self.random = Random(seed)
        self.clock = FakeClock(START)
        self.truth = make_store(self.clock)
        for queue in QUEUES:
            self.truth.put_queue(queue)
        self.history = History()
        self.log: list[Received | StaleWrite] = []
        self._points = Points(deaths, die)
        self._acting: set[str] = set()
        self._keepers: dict[str, Keeper] = {}
        self.store = self._surrounded(self.truth)
        self.asker = Asker(
            self.store,
            self.history,
            list(self._batches(jobs)),
            self.random,
            cancels=cancels,
            forgiving=bool(plan.rates or deaths),
        )
        self.remote = Remote(self.store, self.truth, self.log)
        puller = Puller(self.store, self.truth, PULLED, self.log, self.random)
        self._births: dict[str, Callable[[], Turn]] = {
            "first dispatcher": partial(self._dispatcher, "first dispatcher", SENT),
            "second dispatcher": partial(self._dispatcher, "second dispatcher", SENT),
            "handing dispatcher": partial(self._dispatcher, "handing dispatcher", HANDED),
            "reclaimer": self._reclaimer,
            "puller": lambda: puller.step,
            "remote": lambda: self.remote.step,
            "asker": lambda: self.asker.step,
        }
        self._turns = {name: birth() for name, birth in self._births.items()}

    def run(self, **bounds: int) -> Card:
        """Two minutes with faults, then all is healed and measured until everything has ended."""
        while self.clock.now() < START + 2 * SPREAD_MS:
            self._play()
        self.plan.heal()
        healed = self.clock.now()
        while self.asker.waiting or self.unfinished():
            self._play()
            assert self.clock.now() < healed + 20 * SPREAD_MS, f"no end: {self.unfinished()[:5]}"
        fired = self.plan.fired.total() + self.deaths
        return verdict(self.history, self.log, faults_fired=fired, **bounds)

    def unfinished(self) -> list[str]:
        found = (self.truth.get(job_id) for job_id in self.history.jobs)
        return [job.id for job in found if job is not None and job.state not in FINAL]

    def pause(self, seconds: float) -> None:
        """Time passes for whoever is acting, who may or may not keep a lease; the others go on."""
        if self.random.random() < 0.5:
            self.clock.advance(seconds)
        else:
            for _ in range(4):
                self.clock.advance(seconds / 4)
                for name, keeper in self._keepers.items():
                    self._act(f"keeper of the {name}", keeper.step)
        self._everybody()

    def _play(self) -> None:
        self._everybody()
        self.clock.advance(self.random.choice((0.0, 0.1, 0.7, 2.0)))

    def _everybody(self) -> None:
        for name in self.random.sample(sorted(self._turns), len(self._turns)):
            self._act(name, self._turns[name])

    def _act(self, name: str, turn: Turn) -> None:
        """One turn, unless that one is in the middle of a turn. Trouble ends it."""
        if name in self._acting:
            return
        self._acting.add(name)
        try:
            with suppress(StoreUnavailable):
                turn()
        except Died:
            self.deaths += 1
            self._turns[name] = self._births[name]()
        finally:
            self._acting.discard(name)

    def _surrounded(self, store: Store) -> Store:
        """The store, with points at which to die, and in trouble."""
        return FaultyStore(
            KillingStore(store, self._points),
            self.plan,
            pause=self.pause,
            pause_seconds=SLOW_SECONDS,
            rival=Rival(store),
        )

    def _dispatcher(self, name: str, queue: Queue) -> Turn:
        sink = FaultySink(
            KillingSink(self.remote.sink(queue), self._points),
            self.plan,
            pause=self.pause,
            pause_seconds=SLOW_SECONDS,
        )
        self._keepers[name] = keeper = Keeper(self.clock)
        queue_of = partial(Policies(self.store, self.clock), queue.name)
        alias = f"{name} {self.deaths}"
        return Dispatcher(self.store, self.clock, queue_of, sink, alias, keeper).step

    def _reclaimer(self) -> Turn:
        return Reclaimer(self.store, self.clock, Policies(self.store, self.clock)).step

    def _batches(self, jobs: int) -> Iterator[list[NewJob]]:
        made = [self._new_job(n) for n in range(jobs)]
        while made:
            size = self.random.randint(1, 8)
            yield made[:size]
            made = made[size:]

    def _new_job(self, n: int) -> NewJob:
        due_at = START + self.random.randrange(SPREAD_MS)
        queue = self.random.choice(QUEUES).name
        return NewJob(f"j{n}", queue, due_at, b"{}", 0, START, digest=b"%d" % n)
