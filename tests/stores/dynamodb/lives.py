"""The lives of jobs, each by itself, to see what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

from oncue.core.event import Bounds
from oncue.core.lease import Touch
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue
from oncue.core.stamp import SECOND
from oncue.scheduler import Scheduler
from oncue_bench.dynamodb.ledger import Bill, CountingClient
from tests.contract.board import time_based
from tests.contract.changing import CANCEL, Amendment, amend
from tests.contract.desk import settlement, verdict
from tests.stores.dynamodb.rig import Rig

SENT = Queue("sent", sink="log:")
FLEETING = Queue("fleeting", sink="log:", retention_seconds=0)
PULLED = Queue("pulled")
QUEUES = (SENT, FLEETING, PULLED)
BELL = "bell"
FEW, MANY = 5, 25  # jobs of one call, to tell what each costs from what the call costs
SOON, FAR = 30.0, 86_400.0
DIGEST = b"d" * 32


class Units(NamedTuple):
    """`writes` and `reads` of each job, and `call_writes` and `call_reads` of the calls, however
    many jobs they have."""

    writes: float
    call_writes: float
    reads: float
    call_reads: float

    def of(self, number: int) -> tuple[float, float]:
        """Writes and reads of so many jobs."""
        return self.call_writes + number * self.writes, self.call_reads + number * self.reads


class Lives:
    """A node whose requests are counted, on a table in which `pending` jobs wait."""

    def __init__(self, client: Any, pending: int) -> None:
        self.rig = Rig(client, inside=CountingClient, queues=QUEUES)
        self._ledger = self.rig.inner
        self.desk = self.rig.node().desk
        self._numbers = count(1)
        self._open: list[Bill] = []
        quietly = self.rig.quiet_desk()
        for queue in QUEUES:
            for _ in range(pending // 300 + 1):
                quietly.add_many(100, queue=queue.name, due_in=2 * FAR)
        Scheduler(quietly.store).put_rule(
            BELL, [{"type": "TIME_BASED", "resourceId": BELL, "lifeDuration": 0}], queue="pulled"
        )
        for queue in (SENT, FLEETING):  # from here on, the queues have dispatchers, and one workers
            self._send(queue, quietly.add_many(1, queue=queue.name))
        assert not quietly.claim(PULLED)

    def cost(self, life: Life) -> Units:
        few, many = (self.measured(life, number) for number in (FEW, MANY))
        each = [(more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)]
        return Units(each[0], few[0] - FEW * each[0], each[1], few[1] - FEW * each[1])

    def bills(self, life: Life, number: int) -> list[Bill]:
        """The bill of each call of a life of so many jobs."""
        self._open = []
        life(self, number)
        return self._open

    def measured(self, life: Life, number: int) -> tuple[float, float]:
        """Writes and reads of a life of so many jobs."""
        bills = self.bills(life, number)
        return sum(bill.writes for bill in bills), sum(bill.reads for bill in bills)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """What is asked within the block is on the bill of this life."""
        with self._ledger.counted() as bill:
            yield
        self._open.append(bill)

    def new(self, number: int, queue: Queue, *, chosen: bool = False, **fields: Any) -> list[str]:
        desk = self.desk
        jobs = [
            desk.new(
                f"chosen-{next(self._numbers)}" if chosen else None,
                queue=queue.name,
                digest=DIGEST if chosen else None,
                **fields,
            )
            for _ in range(number)
        ]
        assert desk.store.insert(jobs, desk.now) == {}
        return [job.id for job in jobs]

    def _send(self, queue: Queue, ids: list[str]) -> None:
        claim = self.desk.claim_range(queue, "dora")
        assert sorted(job.id for job in claim.jobs) == sorted(ids)
        assert self.desk.settle_range(claim)

    def sent(self, number: int, queue: Queue, *, chosen: bool = False) -> None:
        with self.counted():
            ids = self.new(number, queue, chosen=chosen)
        with self.counted():
            self._send(queue, ids)

    def claimed(self, number: int) -> list[Any]:
        ids = self.new(number, PULLED)
        claims = self.desk.claim(PULLED)
        assert sorted(claim.id for claim in claims) == sorted(ids)
        return claims

    def clear(self) -> None:
        """Finish what is due. What was reclaimed is handed out one by one."""
        while claims := self.desk.claim(PULLED):
            settled = [settlement(claim, Verb.COMPLETE) for claim in claims]
            self.desk.store.settle(settled, self.desk.now)

    def changed(self, ids: list[str], change: Any) -> None:
        with self.counted():
            assert not self.desk.store.change(ids, change, self.desk.now).refused


Life = Callable[[Lives, int], object]


def pulled(lives: Lives, number: int) -> None:
    with lives.counted():
        claims = lives.claimed(number)
    with lives.counted():
        settled = [settlement(claim, Verb.COMPLETE) for claim in claims]
        assert not lives.desk.store.settle(settled, lives.desk.now).refused


def heartbeat(lives: Lives, number: int) -> None:
    claims = lives.claimed(number)
    lives.desk.clock.advance(1)
    touches = [Touch(claim.id, claim.epoch) for claim in claims]
    lives.desk.store.touch(touches, lives.desk.now)  # dispatched → executing
    with lives.counted():
        assert len(lives.desk.store.touch(touches, lives.desk.now)) == number
    settled = [settlement(claim, Verb.COMPLETE) for claim in claims]
    lives.desk.store.settle(settled, lives.desk.now)


def retry(lives: Lives, number: int) -> None:
    claims = lives.claimed(number)
    later = lives.desk.now + round(FAR * 1000)
    told = [settlement(claim, Verb.RETRY, error="no", due_at=later) for claim in claims]
    with lives.counted():
        assert not lives.desk.store.settle(told, lives.desk.now).refused


def reclaim(lives: Lives, number: int) -> None:
    lives.claimed(number)
    lives.desk.clock.advance(60)
    now, lapses = lives.desk.now, lives.desk.lapses(number)
    assert len(lapses) == number
    with lives.counted():
        told = [(lapse, verdict(Verb.RECLAIM, now)) for lapse in lapses]
        assert not lives.desk.store.reclaim(told, now)
    lives.clear()


def cancel(due_in: float) -> Life:
    return lambda lives, number: lives.changed(lives.new(number, SENT, due_in=due_in), CANCEL)


def reschedule(due_in: float) -> Life:
    def life(lives: Lives, number: int) -> None:
        ids = lives.new(number, SENT, due_in=due_in)
        lives.changed(ids, amend(Amendment(due_at=lives.desk.now + round(3 * FAR * 1000))))

    return life


def fire(lives: Lives, number: int) -> None:
    now = lives.desk.now
    events = [time_based(BELL, next(lives._numbers) * SECOND) for _ in range(number)]
    with lives.counted():
        lives.desk.store.publish(events, now, Bounds())
    lives.clear()


LIVES: dict[str, Life] = {
    "sink, plain, nothing kept": lambda lives, number: lives.sent(number, FLEETING),
    "sink, plain, kept": lambda lives, number: lives.sent(number, SENT),
    "sink, chosen id, kept": lambda lives, number: lives.sent(number, SENT, chosen=True),
    "sink, chosen id, nothing kept": lambda lives, n: lives.sent(n, FLEETING, chosen=True),
    "pulled, plain, kept": pulled,
    "heartbeat": heartbeat,
    "cancel, far": cancel(FAR),
    "cancel, soon": cancel(SOON),
    "reschedule, far": reschedule(FAR),
    "reschedule, soon": reschedule(SOON),
    "retry": retry,
    "reclaim": reclaim,
    "rule fires": fire,
}
