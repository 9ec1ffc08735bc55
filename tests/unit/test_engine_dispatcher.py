from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import SinkDown, StoreUnavailable
from oncue.core.job import Delivery, Job, NewJob
from oncue.core.lease import Touch
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.token import epoch_of
from oncue.engine.dispatcher import FIRST_LIMIT, Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.ports.store import Store
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.usecases.queues import put_queue, set_paused
from tests.contract.changing import STOP
from tests.contract.desk import lapses_by
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan
from tests.stores.hostile import HostileStore

PASSING = Refusal("busy", permanent=False)
PERMANENT = Refusal("gone", permanent=True)
WITHIN_A_SECOND = pytest.approx(0.875, abs=0.125)


class Bench:
    """One dispatcher over a memory store and a memory sink, driven by hand."""

    def __init__(
        self,
        completion: str = "delivery",
        store: Store | None = None,
        *,
        hostile: bool = False,
    ) -> None:
        self.clock = FakeClock(1_000_000)
        store = store or MemoryStore(self.clock)
        self.store: Store = HostileStore(store) if hostile else store
        self.sink = MemorySink()
        self.keeper = Keeper(self.clock)
        self.queue = Queue("mail", sink="memory:mail", completion=completion)
        put_queue(self.store, self.queue)
        self.dispatcher = self.another("one")

    def another(self, name: str, sink: MemorySink | None = None) -> Dispatcher:
        return Dispatcher(
            Node.of(self.store, self.clock),
            lambda: self.queue,
            sink or self.sink,
            name,
            self.keeper,
        )

    def add(self, *ids: str, after: float = 0.0) -> None:
        now = self.clock.now()
        due_at = now + round(after * 1000)
        self.store.insert([NewJob(i, "mail", due_at, b"{}", 0, now) for i in ids], now)

    def job(self, job_id: str) -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job

    @property
    def taken(self) -> list[str]:
        return [delivery.id for delivery in self.sink.deliveries]


@pytest.fixture(params=[MemoryStore, HostileStore])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(hostile=request.param is HostileStore)


@pytest.fixture(params=[MemoryStore, HostileStore])
def worker_bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(completion="worker", hostile=request.param is HostileStore)


def test_due_jobs_are_delivered_and_succeed(bench: Bench) -> None:
    bench.add("a", "b")
    assert bench.dispatcher.step() == 0.0
    assert bench.taken == ["a", "b"]
    assert bench.job("a").state is State.SUCCEEDED
    assert bench.job("a").attempt == 1


def test_a_delivery_carries_the_members_of_the_job(bench: Bench) -> None:
    bench.add("a")
    bench.dispatcher.step()
    assert list(bench.sink.deliveries) == [Delivery("a", 1_000_000, b"{}", 1, None, "mail")]


def test_nothing_waiting_rests_until_woken(bench: Bench) -> None:
    assert bench.dispatcher.step() is None


def test_nothing_is_delivered_early_and_the_rest_lasts_until_the_next_due_time(
    bench: Bench,
) -> None:
    bench.add("a", after=12.345)
    rest = bench.dispatcher.step()
    assert rest is not None
    assert 12 < rest <= 12.345
    bench.clock.advance(12.344)
    assert bench.dispatcher.step() == 0.001
    assert bench.taken == []
    bench.clock.advance(0.001)
    bench.dispatcher.step()
    assert bench.taken == ["a"]


def test_a_paused_queue_rests_until_woken(bench: Bench) -> None:
    bench.add("a")
    set_paused(bench.store, "mail", True)
    assert bench.dispatcher.step() is None
    assert bench.taken == []


def test_a_queue_whose_sink_was_removed_is_left_alone(bench: Bench) -> None:
    bench.add("a")
    bench.queue = Queue("mail")
    assert bench.dispatcher.step() is None
    assert bench.job("a").state is State.SCHEDULED


def test_a_burst_is_delivered_in_batches_without_rest(bench: Bench) -> None:
    ids = [f"job-{number:05}" for number in range(FIRST_LIMIT + 5000)]
    bench.add(*ids)
    assert [bench.dispatcher.step() for _ in range(3)] == [0.0, 0.0, None]
    assert bench.taken == ids


