"""The store under test and the memory store, side by side: the same calls, the same clock, the same
answers, the same state after every step, down to the wording."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from oncue.clock import FakeClock
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.dumped import DumpedJob
from oncue.core.fencing import Settlement
from oncue.core.ids import first_epoch
from oncue.core.job import Claimed, Diagnostic, JobFilter, Lapse, NewJob, Operation
from oncue.core.lease import Touch
from oncue.core.lifecycle import State, Verb
from oncue.core.missed import Look, missed_since
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import Queue, RetryPolicy
from oncue.core.retention import Retention
from oncue.core.retry import Failure, after_lapse
from oncue.core.sharing import Taker
from oncue.ports.claims import ClaimFilter, RangeClaim
from oncue.ports.queues import QueueDeletion
from oncue.ports.sink import Refusal
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import worker_ranges
from oncue.usecases.queues import put_queue, set_paused
from tests.stores.kinds import KINDS, SERVED
from tests.stores.lacking import lacking

from .conftest import OpenStore
from .desk import claim_due, lapses_by
from .promises import By, every, exported, found_by, listed

SOON = RetryPolicy(0.5, 2.0, 4.0)
WORK = Queue("work", timeout_seconds=32.001, lease_seconds=30, poison_after=2)
GONE = Queue("gone", retention_seconds=0)
DELIVER = Queue("deliver", sink="log:", retry=SOON)
HANDED = Queue("handed", sink="log:", completion="worker", lease_seconds=30, retry=SOON)
PLAIN = Queue("plain")  # never set
QUEUES = (WORK, GONE, DELIVER, HANDED, PLAIN)
BY_NAME = {queue.name: queue for queue in QUEUES}
IDS = [f"job-{number}" for number in range(6)]
ALL = 1_000
MOST_TURNED_BACK_MS = 60_000

picks = st.integers(0, 1_000)
texts = st.sampled_from(["x", "y"])
results = st.sampled_from([None, b"r", b"s"])
some_queues = st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3)
REPORTS = (None, Failure(0.5), Failure(0.5, retryable=False))
SETTLING = (Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.RELEASE, Verb.DROP)


def comparable(answer: object) -> object:
    """An answer, whatever kinds of sequences it is made of."""
    if isinstance(answer, RangeClaim):
        return answer._replace(jobs=list(answer.jobs))
    return list(answer) if type(answer) is tuple else answer


class Waiting(RuleBasedStateMachine):
    """Who gets what when: order, limits, pauses, expiry, what is put off, turned clocks."""

    open_store: OpenStore

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.tested: Store = self.open_store(self.clock)
        self.reference = lacking(MemoryStore(self.clock), self.tested.traits.lacks)
        self.known: list[str] = []
        self.used: dict[str, None] = {}
        self.claims: list[Claimed] = []
        self.batches: list[list[Claimed]] = []
        self.calls = self.steps = 0
        self.looks_every = 1
        self.lapses: list[Lapse] = []
        self.ranges: list[RangeClaim] = []
        self.settled: set[str] = set()
        self.last_look: Look | None = None
        self.latest = self.now

    def teardown(self) -> None:
        self.tested.close()

    @property
    def now(self) -> int:
        return self.clock.now()

    def both(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Make the call on both stores; their answers must be the same."""
        expected = call(self.reference, *arguments)
        assert comparable(call(self.tested, *arguments)) == comparable(expected)
        return expected

    def take(self, claim: Callable[[Store], Any]) -> Any:
        """Make a claim on both stores. Which of the jobs that have expired it cancels, if it does
        not need all of them, is up to the store; so all are cancelled afterwards."""
        taken = self.both(claim)
        for store in (self.reference, self.tested):
            store.expire(self.now, ALL)
        return taken

    def no_later(self, queues: list[str]) -> None:
        """The store says to look again when the reference does, or earlier."""
        due = self.reference.next_due(queues)
        assert self.tested.next_due(queues) == (None if due is None else By(due))

    def same_leases(self) -> None:
        tested, reference = self.tested.leases(), self.reference.leases()
        if reference.next_lapse is not None:
            assert tested.next_lapse == By(reference.next_lapse)
        elif not self.ranges:  # it may be when a job of an open range would have expired
            assert tested.next_lapse is None
        assert tested._replace(next_lapse=reference.next_lapse) == reference

    @initialize(looks_every=st.sampled_from([1, 3, 6]))
    def put_queues(self, looks_every: int) -> None:
        self.looks_every = looks_every
        for queue in QUEUES:
            if queue is not PLAIN:
                self._put_queue(queue)

    def _put_queue(self, queue: Queue) -> None:
        self.both(lambda store: put_queue(store, queue))

    @rule(
        queue=st.sampled_from([WORK, DELIVER, DELIVER, HANDED]),
        rate=st.sampled_from([None, None, 0.5, 30.0]),
        concurrency=st.sampled_from([None, None, None, 1]),
    )
    def limit(self, queue: Queue, rate: float | None, concurrency: int | None) -> None:
        self._put_queue(replace(queue, rate_per_second=rate, concurrency=concurrency))

    @rule(paused=st.sampled_from([True, False, False]), queue=st.sampled_from(QUEUES))
    def pause(self, paused: bool, queue: Queue) -> None:
        self.both(lambda store: set_paused(store, queue.name, paused))

    @rule(
        queue=st.sampled_from([WORK, GONE, PLAIN, PLAIN, DELIVER, DELIVER, HANDED, HANDED]),
        number=st.integers(1, 4),
        due=st.sampled_from([-1_000, 0, 0, 1_000]),
        priority=st.sampled_from([0, 0, 9]),
        life=st.sampled_from([None, None, 200, 3_000]),
    )
    def insert(self, queue: Queue, number: int, due: int, priority: int, life: int | None) -> None:
        """What is due earlier, or has a higher priority, may arrive inside an open range."""
        self._arrive(queue, number, due=due, priority=priority, life=life)

    def _arrive(
        self, queue: Queue, number: int, *, due: int = 0, priority: int = 0, life: int | None = None
    ) -> None:
        self._insert(
            [
                NewJob(
                    id=f"new-{len(self.known) + extra}",
                    queue=queue.name,
                    due_at=self.now + due,
                    payload=b"{}",
                    priority=priority,
                    created_at=self.now,
                    expires_at=None if life is None else self.now + life,
                )
                for extra in range(number)
            ]
        )

    def _insert(self, jobs: Sequence[NewJob]) -> None:
        self.both(lambda store: store.insert(jobs, self.now))
        self.known += [job.id for job in jobs if job.id not in self.known]
        self.used |= dict.fromkeys(job.queue for job in jobs)

    @rule(seconds=st.sampled_from([0.001, 0.3, 0.7, 1, 1, 5, 30, 70]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600, -20, -3, 3]))
    def turn_the_clock(self, seconds: int) -> None:
        """A remote store goes by the time of its service, which is not set back by minutes."""
        turned = self.now + seconds * 1000
        self.latest = max(self.latest, self.now)
        if self.tested.traits.is_remote:
            turned = max(turned, self.latest - MOST_TURNED_BACK_MS)
        self.clock.set(turned)

    @rule(away=st.booleans())
    def judge_leases(self, away: bool) -> None:
        """As the reclaimer does."""
        own = self.last_look
        look = Look(self.clock.origin(), round(self.clock.monotonic() * 1000), self.now)

        def judge(store: Store) -> object:
            return store.judge_leases(
                lambda recorded: (look, missed_since(own, recorded, look, away=away))
            )

        self.both(judge)
        self.last_look = look

    @rule(
        limit=st.integers(1, 3),
        others=st.sampled_from([(), (1,), (2, 1)]),
        queues=some_queues,
        reclaimed_limit=st.sampled_from([1, 3]),
        together=st.booleans(),
        lost=st.booleans(),
    )
    def claim(
        self,
        limit: int,
        others: tuple[int, ...],
        queues: list[Queue],
        reclaimed_limit: int,
        together: bool,
        lost: bool,
    ) -> None:
        """For one or more takers; and once more, if the answer got lost."""
        together = together and queues[0].sink is None
        queues, others = (queues[:1], ()) if together else (queues, others)
        takers = [Taker("ada", limit, None, reclaimed_limit, together, together)]
        takers += [Taker(f"bob {n}", most, 20.0) for n, most in enumerate(others)]
        self.calls += 1
        nonce = f"call {self.calls}"
        claims = self.take(lambda store: store.claim(queues, takers, self.now, nonce=nonce))
        if lost and any(claims):
            repeated = self.take(
                lambda store: store.claim(queues, takers, self.now, nonce=nonce, again=True)
            )
            assert repeated == claims
        self.claims += [claimed for share in claims for claimed in share]
        self.batches += [share for share in claims if share]

    @precondition(lambda self: self.batches)
    @rule(pick=st.sampled_from([0, 0, 1]), again=st.booleans())
    def complete_all(self, pick: int, again: bool) -> None:
        """What was claimed together; and once more, if the answer got lost."""
        batch = self.batches[-1 - pick % len(self.batches)]
        settlements = [Settlement(one.id, one.epoch, Verb.COMPLETE) for one in batch]
        for _ in range(2 if again else 1):
            self.both(lambda store: store.settle(settlements, self.now))

    @rule(
        number=st.integers(1, 2),
        handed=st.booleans(),
        life=st.sampled_from([None, 200, 3_000]),
        after=st.sampled_from([0, 300, 1_000]),
    )
    def refuse_for_now(self, number: int, handed: bool, life: int | None, after: int) -> None:
        """Jobs arrive, the sink refuses all that is due, and another job arrives."""
        queue = HANDED if handed else DELIVER
        self._arrive(queue, number, life=life)
        if handed:
            claims = self.take(lambda store: claim_due(store, (HANDED,), "dispatcher", 3, self.now))
            self.claims += claims
            ends = [
                Settlement(one.id, one.epoch, Verb.RELEASE, error="busy", put_off=True)
                for one in claims
            ]
            self.both(lambda store: store.settle(ends, self.now))
        else:
            claim = self._claim_range(DELIVER, "x", 3, self.now)
            denied = {job.id: Refusal("busy", False) for job in claim.jobs}
            self.both(lambda store: store.settle_range(claim, (), denied, self.now))
        self._arrive(queue, 1)
        self.clock.advance(after / 1000)

    @rule(
        queue=st.sampled_from([DELIVER, DELIVER, HANDED]),
        dispatcher=texts,
        limit=st.integers(1, 3),
        ahead=st.sampled_from([0, 0, 2_000]),
        in_flight=st.integers(0, 3),
    )
    def claim_range(
        self, queue: Queue, dispatcher: str, limit: int, ahead: int, in_flight: int
    ) -> None:
        last = self.ranges[-in_flight:] if in_flight else []
        if self._has_expired_in_range(queue):  # when that is cancelled is up to the store
            last = []
        self._claim_range(queue, dispatcher, limit, self.now + ahead, last)

    def _has_expired_in_range(self, queue: Queue) -> bool:
        wanted = JobFilter(queue=queue.name, state=State.DISPATCHED)
        expiries = [job.expires_at for job in listed(self.reference, wanted)]
        return any(at is not None and at <= to_datetime(self.now) for at in expiries)

    def _claim_range(
        self,
        queue: Queue,
        dispatcher: str,
        limit: int,
        until: Moment,
        in_flight: Sequence[RangeClaim] = (),
    ) -> RangeClaim:
        own = [one for one in in_flight if one.queue == queue.name]
        claim: RangeClaim = self.take(
            lambda store: store.claim_range(
                *(queue, dispatcher, limit, self.now),
                lease_seconds=10,
                in_flight=own,
                due_until=until,
            )
        )
        if claim.jobs:
            self.ranges.append(claim)
        return claim

    @precondition(lambda self: self.ranges)
    @rule(
        pick=st.sampled_from([0, 0, 0, 1]),
        delivered=st.integers(0, 2),
        refusals=st.lists(st.sampled_from([Refusal("no", True), Refusal("busy", False)])),
        left=st.sampled_from([0, 0, 1, 2]),
    )
    def settle_range(self, pick: int, delivered: int, refusals: list[Refusal], left: int) -> None:
        claim = self.ranges[-1 - pick % len(self.ranges)]
        names = [job.id for job in claim.jobs]
        taken = names[:delivered]
        denied = dict(zip(names[delivered:], refusals, strict=False))
        self.settled.update([*taken, *denied])
        left = min(left, len({*names} - self.settled))
        self.both(lambda store: store.settle_range(claim, taken, denied, self.now, left=left))

    @rule()
    def expire(self) -> None:
        self.both(lambda store: store.expire(self.now, ALL))

    @invariant()
    def both_look_the_same(self) -> None:
        """After every step, or not so often: who looks at a job may change how it is stored."""
        self.steps += 1
        for name in self.used:  # before anybody looks at jobs
            due = self.reference.next_due([name])
            if due is not None:  # else a range's lease may end
                assert self.tested.next_due([name]) == By(due)
        if self.steps % self.looks_every == 0:
            self.look_at_everything()

    def look_at_everything(self) -> None:
        self.both(everything)
        for name in self.used:
            self.no_later([name])
            self.both(lambda store, name: store.stats(name), name)
        self.same_leases()
        self.both(lambda store: store.live_count())
        self.both(lambda store: store.has_leases_astray(self.now))
        self.both(lambda store: store.queues())


