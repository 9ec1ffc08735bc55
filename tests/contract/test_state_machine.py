"""The store under test and the memory store, side by side: the same calls, the same clock, the same
answers, the same visible state after every step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
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
from oncue.core.job import Claimed, Diagnostic, JobFilter, Lapse, NewJob, Operation
from oncue.core.lifecycle import Verb
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.core.retry import after_lapse
from oncue.ports.claims import RangeClaim, Refused, Settlement, Touch
from oncue.ports.jobs import Amendment
from oncue.ports.sink import Refusal
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore

from .conftest import OpenStore

WORK = Queue("work", timeout_seconds=100, lease_seconds=30)
GONE = Queue("gone", retention_seconds=0)
DELIVER = Queue("deliver", sink="log:")
FEW = Queue("few", concurrency=2)
SLOW = Queue("slow", rate_per_second=0.7)
TRICKLE = Queue("trickle", sink="log:", concurrency=2, rate_per_second=30)
HANDED = Queue("handed", sink="log:", completion="worker", timeout_seconds=100, lease_seconds=30)
QUEUES = (WORK, GONE, DELIVER, FEW, SLOW, TRICKLE, HANDED)
BY_NAME = {queue.name: queue for queue in QUEUES}
NAMES = [f"job-{number}" for number in range(6)]
ALL = 1_000

picks = st.integers(0, 1_000)
texts = st.sampled_from(["x", "y"])
results = st.sampled_from([None, b"r", b"s"])
SETTLING = (Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.DROP)


def comparable(answer: object) -> object:
    """An answer without what stores may word differently."""
    match answer:
        case Refused(reason, state, diagnostic):
            return "refused", reason, state, comparable(diagnostic)
        case Diagnostic():
            return answer.at, answer.code, answer.attempt, answer.epoch
        case RangeClaim():
            return list(answer.jobs), answer.busy_until
        case Mapping():
            return {key: comparable(value) for key, value in answer.items()}
        case list() | tuple() if not hasattr(answer, "_fields"):
            return [comparable(item) for item in answer]
    return answer


class Comparison(RuleBasedStateMachine):
    open_store: OpenStore

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.tested: Store = self.open_store(self.clock)
        self.reference = MemoryStore(self.clock)
        self.known: list[str] = []
        self.claims: list[Claimed] = []
        self.lapses: list[Lapse] = []
        self.fences: list[tuple[RangeClaim, RangeClaim, list[str]]] = []

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

    @initialize()
    def put_queues(self) -> None:
        for queue in QUEUES:
            self.both(lambda store, queue: store.put_queue(queue), queue)

    @rule(
        name=st.sampled_from(NAMES),
        queue=st.sampled_from([WORK, WORK, GONE, FEW, SLOW]),
        due=st.sampled_from([-1_000, 0, 0, 1_000, 5_000]),
        priority=st.sampled_from([0, 0, 5]),
        key=st.sampled_from([None, None, "k"]),
        replace=st.booleans(),
        life=st.sampled_from([None, None, None, 3_000]),
        digest=st.sampled_from([b"d", b"d", b"e"]),
        timeout=st.sampled_from([None, 50.0]),
    )
    def insert(
        self,
        name: str,
        queue: Queue,
        due: int,
        priority: int,
        key: str | None,
        replace: bool,
        life: int | None,
        digest: bytes,
        timeout: float | None,
    ) -> None:
        new = NewJob(
            id=name,
            queue=queue.name,
            due_at=self.now + due,
            payload=f"{name} {self.now}".encode(),
            priority=priority,
            created_at=self.now,
            key=key,
            expires_at=None if life is None else self.now + life,
            timeout_seconds=timeout,
            digest=digest,
            replace=replace,
        )
        self._insert([new])

    @rule(
        queue=st.sampled_from([DELIVER, DELIVER, TRICKLE, HANDED, HANDED]),
        number=st.integers(1, 4),
        due=st.sampled_from([-1_000, 0, 0, 1_000]),
        priority=st.integers(0, 1),
    )
    def insert_for_delivery(self, queue: Queue, number: int, due: int, priority: int) -> None:
        """What is due earlier, or has a higher priority, may arrive inside an open range."""
        self._insert(
            [
                NewJob(
                    id=f"sent-{len(self.known) + extra}",
                    queue=queue.name,
                    due_at=self.now + due,
                    payload=b"{}",
                    priority=priority,
                    created_at=self.now,
                )
                for extra in range(number)
            ]
        )

    def _insert(self, jobs: Sequence[NewJob]) -> None:
        self.both(lambda store: store.insert(jobs, self.now))
        self.known += [job.id for job in jobs if job.id not in self.known]

    @rule(seconds=st.sampled_from([0.001, 1, 5, 30, 70]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(days=st.sampled_from([0, 1, 1, 8]))
    def prune(self, days: int) -> None:
        self.clock.advance(days * 86_400)
        for queue in QUEUES:
            kept = round((queue.retention_seconds or 0) * 1000)
            before = self.now - kept
            self.both(lambda store, *of: store.prune(*of), queue.name, before, self.now, ALL)
        self.both(lambda store, *of: store.forget(*of), self.now, ALL)

    @precondition(lambda self: self.known)
    @rule(
        pick=picks,
        due=st.sampled_from([None, 0, 2_000]),
        priority=st.sampled_from([None, 0, 5]),
    )
    def amend(self, pick: int, due: int | None, priority: int | None) -> None:
        job_id = self.known[pick % len(self.known)]
        due_at = None if due is None else self.now + due
        amendment = Amendment(due_at, priority)
        self.both(lambda store: store.amend([job_id], amendment, self.now))

    @precondition(lambda self: self.known)
    @rule(pick=picks, change=st.sampled_from(["cancel", "request_cancel", "revive"]))
    def change(self, pick: int, change: str) -> None:
        job_id = self.known[pick % len(self.known)]
        self.both(lambda store: getattr(store, change)([job_id], self.now))

    @rule(
        verb=st.sampled_from(list(BulkVerb)),
        queue=st.sampled_from([None, WORK, FEW, DELIVER]),
        key=st.sampled_from([None, None, "k"]),
        to=st.sampled_from([WORK, FEW, SLOW]),
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
        found = self.both(found_all, change, wanted)
        if meanwhile:
            self.claims += self.both(lambda store: store.claim((WORK,), "ada", 2, self.now))
            self._expire_all()
        self.both(lambda store: store.change_all(change, wanted, found, self.now))

    @rule(paused=st.booleans(), queue=st.sampled_from([WORK, DELIVER, FEW]))
    def pause(self, paused: bool, queue: Queue) -> None:
        self.both(lambda store: store.set_paused(queue.name, paused))

    @rule(
        limit=st.integers(1, 3),
        queues=st.sampled_from(
            [(WORK,), (WORK, GONE), (GONE, WORK), (FEW, SLOW), (SLOW, WORK), (HANDED,), (HANDED,)]
        ),
        reclaimed_limit=st.sampled_from([1, 3]),
    )
    def claim(self, limit: int, queues: tuple[Queue, ...], reclaimed_limit: int) -> None:
        self.claims += self.both(
            lambda store: store.claim(
                queues, "ada", limit, self.now, reclaimed_limit=reclaimed_limit
            )
        )
        self._expire_all()

    def _expire_all(self) -> None:
        """A claim may cancel more of what has expired than it met; level that out."""
        for store in (self.tested, self.reference):
            store.expire(self.now, ALL)

    @precondition(lambda self: self.claims)
    @rule(
        pick=picks,
        lease=st.sampled_from([None, 40.0]),
        message=st.none() | texts,
        start=st.sampled_from([True, True, False]),
    )
    def touch(self, pick: int, lease: float | None, message: str | None, start: bool) -> None:
        """A worker's sign of life; without `start`, a dispatcher that still delivers."""
        claimed = self.claims[pick % len(self.claims)]
        touch = Touch(claimed.id, claimed.epoch, lease, message, start=start)
        self.both(lambda store: store.touch([touch], self.now))

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
        pairs = [(claimed.id, claimed.epoch) for claimed in claims]
        self.both(lambda store: store.hand_over(pairs, self.now))

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
        claims = self.both(lambda store: store.claim((HANDED,), "dispatcher", limit, self.now))
        self._expire_all()
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
        cancel_seen=st.booleans(),
        pause=st.sampled_from([0, 2_000]),
    )
    def settle(
        self,
        wanted: list[tuple[int, Verb]],
        result: bytes | None,
        error: str,
        cancel_seen: bool,
        pause: int,
    ) -> None:
        settlements = []
        for pick, verb in wanted:
            claimed = self.claims[-1 - pick % len(self.claims)]
            failed = verb in (Verb.FAIL, Verb.RETRY, Verb.DROP)
            settlements.append(
                Settlement(
                    claimed.id,
                    claimed.epoch,
                    verb,
                    result=result if verb is Verb.COMPLETE else None,
                    error=error if failed else None,
                    due_at=self.now + pause if verb is Verb.RETRY else None,
                    code="failure" if failed else "",
                    detail="It failed." if failed else "",
                    cancel_seen=cancel_seen,
                    keep=claimed.queue != GONE.name,
                )
            )
        self.both(lambda store: store.settle(settlements, self.now))

    @rule()
    def scan(self) -> None:
        found = {}
        for store in (self.tested, self.reference):
            found[store] = sorted(store.lapses(self.now, ALL))
        assert found[self.tested] == found[self.reference]
        self.lapses += found[self.reference]

    @precondition(lambda self: self.lapses)
    @rule(pick=picks)
    def reclaim(self, pick: int) -> None:
        lapse = self.lapses[-1 - pick % len(self.lapses)]
        queue = BY_NAME[lapse.queue]
        verdict = after_lapse(lapse, queue, self.now)
        verdicts = [(lapse, verdict, queue.keeps_history)]
        self.both(lambda store: store.reclaim(verdicts, self.now))

    @rule()
    def expire(self) -> None:
        self.both(lambda store: store.expire(self.now, ALL))

    @rule(
        queue=st.sampled_from([DELIVER, DELIVER, TRICKLE]),
        dispatcher=texts,
        limit=st.integers(1, 3),
    )
    def claim_range(self, queue: Queue, dispatcher: str, limit: int) -> None:
        claims = [
            store.claim_range([queue], dispatcher, limit, self.now, lease_seconds=10)
            for store in (self.tested, self.reference)
        ]
        assert comparable(claims[0]) == comparable(claims[1])
        if claims[0].jobs:
            names = [job.id for job in claims[0].jobs]
            self.fences.append((claims[0], claims[1], names))
        self.clock.advance(0.001)

    @precondition(lambda self: self.fences)
    @rule(pick=st.sampled_from([0, 0, 0, 1]), seconds=st.sampled_from([1, 20]))
    def extend_range(self, pick: int, seconds: int) -> None:
        tested, reference, _ = self.fences[-1 - pick % len(self.fences)]
        until = self.now + seconds * 1_000
        answers = (
            self.tested.extend_range(tested, until),
            self.reference.extend_range(reference, until),
        )
        assert answers[0] == answers[1]

    @precondition(lambda self: self.fences)
    @rule(
        pick=st.sampled_from([0, 0, 0, 1]),
        delivered=st.integers(0, 3),
        refusals=st.lists(st.sampled_from([Refusal("no", True), Refusal("busy", False)])),
    )
    def settle_range(self, pick: int, delivered: int, refusals: list[Refusal]) -> None:
        tested, reference, names = self.fences[-1 - pick % len(self.fences)]
        taken = names[:delivered]
        denied = dict(zip(names[delivered:], refusals, strict=False))
        assert self.tested.settle_range(
            tested, taken, denied, self.now
        ) == self.reference.settle_range(reference, taken, denied, self.now)

    @invariant()
    def both_look_the_same(self) -> None:
        names = [queue.name for queue in QUEUES]
        page = self.both(lambda store: store.page(JobFilter(), None, ALL).items)
        assert {job.id for job in page} <= set(self.known)
        for job_id in self.known:
            self.both(lambda store, name: store.get(name), job_id)
            self.both(history, job_id)
        self.both(lambda store: store.next_due(names))
        for name in names:
            self.both(lambda store, name: store.next_due([name]), name)
        self.both(lambda store: store.next_lapse())
        self.both(lambda store: [queue for queue in store.queues() if queue.name in names])
        for name in names:
            self.both(counts, name)


def found_all(store: Store, change: BulkChange, wanted: JobFilter) -> list[str]:
    """All that is found, however short the pages are."""
    ids: list[str] = []
    after: str | None = None
    while True:
        page = store.find_all(change, wanted, after, 2)
        ids += page.ids
        if page.next is None:
            return sorted(ids)
        after = page.next


def history(store: Store, job_id: str) -> object:
    found = store.history(job_id)
    return [found.operations, comparable(found.diagnostics), found.attempts]


def counts(store: Store, name: str) -> object:
    stats = store.stats(name)
    return {state: n for state, n in stats.counts.items() if n}, stats.oldest_due_at


FRESH = int(os.environ.get("ONCUE_FRESH_EXAMPLES", "0"))
"""How many examples with fresh seeds are tried, as `make chaos` does; 0: always the same few."""


def test_the_store_behaves_like_the_reference(open_store: OpenStore) -> None:
    machine = type("Comparison", (Comparison,), {"open_store": staticmethod(open_store)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=FRESH or 40,
            stateful_step_count=60 if FRESH else 30,
            deadline=None,
            database=None,
            derandomize=not FRESH,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