def test_large_payloads_make_small_batches(bench: Bench) -> None:
    now = bench.clock.now()
    payload = b"x" * (8 * 1024 * 1024)
    bench.store.insert([NewJob(i, "mail", now, payload, 0, now) for i in "ab"], now)
    bench.dispatcher.step()
    bench.store.insert([NewJob(i, "mail", now, payload, 0, now) for i in "cdef"], now)
    bench.dispatcher.step()
    assert bench.taken == ["a", "b", "c", "d"]


def test_a_sink_that_is_down_uses_up_no_attempt_and_is_left_in_peace_for_longer_each_time(
    bench: Bench,
) -> None:
    bench.add("a")
    pauses = []
    for _ in range(8):
        bench.sink.fail_next(SinkDown("unreachable"))
        pause = bench.dispatcher.step()
        assert pause is not None
        pauses.append(pause)
        assert bench.job("a").state is State.SCHEDULED
        assert bench.job("a").attempt == 0
        bench.clock.advance(pause)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert bench.dispatcher.step() == 0.0
    assert bench.job("a").attempt == 1


def test_the_first_success_closes_the_circuit(bench: Bench) -> None:
    for job_id in ("a", "b"):
        bench.add(job_id)
        bench.sink.fail_next(SinkDown("unreachable"))
        assert bench.dispatcher.step() == 1.0
        bench.clock.advance(1)
        assert bench.dispatcher.step() == 0.0


def test_a_wake_up_does_not_disturb_a_sink_that_is_down(bench: Bench) -> None:
    bench.add("a")
    bench.sink.fail_next(SinkDown("unreachable"))
    bench.dispatcher.step()
    bench.clock.advance(0.25)
    assert bench.dispatcher.step() == 0.75
    assert bench.taken == []


def test_the_pause_that_a_sink_asks_for_is_kept_to(bench: Bench) -> None:
    bench.add("a")
    bench.sink.fail_next(SinkDown("throttled", retry_after_seconds=300))
    assert bench.dispatcher.step() == 300