class Everything(Waiting):
    """The rest as well: names and keys, changes by people, the life of claims, retention."""

    @rule(queue=st.sampled_from(QUEUES), limit=st.sampled_from([1, ALL]))
    def delete_queue(self, queue: Queue, limit: int) -> None:
        """To its end: which jobs go first is up to the store."""

        def delete(store: Store) -> QueueDeletion:
            while (answer := store.delete_queue(queue.name, self.now, limit)).outcome == "more":
                continue
            return answer

        self.both(delete)

    @rule(
        name=st.sampled_from(IDS),
        queue=st.sampled_from([WORK, WORK, GONE, PLAIN]),
        due=st.sampled_from([-1_000, 0, 0, 1_000, 5_000]),
        key=st.sampled_from([None, None, "k"]),
        replaces=st.booleans(),
        digest=st.sampled_from([b"d", b"d", b"e"]),
        timeout=st.sampled_from([None, 50.0]),
    )
    def insert_by_name(
        self,
        name: str,
        queue: Queue,
        due: int,
        key: str | None,
        replaces: bool,
        digest: bytes,
        timeout: float | None,
    ) -> None:
        new = NewJob(
            id=name,
            queue=queue.name,
            due_at=self.now + due,
            payload=f"{name} {self.now}".encode(),
            priority=0,
            created_at=self.now,
            key=key,
            timeout_seconds=timeout,
            digest=digest,
            epoch=first_epoch(self.now),
            replace=replaces,
        )
        self._insert([new])

    @rule(days=st.sampled_from([0, 1, 1, 8]))
    def prune(self, days: int) -> None:
        self.clock.advance(days * 86_400)
        before = {
            queue.name: self.now - round((queue.retention_seconds or 0) * 1000) for queue in QUEUES
        }
        self.both(lambda store: store.prune(Retention(before), self.now, ALL))

    @precondition(lambda self: self.known)
    @rule(
        pick=picks,
        due=st.sampled_from([None, 0, 2_000]),
        priority=st.sampled_from([None, 0, 5, 9]),
    )
    def amend(self, pick: int, due: int | None, priority: int | None) -> None:
        job_id = self.known[pick % len(self.known)]
        due_at = None if due is None else self.now + due
        change = JobChange(ChangeVerb.AMEND, due_at=due_at, priority=priority)
        self.both(lambda store: store.change([job_id], change, self.now))

    @precondition(lambda self: self.known)
    @rule(pick=picks, verb=st.sampled_from(["cancel", "stop", "revive", "run"]))
    def change(self, pick: int, verb: str) -> None:
        job_id, change = self.known[pick % len(self.known)], JobChange(ChangeVerb(verb))
        self.both(lambda store: store.change([job_id], change, self.now))

    @rule(
        queue=st.sampled_from([PLAIN, PLAIN, GONE]),
        number=st.integers(1, 4),
        verb=st.sampled_from(["cancel", "stop", "run", None]),
        pick=picks,
    )
    def take_together(self, queue: Queue, number: int, verb: str | None, pick: int) -> None:
        """Jobs are taken together, another one comes among them, and somebody changes one."""
        self._arrive(queue, number)
        self.claim(number + 1, (), [queue], 1, together=True, lost=False)
        self._arrive(queue, 1, priority=9)
        if verb is not None:
            job_id, change = self.known[-1 - pick % (number + 1)], JobChange(ChangeVerb(verb))
            self.both(lambda store: store.change([job_id], change, self.now))

    @precondition(lambda self: self.known)
    @rule(pick=picks, epoch=st.integers(0, 2))
    def note(self, pick: int, epoch: int) -> None:
        told = Diagnostic(to_datetime(self.now), "told", "By hand.", 1, epoch, {"a": [1, None]})
        self.both(lambda store: store.note(self.known[pick % len(self.known)], [told]))

    @rule(
        verb=st.sampled_from(list(BulkVerb)),
        queue=st.sampled_from([None, WORK, DELIVER, HANDED]),
        key=st.sampled_from([None, None, "k"]),
        to=st.sampled_from([WORK, DELIVER, PLAIN]),
        priority=st.sampled_from([0, 5]),
        running=st.booleans(),
        meanwhile=st.booleans(),
    )
    def change_all(
        self,
        verb: BulkVerb,
        queue: Queue | None,
        key: str | None,
        to: Queue,
        priority: int,
        running: bool,
        meanwhile: bool,
    ) -> None:
        change = BulkChange(
            verb,
            self.now,
            running and verb is BulkVerb.CANCEL,
            to.name if verb is BulkVerb.MOVE else None,
            priority if verb is BulkVerb.REPRIORITISE else None,
        )
        wanted = JobFilter(queue=None if queue is None else queue.name, key=key)
        found = self.both(found_by, change, wanted, 2)
        if meanwhile:
            self.claims += self.take(lambda store: claim_due(store, (WORK,), "ada", 2, self.now))
        for part in change.parts(wanted):
            self.both(lambda store, part: store.change(found, part, self.now), part)
        self.used[to.name] = None

    @precondition(lambda self: self.claims)
    @rule(
        pick=picks,
        told=st.lists(
            st.tuples(
                st.sampled_from([None, 40.0]),
                st.none() | texts,
                st.sampled_from([True, True, False]),
            ),
            min_size=1,
            max_size=2,
        ),
    )
    def touch(self, pick: int, told: list[tuple[float | None, str | None, bool]]) -> None:
        """Signs of life of a worker; without `start`, of a dispatcher that still delivers."""
        claimed = self.claims[pick % len(self.claims)]
        touches = [
            Touch(claimed.id, claimed.epoch, lease, message, start=start)
            for lease, message, start in told
        ]
        self.both(lambda store: store.touch(touches, self.now))

    @precondition(lambda self: self.claims)
    @rule(
        pick=picks,
        name=texts,
        state=st.sampled_from(["executing", "succeeded", "failed"]),
        result=results,
        percent=st.sampled_from([None, 50.0]),
    )
    def put_operation(
        self, pick: int, name: str, state: str, result: bytes | None, percent: float | None
    ) -> None:
        claimed = self.claims[pick % len(self.claims)]
        result = result or b"r" if state == "succeeded" else None
        operation = Operation(name, state, to_datetime(self.now), percent, None, result)
        self.both(lambda store: store.put_operation(claimed.id, claimed.epoch, operation, self.now))

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def hand_over(self, pick: int) -> None:
        claimed = self.claims[pick % len(self.claims)]
        self._hand_over([claimed])

    def _hand_over(self, claims: Sequence[Claimed]) -> None:
        taken = [Settlement(claimed.id, claimed.epoch, Verb.HAND_OVER) for claimed in claims]
        self.both(lambda store: store.settle(taken, self.now))

    @rule(
        limit=st.integers(1, 3),
        quick=st.booleans(),
        beats=st.booleans(),
        pause=st.sampled_from([0.001, 20, 31]),
        done=st.booleans(),
    )
    def reach_a_worker(
        self, limit: int, quick: bool, beats: bool, pause: float, done: bool
    ) -> None:
        """A dispatcher claims, the sink takes, and a worker behind it starts before or after the
        hand-over, lives on or falls silent, and completes or does not."""
        claims = self.take(lambda store: claim_due(store, (HANDED,), "dispatcher", limit, self.now))
        self.claims += claims
        if not claims:
            return
        lease = 40.0 if beats else None
        starts = [Touch(claimed.id, claimed.epoch, lease) for claimed in claims]
        if quick:
            self.both(lambda store: store.touch(starts, self.now))
        self._hand_over(claims)
        if not quick:
            self.both(lambda store: store.touch(starts, self.now))
        self.clock.advance(pause)
        if done:
            ends = [Settlement(claimed.id, claimed.epoch, Verb.COMPLETE) for claimed in claims]
            self.both(lambda store: store.settle(ends, self.now))

    @precondition(lambda self: self.claims)
    @rule(
        wanted=st.lists(st.tuples(picks, st.sampled_from(SETTLING)), min_size=1, max_size=3),
        result=results,
        error=texts,
        pause=st.sampled_from([0, 2_000]),
    )
    def settle(
        self,
        wanted: list[tuple[int, Verb]],
        result: bytes | None,
        error: str,
        pause: int,
    ) -> None:
        settlements = []
        for pick, verb in wanted:
            claimed = self.claims[-1 - pick % len(self.claims)]
            failed = verb in (Verb.FAIL, Verb.RETRY, Verb.DROP)
            busy = verb is Verb.RELEASE and pick % 2 == 0
            settlements.append(
                Settlement(
                    claimed.id,
                    claimed.epoch,
                    verb,
                    result=result if verb is Verb.COMPLETE else None,
                    error=error if failed or busy else None,
                    due_at=self.now + pause if verb is Verb.RETRY else None,
                    put_off=busy,
                    code="failure" if failed else "",
                    detail="It failed." if failed else "",
                    failure=REPORTS[pick % 3] if verb is Verb.FAIL else None,
                )
            )
        self.both(lambda store: store.settle(settlements, self.now))

    @rule()
    def scan(self) -> None:
        self.lapses += self.both(lambda store: lapses_by(store, self.now, ALL))
        before = self.now - 5_000
        silent = ClaimFilter(heard_outside=(before, self.now))
        self.both(lambda store: sorted(every(partial(store.live_claims, silent), ALL)))

    @precondition(lambda self: self.lapses)
    @rule(pick=picks)
    def reclaim(self, pick: int) -> None:
        lapse = self.lapses[-1 - pick % len(self.lapses)]
        queue = BY_NAME[lapse.queue]
        verdict = after_lapse(lapse, queue, self.now)
        verdicts = [(lapse, verdict)]
        self.both(lambda store: store.reclaim(verdicts, self.now))

    @precondition(lambda self: self.ranges)
    @rule(pick=st.sampled_from([0, 0, 0, 1]), seconds=st.sampled_from([1, 20]))
    def extend_range(self, pick: int, seconds: int) -> None:
        claim = self.ranges[-1 - pick % len(self.ranges)]
        until = self.now + seconds * 1_000
        self.both(lambda store: store.extend_range(claim, until))

    @precondition(lambda self: self.known)
    @rule(pick=picks)
    def look(self, pick: int) -> None:
        page = self.both(lambda store: listed(store, JobFilter(), ALL))
        assert {job.id for job in page} <= set(self.known)
        job_id = self.known[pick % len(self.known)]
        named = ClaimFilter(job_id=job_id)
        self.both(lambda store: (store.get(job_id), store.history(job_id)))
        self.both(lambda store: every(partial(store.live_claims, named), 1))
        self.no_later(list(BY_NAME))
        pairs = [(claimed.id, claimed.epoch) for claimed in self.claims]
        self.both(lambda store: store.interruptions(pairs))


