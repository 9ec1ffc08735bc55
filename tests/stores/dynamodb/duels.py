"""Two nodes that want the same job, and meet at every point between their requests.

In each duel, one takes the job (as a worker, or as a dispatcher that sends it) and another one does
something that must not happen to a job that was taken; or both take it. Whoever is told that it has
succeeded must be the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from oncue.core.lifecycle import FINAL
from oncue.core.queue import Queue
from tests.contract.changing import CANCEL, Amendment, amend
from tests.stores.dynamodb.rig import Node, Rig
from tests.stores.dynamodb.steps import Actor, meet, meetings

OLD, NEW = b'"old"', b'"new"'
HOUR_MS = 3_600_000
EXPIRES_IN_SECONDS = 5


class Kind(NamedTuple):
    """How a job is stored, and what is kept of it."""

    minted: bool
    kept: bool

    def __str__(self) -> str:
        return f"{'plain' if self.minted else 'recorded'}, {'' if self.kept else 'not '}kept"


KINDS = [Kind(minted, kept) for minted in (True, False) for kept in (True, False)]


@dataclass
class Ring:
    """Where a duel takes place: a queue, and one job in it at a time."""

    rig: Rig
    kind: Kind
    queue: Queue = field(init=False)
    job_id: str = ""
    numbers: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.first, self.second = self.rig.node(), self.rig.node()
        self.new_queue()

    def new_queue(self) -> None:
        retention = {} if self.kind.kept else {"retention_seconds": 0}
        self.queue = Queue(f"q{next(self.numbers)}", **retention)  # type: ignore[arg-type]
        self.rig.calm.desk.set(self.queue)

    def add(self, **fields: Any) -> None:
        """The job that both want."""
        name = None if self.kind.minted else f"job-{next(self.numbers)}"
        desk = self.rig.calm.desk
        if "expires_in" in fields:
            fields["expires_at"] = desk.now + 1000 * fields.pop("expires_in")
        self.job_id = desk.add(name, queue=self.queue.name, payload=OLD, **fields)

    def check_nothing_is_left(self) -> None:
        """The job has ended, nobody gets it once more, and no item of it waits."""
        desk = self.rig.calm.desk
        assert desk.claim(self.queue) == []
        job = desk.store.get(self.job_id)
        assert job is None or job.state in FINAL, job
        assert self.rig.line(self.queue.name) == []


class Taken(NamedTuple):
    """What somebody got: payloads by id, and how it ends what it has begun."""

    payloads: Mapping[str, bytes]
    end: Callable[[], object]

    def __bool__(self) -> bool:
        return bool(self.payloads)


Act = Callable[[Ring, Node], Any]
Judge = Callable[[Ring, Taken, Any], None]


def work(ring: Ring, node: Node) -> Taken:
    """Take the job as a worker does."""
    claims = node.desk.claim(ring.queue)

    def end() -> None:
        for claimed in claims:
            assert node.desk.complete(claimed) is None

    return Taken({claimed.id: claimed.payload for claimed in claims}, end)


def send(ring: Ring, node: Node) -> Taken:
    """Take the job as a dispatcher does."""
    claim = node.desk.claim_range(ring.queue, f"dispatcher {id(node)}")

    def end() -> None:
        assert not claim.fence or node.desk.settle_range(claim)

    return Taken({job.id: job.payload for job in claim.jobs}, end)


def deliver(ring: Ring, node: Node) -> Taken:
    """Take the job as a dispatcher does, and settle: all of it meets the other one."""
    taken = send(ring, node)
    taken.end()
    return Taken(taken.payloads, lambda: None)


def in_new_queue(ring: Ring) -> None:
    """Nobody ever took a job of it."""
    ring.new_queue()


def in_pulled_queue(ring: Ring) -> None:
    """Only workers ever took jobs of it."""
    ring.new_queue()
    assert not work(ring, ring.rig.calm)


def cancel(ring: Ring, node: Node) -> bool:
    return not node.store.change([ring.job_id], CANCEL, node.desk.now).refused


def put_off_for_an_hour(ring: Ring, node: Node) -> bool:
    later = amend(Amendment(due_at=node.desk.now + HOUR_MS))
    return not node.store.change([ring.job_id], later, node.desk.now).refused


def change_payload(ring: Ring, node: Node) -> bool:
    wanted = amend(Amendment(payload=NEW))
    return not node.store.change([ring.job_id], wanted, node.desk.now).refused


def expire(ring: Ring, node: Node) -> bool:
    """Its clock is ahead: to the one who takes the job, it has not expired yet."""
    return bool(node.store.expire(node.desk.now + EXPIRES_IN_SECONDS * 1000, 100))


def exactly_one(ring: Ring, taken: Taken, other: Taken | bool) -> None:
    assert bool(taken) != bool(other), (taken, other)


def one_or_moved(ring: Ring, taken: Taken, moved: bool) -> None:
    assert bool(taken) != moved
    if moved:
        assert not work(ring, ring.rig.calm)
        assert cancel(ring, ring.rig.calm)


def nothing_old_after_the_change(ring: Ring, taken: Taken, changed: bool) -> None:
    if not taken:  # the one who was about to take it lost the race
        assert changed
        taken.end()
        taken = work(ring, ring.rig.calm)
        taken.end()
    assert taken.payloads == {ring.job_id: NEW if changed else OLD}


class Duel(NamedTuple):
    take: Act
    other: Act
    judge: Judge = exactly_one
    fields: Mapping[str, Any] = {}
    in_queue: Callable[[Ring], object] = lambda ring: None
    """How the queue comes about in which it takes place. By default, it is always the same."""

    def fight(self, rig: Rig, kind: Kind, *, every: bool = False) -> int:
        """How often it was fought."""
        ring, fights = Ring(rig, kind), 0
        for i, j in meetings(*self._lengths(ring), every=every):
            self._fight(ring, i, j)
            fights += 1
        return fights

    def _lengths(self, ring: Ring) -> tuple[int, int]:
        """How many requests each makes if it is alone."""
        first, second = 0, 0
        for turn in (0, 1):
            actors = self._begin(ring)
            for at in (turn, 1 - turn):
                told = actors[at].answer()
                if isinstance(told, Taken):
                    told.end()
            first, second = max(first, actors[0].requests), max(second, actors[1].requests)
            self._clear(ring)
        return first, second

    def _begin(self, ring: Ring) -> tuple[Actor, Actor]:
        self.in_queue(ring)
        ring.add(**self.fields)
        return (
            Actor(ring.first.client, lambda: self.take(ring, ring.first)),
            Actor(ring.second.client, lambda: self.other(ring, ring.second)),
        )

    def _fight(self, ring: Ring, i: int, j: int) -> None:
        try:
            taken, other = meet(*self._begin(ring), i, j)
            self.judge(ring, taken, other)
            for one in (taken, other):
                if isinstance(one, Taken):
                    one.end()
            ring.check_nothing_is_left()
        except AssertionError as error:
            raise AssertionError(f"after {i} and {j} requests: {error}") from error

    def _clear(self, ring: Ring) -> None:
        if not cancel(ring, ring.rig.calm):
            work(ring, ring.rig.calm).end()


DUELS = {
    f"{taker.__name__} × {name}": duel
    for taker in (work, send)
    for name, duel in {
        "cancel": Duel(taker, cancel),
        "put off": Duel(taker, put_off_for_an_hour, one_or_moved),
        "change": Duel(taker, change_payload, nothing_old_after_the_change),
        "expire": Duel(taker, expire, fields={"expires_in": EXPIRES_IN_SECONDS}),
        taker.__name__: Duel(taker, taker),
    }.items()
} | {
    "work × send": Duel(work, send),
    "work × first send": Duel(work, send, in_queue=in_pulled_queue),
    "first work × first send": Duel(work, send, in_queue=in_new_queue),
    "deliver first × work": Duel(deliver, work, in_queue=in_pulled_queue),
    "deliver × cancel": Duel(deliver, cancel),
    "deliver × put off": Duel(deliver, put_off_for_an_hour, one_or_moved),
    "deliver × change": Duel(deliver, change_payload, nothing_old_after_the_change),
    "deliver × work": Duel(deliver, work),
}