def test_an_unexpected_error_of_the_sink_counts_as_down_and_its_message_stays_out_of_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.add("a")
    bench.sink.fail_next(ValueError("payload was: secret"))
    assert bench.dispatcher.step() == 1.0
    assert bench.job("a").attempt == 0
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(1), GeneratorExit(), BaseException("hidden")]
)
def test_what_a_sink_raises_to_end_a_task_or_a_program_counts_as_down(
    bench: Bench, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bench.sink.fail_next(error)
    bench.add("a")
    assert bench.dispatcher.step() == 1.0
    assert (bench.job("a").state, bench.job("a").attempt) == (State.SCHEDULED, 0)
    assert type(error).__name__ in caplog.text
    assert "hidden" not in caplog.text
    bench.clock.advance(1)
    bench.dispatcher.step()
    assert bench.taken == ["a"]


class WrongOnce(MemorySink):
    """Answers once with something that is no answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        if self._answer == "taken":
            return super().deliver(queue, batch)
        answer, self._answer = self._answer, "taken"
        return cast("Mapping[int, Refusal]", answer)


@pytest.mark.parametrize("completion", ["delivery", "worker"])
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, "NoneType"),
        ([PASSING], "list"),
        ({1: PASSING}, "position 1 in a batch of 1"),
        ({-1: PASSING}, "position -1"),
        ({"0": PASSING}, "str"),
        ({0: "secret"}, "str instead of a Refusal"),
    ],
)
def test_a_wrong_answer_of_the_sink_counts_as_down_and_does_not_stop_the_queue(
    completion: str, answer: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(completion)
    bench.add("a")
    sink = WrongOnce(answer)
    dispatcher = bench.another("wrong", sink)
    assert dispatcher.step() == 1.0
    assert (bench.job("a").state, bench.job("a").refusals) == (State.SCHEDULED, 0)
    assert kind in caplog.text
    assert "secret" not in caplog.text
    bench.clock.advance(1)
    bench.add("b")
    dispatcher.step()
    assert [delivery.id for delivery in sink.deliveries] == ["a", "b"]


@pytest.mark.parametrize("completion", ["delivery", "worker"])
def test_of_a_batch_in_whose_middle_the_sink_went_down_the_rest_is_due_as_before(
    completion: str,
) -> None:
    bench = Bench(completion)
    bench.add("a", "b", "c")
    bench.sink.fail_next(SinkDown("throttled", untaken={1: None, 2: PERMANENT}))
    assert bench.dispatcher.step() == 1.0
    taken = State.SUCCEEDED if completion == "delivery" else State.DISPATCHED
    assert [(bench.job(one).state, bench.job(one).attempt) for one in "abc"] == [
        (taken, 1),
        (State.SCHEDULED, 0),
        (State.FAILED, 1),
    ]
    assert bench.job("b").refusals == 0
    bench.clock.advance(1)
    bench.dispatcher.step()
    assert bench.taken == ["b"]


@pytest.mark.parametrize("untaken", [{3: None}, {"a": None}, {0: "why"}, [1]])
def test_a_sink_that_is_down_and_gives_a_wrong_answer_took_nothing(
    bench: Bench, untaken: Any
) -> None:
    bench.add("a")
    bench.sink.fail_next(SinkDown("throttled", untaken=untaken))
    assert bench.dispatcher.step() == 1.0
    assert bench.job("a").state is State.SCHEDULED


def test_ctrl_c_while_a_sink_is_called_by_hand_ends_the_program(bench: Bench) -> None:
    bench.sink.fail_next(KeyboardInterrupt())
    bench.add("a")
    with pytest.raises(KeyboardInterrupt):
        bench.dispatcher.step()


def test_a_long_outage_is_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "oncue.engine")
    bench.add("a")
    for _ in range(5):
        bench.sink.fail_next(SinkDown("unreachable"))
        bench.dispatcher.step()
        bench.clock.advance(60)
    bench.dispatcher.step()
    assert [record.getMessage() for record in caplog.records] == [
        "queue mail: unreachable; trying again in 1 s",
        "queue mail: the sink works again",
    ]


def test_of_a_partly_refused_batch_only_the_rest_is_delivered_again(bench: Bench) -> None:
    bench.add("a", "b", "c")
    bench.sink.refuse("b", PASSING)
    assert bench.dispatcher.step() == 0.0
    assert bench.taken == ["a", "c"]
    assert bench.job("b").attempt == 0
    bench.sink.accept("b")
    bench.clock.advance(1)
    bench.dispatcher.step()
    assert bench.taken == ["a", "c", "b"]


@pytest.mark.parametrize("completion", ["delivery", "worker"])
def test_a_job_refused_for_now_waits_longer_each_time_and_the_others_go_on(
    completion: str,
) -> None:
    bench = Bench(completion)
    bench.add("stuck", "good")
    bench.sink.refuse("stuck", PASSING)
    delays = []
    for refusals in range(1, 10):
        assert bench.dispatcher.step() == 0.0
        stuck = bench.job("stuck")
        assert (stuck.state, stuck.attempt, stuck.error) == (State.SCHEDULED, 0, "busy")
        assert stuck.refusals == refusals
        rest = bench.dispatcher.step()
        assert rest is not None
        delays.append(rest)
        bench.add(f"good-{refusals}")
        bench.dispatcher.step()
        assert bench.taken[-1] == f"good-{refusals}"
        bench.clock.advance(rest)
    policy = bench.queue.retry
    assert all(2**n * 0.375 <= delay <= 2**n for n, delay in enumerate(delays[:7]))
    assert all(policy.max_seconds * 0.375 <= delay <= policy.max_seconds for delay in delays[7:])
    bench.sink.accept("stuck")
    bench.dispatcher.step()
    assert bench.taken[-1] == "stuck"
    assert bench.job("stuck").attempt == 1


@pytest.mark.parametrize("completion", ["delivery", "worker"])
def test_a_batch_refused_as_a_whole_for_now_is_no_trouble_of_the_sink(completion: str) -> None:
    bench = Bench(completion)
    ids = [f"tenant-{number:03}" for number in range(FIRST_LIMIT)]
    bench.add(*ids)
    bench.add("good", after=0.001)
    bench.clock.advance(0.001)
    for job_id in ids:
        bench.sink.refuse(job_id, PASSING)
    assert bench.dispatcher.step() == 0.0
    assert bench.dispatcher.step() == 0.0
    assert bench.taken == ["good"]


def test_a_sink_that_is_down_puts_no_job_off(bench: Bench) -> None:
    bench.add("a")
    bench.sink.fail_next(SinkDown("unreachable"))
    assert bench.dispatcher.step() == 1.0
    assert (bench.job("a").not_before, bench.job("a").refusals) == (None, 0)


def test_jobs_refused_again_and_again_leave_turns_to_the_others_of_a_queue_with_a_rate() -> None:
    bench = Bench()
    bench.queue = replace(bench.queue, rate_per_second=1)
    put_queue(bench.store, bench.queue)
    bench.add(*(f"stuck-{number:03}" for number in range(200)))
    for number in range(200):
        bench.sink.refuse(f"stuck-{number:03}", PASSING)
    bench.add(*(f"good-{number}" for number in range(5)), after=1)
    for _ in range(1_000):  # seconds, and as many turns
        bench.dispatcher.step()
        bench.clock.advance(1)
    assert len(bench.taken) == 5


def test_a_permanent_refusal_fails_the_job_and_no_other(bench: Bench) -> None:
    bench.add("a", "b")
    bench.sink.refuse("a", PERMANENT)
    assert bench.dispatcher.step() == 0.0
    assert bench.job("a").state is State.FAILED
    assert bench.job("a").error == "gone"
    assert bench.job("b").state is State.SUCCEEDED


HALF = "400: name \ud800 is \0 invalid"


@pytest.mark.parametrize("permanent", [True, False])
@pytest.mark.parametrize("completion", ["delivery", "worker"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_refusal_whose_text_no_store_can_keep_is_settled_all_the_same(
    tmp_path: Path, kind: str, completion: str, permanent: bool
) -> None:
    clock = FakeClock(1_000_000)
    store = MemoryStore(clock) if kind == "memory" else SqliteStore(tmp_path / "jobs.db", clock)
    with closing(store):
        bench = Bench(completion, store)
        bench.add("bad", "good")
        bench.sink.refuse("bad", Refusal(HALF, permanent))
        bench.dispatcher.step()
        bad = bench.job("bad")
        assert bad.error == "400: name \\ud800 is \\0 invalid"
        assert bad.state is (State.FAILED if permanent else State.SCHEDULED)
        bench.dispatcher.step()
        assert bench.taken == ["good"]


def test_a_batch_refused_for_good_is_no_trouble_of_the_sink(bench: Bench) -> None:
    bench.add("a")
    bench.sink.refuse("a", PERMANENT)
    assert bench.dispatcher.step() == 0.0


class Crash(KeyboardInterrupt):
    pass


class CrashingSink(MemorySink):
    """Takes the batch, and the process dies before it can say so."""

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        super().deliver(queue, batch)
        raise Crash


def test_a_crash_after_delivery_repeats_the_batch_with_the_same_attempt(bench: Bench) -> None:
    bench.add("a")
    crashing = CrashingSink()
    with pytest.raises(Crash):
        bench.another("crashed", crashing).step()
    assert bench.dispatcher.step() == WITHIN_A_SECOND
    bench.clock.advance(60)
    assert bench.dispatcher.step() == 0.0
    assert [job.attempt for job in (*crashing.deliveries, *bench.sink.deliveries)] == [1, 1]


def test_a_queue_that_another_dispatcher_holds_is_looked_at_again_within_a_second(
    bench: Bench,
) -> None:
    bench.add("a")
    bench.store.claim_range(bench.queue, "other", 10, bench.clock.now(), lease_seconds=0.4)
    assert bench.dispatcher.step() == 0.4
    bench.store.claim_range(bench.queue, "other", 10, bench.clock.now(), lease_seconds=60)
    assert bench.dispatcher.step() == WITHIN_A_SECOND


def test_how_soon_it_looks_again_is_for_the_store_to_say() -> None:
    """For what another is about to take, and for what another holds."""
    bench = Bench(store=slow_to_look_at(2.0))
    bench.add("a")
    for lease_seconds in (0.4, 60):
        now = bench.clock.now()
        bench.store.claim_range(bench.queue, "other", 10, now, lease_seconds=lease_seconds)
        rests = {bench.dispatcher.step() for _ in range(10)}
        assert all(rest is not None and 1.5 <= rest <= 2.0 for rest in rests)
        assert len(rests) > 1, "nodes do not look in step"


def slow_to_look_at(poll_seconds: float) -> Store:
    store = MemoryStore(FakeClock(1_000_000))
    store.traits = store.traits._replace(poll_seconds=poll_seconds)
    return store


def test_a_range_held_by_another_dispatcher_is_not_taken_over_when_the_clock_is_set_forward(
    bench: Bench,
) -> None:
    reclaimer = Reclaimer(Node.of(bench.store, bench.clock))
    dispatcher = Dispatcher(
        *(Node.of(bench.store, bench.clock), lambda: bench.queue, bench.sink, "two", bench.keeper),
        check_clock=reclaimer.check_clock,
    )
    bench.add("a")
    held = bench.store.claim_range(bench.queue, "one", 10, bench.clock.now(), lease_seconds=60)
    reclaimer.step()
    bench.clock.set(bench.clock.now() + 3_600_000)
    assert dispatcher.step() == WITHIN_A_SECOND
    assert bench.taken == []
    assert bench.store.settle_range(held, ["a"], {}, bench.clock.now())


class SlowSink(MemorySink):
    """Takes its time; the keeper's thread is driven from in here."""

    def __init__(self, bench: Bench, seconds: int) -> None:
        super().__init__()
        self._bench = bench
        self._seconds = seconds

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        for _ in range(self._seconds):
            self._bench.clock.advance(1)
            self._bench.keeper.step()
        return super().deliver(queue, batch)


@pytest.mark.parametrize("completion", ["delivery", "worker"])
def test_a_lease_is_kept_while_a_slow_delivery_is_under_way(completion: str) -> None:
    bench = Bench(completion)
    bench.add("a")
    sink = SlowSink(bench, seconds=200)
    assert bench.another("slow", sink).step() == 0.0
    assert lapses_by(bench.store, bench.clock.now()) == []
    assert bench.job("a").state is not State.SCHEDULED


@pytest.mark.parametrize("completion", ["delivery", "worker"])
def test_what_was_claimed_too_long_ago_is_not_sent_but_claimed_anew(completion: str) -> None:
    """The store took 50 s of a lease of 60 s to answer: another dispatcher may soon take over."""
    bench = Bench(completion)
    slow = Plan(1, {Fault.DELAY: 1.0}, only={"claim", "claim_range"}, first_n=1)
    store = FaultyStore(bench.store, slow, pause=bench.clock.advance, pause_seconds=50)
    dispatcher = Dispatcher(
        Node.of(store, bench.clock), lambda: bench.queue, bench.sink, "slow", bench.keeper
    )
    bench.add("a")
    assert dispatcher.step() == 0.0
    assert bench.taken == []
    assert (bench.job("a").state, bench.job("a").attempt) == (State.SCHEDULED, 0)
    dispatcher.step()
    assert bench.taken == ["a"]


class StalledSink(MemorySink):
    """The process is stopped during delivery, beyond its lease; another dispatcher takes over."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._bench.clock.advance(61)
        self._bench.dispatcher.step()
        return super().deliver(queue, batch)


def test_a_dispatcher_whose_range_was_taken_over_settles_nothing_and_says_so(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.add("a")
    assert bench.another("stalled", StalledSink(bench)).step() == 0.0
    assert bench.job("a").attempt == 1
    assert "taken over" in caplog.text


class ForgetfulStore(MemoryStore):
    """Cannot settle ranges while `away` or `defect`, nor deliveries while `broken`."""

    away = False
    broken = False
    defect = False

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        if self.away:
            raise StoreUnavailable("disk full")
        if self.defect or (self.broken and delivered):
            raise OverflowError
        return super().settle_range(claim, delivered, refused, now, left=left)


def test_what_the_store_could_not_settle_is_settled_later_and_not_delivered_again() -> None:
    store = ForgetfulStore(FakeClock())
    bench = Bench(store=store)
    bench.add("a")
    store.away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            bench.dispatcher.step()
    store.away = False
    assert bench.dispatcher.step() is None
    assert bench.taken == ["a"]
    assert bench.job("a").state is State.SUCCEEDED


def test_what_can_never_be_settled_is_let_go_and_does_not_stop_the_queue() -> None:
    store = ForgetfulStore(FakeClock())
    bench = Bench(store=store)
    bench.add("a")
    store.broken = True
    with pytest.raises(OverflowError):
        bench.dispatcher.step()
    assert bench.job("a").state is State.SCHEDULED
    store.broken = False
    bench.add("b")
    bench.dispatcher.step()
    assert bench.taken == ["a", "a", "b"]
    assert bench.job("b").state is State.SUCCEEDED


def test_what_can_neither_be_settled_nor_let_go_is_claimed_again() -> None:
    store = ForgetfulStore(FakeClock())
    bench = Bench(store=store)
    bench.add("a")
    store.defect = True
    with pytest.raises(OverflowError):
        bench.dispatcher.step()
    store.defect = False
    bench.add("b")
    bench.dispatcher.step()
    assert bench.taken == ["a", "a", "b"]
    assert bench.job("a").state is State.SUCCEEDED


def test_a_job_for_a_worker_is_handed_over_with_its_token(worker_bench: Bench) -> None:
    worker_bench.add("a")
    assert worker_bench.dispatcher.step() == 0.0
    job, delivery = worker_bench.job("a"), worker_bench.sink.deliveries[0]
    assert job.state is State.DISPATCHED
    assert job.lease_until is None
    assert delivery.token is not None
    assert epoch_of(worker_bench.store.secret, "a", delivery.token) == job.epoch


def test_a_job_for_a_worker_refused_for_good_fails(worker_bench: Bench) -> None:
    worker_bench.add("a", "b")
    worker_bench.sink.refuse("a", PERMANENT)
    worker_bench.dispatcher.step()
    assert worker_bench.job("a").state is State.FAILED
    assert worker_bench.job("a").error == "gone"
    assert worker_bench.job("b").state is State.DISPATCHED


def test_a_refusal_for_good_leaves_one_diagnostic_whatever_completes_a_job(
    bench: Bench, worker_bench: Bench
) -> None:
    told = []
    for one in (bench, worker_bench):
        one.add("a")
        one.sink.refuse("a", PERMANENT)
        one.dispatcher.step()
        [diagnostic] = one.store.history("a").diagnostics
        facts = {name: fact for name, fact in diagnostic.facts.items() if name != "worker"}
        told.append((diagnostic.code, diagnostic.detail, diagnostic.attempt, facts))
    assert told[0] == told[1]


def test_jobs_for_a_worker_are_released_unharmed_when_the_sink_is_down(
    worker_bench: Bench,
) -> None:
    worker_bench.add("a", "b")
    worker_bench.sink.fail_next(SinkDown("unreachable"))
    assert worker_bench.dispatcher.step() == 1.0
    for job_id in ("a", "b"):
        assert worker_bench.job(job_id).state is State.SCHEDULED
        assert worker_bench.job(job_id).attempt == 0
    worker_bench.clock.advance(1)
    worker_bench.dispatcher.step()
    assert worker_bench.taken == ["a", "b"]


class CancellingSink(MemorySink):
    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._bench.store.change(["a"], STOP, self._bench.clock.now())
        raise SinkDown("unreachable")


def test_a_job_cancelled_while_its_delivery_fails_ends_cancelled(worker_bench: Bench) -> None:
    worker_bench.add("a")
    worker_bench.another("other", CancellingSink(worker_bench)).step()
    assert worker_bench.job("a").state is State.CANCELLED
    [diagnostic] = worker_bench.store.history("a").diagnostics
    assert diagnostic.code == "cancelled"
    assert diagnostic.detail == "A cancel was requested while it was taken."


class CancellingAndRefusingSink(CancellingSink):
    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._bench.store.change(["a"], STOP, self._bench.clock.now())
        return {0: Refusal("busy", permanent=False)}


@pytest.mark.parametrize("sink", [CancellingSink, CancellingAndRefusingSink])
def test_a_job_cancelled_during_its_delivery_is_gone_where_nothing_is_kept(
    worker_bench: Bench, sink: type[CancellingSink]
) -> None:
    worker_bench.queue = replace(worker_bench.queue, retention_seconds=0)
    put_queue(worker_bench.store, worker_bench.queue)
    worker_bench.add("a")
    worker_bench.another("other", sink(worker_bench)).step()
    assert worker_bench.store.get("a") is None


class QuickWorkerSink(MemorySink):
    """Its worker has begun before the dispatcher hears that the job was taken."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        epoch = self._bench.job("a").epoch
        self._bench.store.touch([Touch("a", epoch)], self._bench.clock.now())
        return super().deliver(queue, batch)


def test_a_worker_that_is_quicker_than_the_dispatcher_is_no_trouble(
    worker_bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    worker_bench.add("a")
    assert worker_bench.another("other", QuickWorkerSink(worker_bench)).step() == 0.0
    assert worker_bench.job("a").state is State.EXECUTING
    assert caplog.records == []