def everything(store: Store) -> list[object]:
    """All jobs with all that belongs to them. Of one that is gone only its id is still there."""
    return [_visible(dumped) for dumped in exported(store, ALL)]


def _visible(dumped: DumpedJob) -> object:
    return (dumped.job.id, dumped.digest) if dumped.hidden else dumped


FRESH = int(os.environ.get("ONCUE_FRESH_EXAMPLES", "0"))
"""How many examples with fresh seeds are tried, as `make chaos` does; 0: always the same few."""


@pytest.mark.one_shard
@pytest.mark.parametrize("open_store", [kind for kind in KINDS if kind != "memory"], indirect=True)
@pytest.mark.parametrize("machine", [Waiting, Everything])
def test_the_store_behaves_like_the_reference(
    request: pytest.FixtureRequest,
    open_store: OpenStore,
    machine: type[Waiting],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_ranges, "LEAST", 1)
    waits = request.node.callspec.params["open_store"] in SERVED  # for a server, at each call
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"open_store": staticmethod(open_store)}),
        settings=settings(
            max_examples=FRESH or (4 if waits else 36),
            stateful_step_count=60 if FRESH else 40,
            deadline=None,
            database=None,
            derandomize=not FRESH,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate] if waits else list(Phase),  # shrinking would take an hour
        ),
    )
