"""A whole small world in one thread: somebody who asks, dispatchers, a reclaimer and workers on two
nodes of one store, every one of them stepped by hand on a fake clock, in an order drawn from a
seed.

Whenever a call is slow, time passes *and the others act*: that is how a lease comes to end in the
middle of somebody's step. Whoever dies at a point is born again, under another name, knowing
nothing. The wall clock may be turned on the way.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.engine.policies import Policies
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from tests.proof.checker import Card, verdict
from tests.proof.ends import ends_of
from tests.proof.entries import Entry
from tests.proof.faults import FaultySink, FaultyStore
from tests.proof.history import History
from tests.proof.household import Household
from tests.proof.inhabitants import LEASE_SECONDS, Asker, Holder, Lasting, Puller, Remote
from tests.proof.ledger import RIVAL
from tests.proof.plan import Plan
from tests.proof.points import KillingSink, KillingStore, Points
from tests.proof.rivals import Rival
from tests.proof.witness import Witness
from tests.stores.nodes import another_node

START: Moment = 1_800_000_000_000
SLOW_SECONDS = 12.0  # longer than a lease
OFFSETS = (0, 1, 50, 99)  # the clock moves by tenths of a second: some are due right after a step
LONG_AGO_MS = 2 * 3_600_000  # longer than the clock is turned
FAULTY_SECONDS = 120.0
PATIENCE_SECONDS = 900.0
LONGEST_STEP_SECONDS = 2.0
TAKEOVER_SECONDS = 2.0
# A lease or timeout that was given before the clock was set back ends one length after that was
# noticed, so in the worst case it is kept twice as long (F6).
TURNED_TAKEOVER_SECONDS = 3 * LEASE_SECONDS + 2 * TAKEOVER_SECONDS
SENT = Queue("sent", sink="sent", lease_seconds=LEASE_SECONDS)
PULLED = Queue("pulled", lease_seconds=LEASE_SECONDS, max_attempts=20)
BRIEF = Queue("brief", lease_seconds=LEASE_SECONDS, max_attempts=20, retention_seconds=0)
HANDED = Queue(
    "handed",
    sink="handed",
    completion="worker",
    lease_seconds=LEASE_SECONDS,
    timeout_seconds=3 * LEASE_SECONDS,
    max_attempts=20,
)
QUEUES = (SENT, PULLED, HANDED, BRIEF)

Turn = Callable[[], object]


class Died(KeyboardInterrupt):  # which nothing holds up in the main thread
    """What SIGKILL is in here."""


class World:
    """`jobs` jobs are asked for, in four queues: sent to a sink, pulled by workers (of one queue
    nothing is kept), handed to a sink for a worker. `truth` is the store without its troubles.

    `deaths` are orders to die or stop at points. `turns` are (after so many seconds, turn the wall
    clock by so many); then all jobs are long overdue, so that none has to wait for the clock.
    `minted`: jobs have ids as oncue makes them, and are not asked for twice.
    `whole`: with a household, and deliveries that last; so every method of the port is called.
    `rough`: see `inhabitants`. `honest` False: the puller reports what it never did; `drops`: the
    sinks throw away what they take. `seconds`: how long there are faults; due times lie within the
    first half of them. `run` plays until nothing is left to do, with the plan healed on the way."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        jobs: int = 120,
        *,
        deaths: str = "",
        turns: Sequence[tuple[float, float]] = (),
        cancels: bool = True,
        rough: bool = False,
        honest: bool = True,
        drops: bool = False,
        whole: bool = False,
        minted: bool = False,
        make_store: Callable[[FakeClock], Store] = MemoryStore,
        seconds: float = FAULTY_SECONDS,
    ) -> None:
        self.plan = plan
        self.seconds = seconds
        self._whole = whole
        self._minted = minted
        self.deaths = self.stops = 0
        self.random = Random(seed)
        self.clock = FakeClock(START)
        self.truth = make_store(self.clock)
        for queue in QUEUES:
            put_queue(self.truth, queue)
        self.history = History()
        self.log: list[Entry] = []
        self._turns_of_clock = sorted(turns)
        self._longest_turn = max((abs(by) for _, by in turns), default=0.0)
        self._points = Points(deaths, self._strike)
        self._acting: set[str] = set()
        self._ended: set[str] = set()
        self._keepers: dict[str, Keeper] = {}
        self._newest: Reclaimer | None = None
        self.nodes = (self.truth, another_node(self.truth))
        self.store, self.other = map(self._surrounded, self.nodes)
        spread_ms = round(seconds * 500)
        self.asker = Asker(
            self.store,
            self.history,
            list(self._batches("j", jobs, START - (LONG_AGO_MS if turns else 0), spread_ms)),
            self.random,
            cancels=cancels and not turns,
            repeats=not minted,
            forgiving=rough or bool(plan.rates or deaths),
        )
        record, random = self.log.append, self.random
        self.remote = Remote(self.other, record, random, rough=rough, waits=not turns, drops=drops)
        puller = Puller(
            self.store, (PULLED, BRIEF), record, random, rough=rough, waits=not turns, does=honest
        )
        self._births: dict[str, Callable[[], Turn]] = {
            "first dispatcher": partial(self._dispatcher, "first dispatcher", SENT, self.store),
            "second dispatcher": partial(self._dispatcher, "second dispatcher", SENT, self.other),
            "handing dispatcher": partial(
                self._dispatcher, "handing dispatcher", HANDED, self.other
            ),
            "reclaimer": self._reclaimer,
            "puller": lambda: puller.step,
            "holder": lambda: Holder(self.other, PULLED, record, reports=whole).step,
            "remote": lambda: self.remote.step,
            "asker": lambda: self.asker.step,
        }
        self._household: Household | None = None
        if whole:
            self._household = household = Household(self.other, self.truth, PULLED.name)
            self._births["household"] = lambda: household.step
        self._turns: dict[str, Turn] = {name: partial(self._be_born, name) for name in self._births}

    def run(self, **bounds: Any) -> Card:
        """A while with faults, then all is healed, more is asked for, and it is measured until
        everything has ended, or should have."""
        while self.clock.monotonic() < self.seconds:
            self._play()
        self.plan.heal()
        self._points.heal()
        late = min(20, len(self.history.jobs) // 4)
        self.asker.waiting += self._batches("late", late, self.clock.now(), 5_000)
        missing = []
        if self._household is not None:
            del self._turns["household"]
            missing = self._household.close(self.history)
        ends = self.clock.monotonic() + PATIENCE_SECONDS + self._longest_turn
        while self.asker.waiting or self.unfinished():
            self._play()
            if self.clock.monotonic() > ends:
                break  # the checker says what was left
        fired = self.plan.fired.total() + self.deaths + self.stops
        ended = ends_of(self.truth, self.history.jobs)
        card = verdict(self.history, self.log, ended, faults_fired=fired, **bounds)
        return replace(card, found={**card.found, "lost": [*card.found["lost"], *missing]})

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def unfinished(self) -> bool:
        """Whether a job has not ended. Those that had are not looked at again."""
        for job_id in self.history.jobs:
            if job_id not in self._ended:
                job = self.truth.get(job_id)
                if job is not None and job.state not in FINAL:
                    return True
                self._ended.add(job_id)
        return False

    def pause(self, seconds: float) -> None:
        """Time passes for whoever is acting, who may or may not keep a lease; the others go on."""
        if self.random.random() < 0.5:
            self.clock.advance(seconds)
        else:
            for _ in range(4):
                self.clock.advance(seconds / 4)
                self._keep()
        self.everybody()

    def _strike(self, with_signal: signal.Signals) -> None:
        """SIGKILL: whoever is acting knows nothing any more. SIGSTOP: it stands still for longer
        than its lease, and so does its keeper, while the others go on."""
        if with_signal is signal.SIGKILL:
            raise Died
        self.stops += 1
        for _ in range(round(2 * LEASE_SECONDS / LONGEST_STEP_SECONDS)):
            self.clock.advance(LONGEST_STEP_SECONDS)
            self.everybody()

    def _play(self) -> None:
        self.everybody()
        self._keep()
        self.clock.advance(self.random.choice((0.0, 0.1, 0.7, LONGEST_STEP_SECONDS)))
        while self._turns_of_clock and self._turns_of_clock[0][0] <= self.clock.monotonic():
            _, seconds = self._turns_of_clock.pop(0)
            self.clock.set(self.clock.now() + round(seconds * 1000))

    def _keep(self) -> None:
        for name, keeper in list(self._keepers.items()):
            self._act(f"keeper of the {name}", keeper.step)

    def everybody(self) -> None:
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
            self._turns[name] = partial(self._be_born, name)
        finally:
            self._acting.discard(name)

    def _be_born(self, name: str) -> None:
        """Whoever finds the store in trouble is born at its next turn."""
        self._turns[name] = self._births[name]()
        self._turns[name]()

    def _surrounded(self, store: Store) -> Store:
        """The store, with a witness, with points at which to die, and in trouble."""
        return FaultyStore(
            KillingStore(Witness(store, self._record), self._points),
            self.plan,
            pause=self.pause,
            pause_seconds=SLOW_SECONDS,
            rival=Rival(Witness(store, self._record, RIVAL)),
        )

    def _record(self, *entries: Entry) -> None:
        self.log.extend(entries)

    def _dispatcher(self, name: str, queue: Queue, store: Store) -> Turn:
        inner = self.remote.sink(queue)
        sink = FaultySink(
            KillingSink(Lasting(inner, self._linger) if self._whole else inner, self._points),
            self.plan,
            pause=self.pause,
            pause_seconds=SLOW_SECONDS,
        )
        self._keepers[name] = keeper = Keeper(self.clock)
        queue_of = partial(Policies(store, self.clock), queue.name)
        alias = f"{name} {self.deaths}"
        return Dispatcher(
            Node.of(store, self.clock),
            queue_of,
            sink,
            alias,
            keeper,
            check_clock=self._check_clock,
        ).step

    def _linger(self) -> None:
        """A delivery lasts, while its lease is kept."""
        if self.random.random() < 0.3:
            self.clock.advance(LEASE_SECONDS / 3)
            self._keep()

    def _reclaimer(self) -> Turn:
        self._newest = Reclaimer(Node.of(self.store, self.clock))
        return self._newest.step

    def _check_clock(self) -> None:
        if self._newest is not None:
            self._newest.check_clock()

    def _batches(
        self, prefix: str, jobs: int, due_from: Moment, spread_ms: int
    ) -> Iterator[list[NewJob]]:
        made = [self._new_job(f"{prefix}{n}", due_from, spread_ms) for n in range(jobs)]
        while made:
            size = self.random.randint(1, 8)
            yield made[:size]
            made = made[size:]

    def _new_job(self, job_id: str, due_from: Moment, spread_ms: int) -> NewJob:
        due_at = due_from + self.random.randrange(0, spread_ms, 100) + self.random.choice(OFFSETS)
        queue = self.random.choice(QUEUES)
        may_expire = queue is PULLED and self.random.random() < 0.2 and due_from >= START
        expires_at = due_at + 700 if may_expire else None
        if self._minted:
            job_id = ids.mint(START, due_at, queue.name, 0)
            return NewJob(job_id, queue.name, due_at, b"{}", 0, START)
        return NewJob(
            job_id, queue.name, due_at, b"{}", 0, START, expires_at=expires_at, digest=b"d"
        )
