"""What the tests say often, said briefly: a desk is a store, a clock, and who works with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from threading import Barrier
from typing import Any, TypeVar

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import HeldByOthers
from oncue.core.fencing import Refused, Settlement
from oncue.core.ids import first_epoch, mint
from oncue.core.job import (
    Attempt,
    Claimed,
    Diagnostic,
    Job,
    JobFilter,
    Lapse,
    NewJob,
    Operation,
)
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment, from_datetime, maybe_datetime, to_datetime
from oncue.core.operations import DEFAULT_LIMITS
from oncue.core.queue import Queue, default_queue
from oncue.core.retry import Verdict, after_lapse
from oncue.core.sharing import Taker
from oncue.ports.claims import ClaimFilter, ClaimStore, RangeClaim
from oncue.ports.jobs import Clash
from oncue.ports.sink import Refusal
from oncue.ports.store import Store

from .changing import CANCEL, REVIVE, STOP, Amendment, Change, amend, change
from .promises import every, listed

T = TypeVar("T")
Q = Queue("q")
DELIVERY = Queue("d", sink="log:")
FLEETING = Queue("f", retention_seconds=0)
FLEETING_DELIVERY = Queue("fd", sink="log:", retention_seconds=0)
LEASE = 60.0
BOTH_IDS = pytest.mark.parametrize("desk", ["chosen", "minted"], indirect=True)
"""With ids that clients choose, and with those that oncue makes: a store may treat them apart."""


class Desk:
    def __init__(self, store: Store, clock: FakeClock, *, minted: bool = False) -> None:
        self.store = store
        self.clock = clock
        self._minted = minted
        self._numbers = count(1)

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def new(self, job_id: str | None = None, *, due_in: float = 0, **fields: Any) -> NewJob:
        """A job on its way in, due now unless told otherwise."""
        due_at = self.now + round(due_in * 1000)
        given = {"queue": "q", "payload": b"{}", "priority": 0, "created_at": self.now, **fields}
        if "digest" in fields:  # chosen by a client, who may have chosen it before
            given.setdefault("epoch", first_epoch(self.now))
        if job_id is None:
            job_id = f"job-{next(self._numbers):04}"
            if self._minted:
                job_id = mint(self.now, due_at, given["queue"], given["priority"])
        return NewJob(id=job_id, due_at=due_at, **given)

    def insert(self, jobs: Sequence[NewJob]) -> Mapping[int, Clash]:
        """As `insert_all` stores them, when nobody holds anything for long."""
        return insert(self.store, jobs, self.now)

    def add(self, job_id: str | None = None, **fields: Any) -> str:
        new = self.new(job_id, **fields)
        assert self.insert([new]) == {}
        return new.id

    def add_many(self, number: int, **fields: Any) -> list[str]:
        jobs = [self.new(**fields) for _ in range(number)]
        assert self.insert(jobs) == {}
        return [job.id for job in jobs]

    def job(self, job_id: str) -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job

    def state(self, job_id: str) -> State:
        return self.job(job_id).state

    def listed(self, limit: int = 100, **wanted: Any) -> list[str]:
        """All ids that match, page by page."""
        return ids(listed(self.store, JobFilter(**wanted), limit))

    def diagnostics(self, job_id: str) -> tuple[Diagnostic, ...]:
        return self.store.history(job_id).diagnostics

    def codes(self, job_id: str) -> list[str]:
        return [diagnostic.code for diagnostic in self.diagnostics(job_id)]

    def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        return self.store.history(job_id).attempts

    def outcomes(self, job_id: str) -> list[tuple[int, str | None]]:
        return [(attempt.attempt, attempt.outcome) for attempt in self.attempts(job_id)]

    def claim(
        self, *queues: Queue, limit: int = 100, worker: str = "ada", **options: Any
    ) -> list[Claimed]:
        return claim_due(self.store, queues or (Q,), worker, limit, self.now, **options)

    def claimed_ids(self, *queues: Queue, **options: Any) -> list[str]:
        return [claimed.id for claimed in self.claim(*queues, **options)]

    def take(self, job_id: str | None = None, *, queue: Queue = Q, **fields: Any) -> Claimed:
        """Add a job and claim it. The store has the settings of its queue."""
        if queue != default_queue(queue.name):
            self.set(queue)
        added = self.add(job_id, queue=queue.name, **fields)
        return self.retake(added, queue=queue)

    def set(self, queue: Queue) -> None:
        """Give the store the settings of a queue, if they are not the default ones."""
        stored = {one.name: one for one in self.store.queues()}.get(queue.name)
        if (stored or default_queue(queue.name)) != queue:
            assert self.store.put_queue(stored, queue)

    def retake(self, job_id: str, *, queue: Queue = Q, worker: str = "ada") -> Claimed:
        (claimed,) = self.claim(queue, worker=worker)
        assert claimed.id == job_id
        return claimed

    def touch(self, claimed: Claimed, **told: Any) -> Touched | Refused:
        (answer,) = self.store.touch([Touch(claimed.id, claimed.epoch, **told)], self.now)
        return answer

    def put_operation(
        self, claimed: Claimed, name: str, state: str = "succeeded", **fields: Any
    ) -> Operation | Refused:
        limits = fields.pop("limits", DEFAULT_LIMITS)
        operation = Operation(name, state, to_datetime(self.now), **fields)
        return self.store.put_operation(claimed.id, claimed.epoch, operation, self.now, limits)

    def settle(self, claimed: Claimed, verb: Verb, **fields: Any) -> Refused | None:
        write = settlement(claimed, verb, **fields)
        return self.store.settle([write], self.now).refused.get(0)

    def hand_over(self, claimed: Claimed) -> Refused | None:
        return self.settle(claimed, Verb.HAND_OVER)

    def complete(
        self, claimed: Claimed, result: bytes | None = None, **more: Any
    ) -> Refused | None:
        return self.settle(claimed, Verb.COMPLETE, result=result, **more)

    def fail(self, claimed: Claimed, error: str = "boom", **more: Any) -> Refused | None:
        return self.settle(claimed, Verb.FAIL, error=error, **more)

    def retry(self, claimed: Claimed, error: str = "boom", **more: Any) -> Refused | None:
        return self.settle(claimed, Verb.RETRY, error=error, **{"due_at": self.now, **more})

    def release(self, claimed: Claimed, **more: Any) -> Refused | None:
        return self.settle(claimed, Verb.RELEASE, **more)

    def drop(self, claimed: Claimed, **more: Any) -> Refused | None:
        return self.settle(claimed, Verb.DROP, **more)

    def lapse(self, seconds: float = LEASE) -> Lapse:
        """Let the only claim lapse."""
        self.clock.advance(seconds)
        (lapse,) = self.lapses()
        return lapse

    def lapses(self, limit: int = 10) -> list[Lapse]:
        """Claims that have lapsed by now."""
        return lapses_by(self.store, self.now, limit)

    def claim_on(self, job_id: str) -> Lapse | None:
        found = every(partial(self.store.live_claims, ClaimFilter(job_id=job_id)))
        return found[0] if found else None

    def reclaim(self, lapse: Lapse, verb: Verb = Verb.RECLAIM, **counted: Any) -> Refused | None:
        told = verdict(verb, self.now)._replace(**counted)
        return self.store.reclaim([(lapse, told)], self.now).get(0)

    def judge(self, queue: Queue = Q) -> None:
        """Do to every claim that has lapsed what the reclaimer does."""
        verdicts = [(lapse, after_lapse(lapse, queue, self.now)) for lapse in self.lapses(1000)]
        assert self.store.reclaim(verdicts, self.now) == {}

    def claim_range(
        self,
        queue: Queue = DELIVERY,
        dispatcher: str = "dora",
        *,
        limit: int = 100,
        lease_seconds: float = LEASE,
        in_flight: Sequence[RangeClaim] = (),
    ) -> RangeClaim:
        return self.store.claim_range(
            queue, dispatcher, limit, self.now, lease_seconds=lease_seconds, in_flight=in_flight
        )

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: list[str] | None = None,
        refused: dict[str, str] | None = None,
        busy: dict[str, str] | None = None,
        left: int = 0,
    ) -> bool:
        """Settle a range; all of it was delivered unless told otherwise: refused for good, or
        `busy`, refused for now."""
        refusals = {job_id: Refusal(why, True) for job_id, why in (refused or {}).items()}
        refusals |= {job_id: Refusal(why, False) for job_id, why in (busy or {}).items()}
        if delivered is None:
            delivered = [job.id for job in claim.jobs if job.id not in refusals]
        return self.store.settle_range(claim, delivered, refusals, self.now, left=left)

    def amend(self, job_id: str, amendment: Amendment) -> Change:
        return change(self.store, job_id, amend(amendment), self.now)

    def cancel(self, job_id: str) -> Change:
        return change(self.store, job_id, CANCEL, self.now)

    def request_cancel(self, job_id: str) -> Change:
        return change(self.store, job_id, STOP, self.now)

    def revive(self, job_id: str) -> Change:
        return change(self.store, job_id, REVIVE, self.now)


def claim_due(
    store: ClaimStore, queues: Sequence[Queue], worker: str, limit: int, now: Moment, **more: Any
) -> list[Claimed]:
    """What one taker gets. `more`: fields of the taker."""
    taker = Taker(worker, limit, **more)
    [claims] = store.claim(queues, [taker], now, nonce=f"call {next(_calls)}")
    return claims


_calls = count(1)


def lapses_by(store: ClaimStore, until: Moment, limit: int = 10) -> list[Lapse]:
    """The first of the claims that have lapsed by then."""
    return every(partial(store.live_claims, ClaimFilter(lapsed_by=until)))[:limit]


def settlement(claimed: Claimed, verb: Verb, **fields: Any) -> Settlement:
    told = {"code": "failure", "detail": "It failed."}
    if verb in (Verb.COMPLETE, Verb.RELEASE, Verb.HAND_OVER):
        told = {}
    return Settlement(claimed.id, claimed.epoch, verb, **{**told, **fields})


def verdict(verb: Verb, now: Moment) -> Verdict:
    due_at = now if verb is Verb.RECLAIM else None
    return Verdict(verb, "timeout_dispatched", "Nothing was heard.", due_at)


def lapse_of(job: Job) -> Lapse:
    """What a reclaimer would have seen, had it found this job lapsed."""
    return Lapse(
        id=job.id,
        queue=job.queue,
        state=job.state,
        epoch=job.epoch,
        attempt=job.attempt,
        attempt_base=0,
        max_attempts=job.max_attempts,
        strikes=0,
        cancel_requested=job.cancel_requested,
        worker=job.worker,
        claimed_at=from_datetime(job.updated_at),
        updated_at=from_datetime(job.updated_at),
        lease_until=None,
        overlong_at=None,
    )


def ids(jobs: Any) -> list[str]:
    return [job.id for job in jobs]


def at(moment: Moment | None) -> Any:
    return maybe_datetime(moment)


def together(number: int, call: Callable[[int], T]) -> list[T]:
    """Run the call in that many threads at the same time; the answers, by thread."""
    start = Barrier(number)

    def run(thread: int) -> T:
        start.wait()
        return call(thread)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def insert(store: Store, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
    """Store jobs, and ask again for those that a transaction of others held just then."""
    answers = store.insert(jobs, now)
    held = [at for at, answer in answers.items() if isinstance(answer, HeldByOthers)]
    clashes = {at: answer for at, answer in answers.items() if isinstance(answer, Clash)}
    if held:
        again = insert(store, [jobs[at] for at in held], now)
        clashes |= {held[at]: clash for at, clash in again.items()}
    return clashes
