"""What a process counts of its own work, and where it is told of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from oncue.aio import AsyncScheduler
from oncue.clock import FakeClock
from oncue.core.errors import Fenced, NotFound, SinkDown
from oncue.core.job import Delivery
from oncue.core.queue import Lateness
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.engine import Engine
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.ports.sink import Refusal
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue.telemetry import counters
from oncue.telemetry.counters import Histogram, QueueTotals, Telemetry
from oncue.testing import HandDriven


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000)


@pytest.fixture
def told(clock: FakeClock) -> Telemetry:
    return Telemetry(clock)


@pytest.fixture
def cue(clock: FakeClock) -> Scheduler:
    return Scheduler("memory:", clock=clock)


def lateness(told: Telemetry, queue: str) -> Lateness:
    found = told.lateness(queue)
    assert found is not None
    return found


# -- histograms --------------------------------------------------------------------------------


def test_a_value_at_a_bound_lies_below_it_and_one_beyond_all_bounds_in_the_last_bucket() -> None:
    found = Histogram((1, 5, 10))
    found.add([0, 1, 2, 5, 5, 10, 11, 900])
    assert found.counts == [2, 3, 1, 2]
    assert found.total == 934


def test_many_values_are_counted_as_each_of_them_alone() -> None:
    values = [0, 0, 1, 3, 7, 7, 60, 61, 4_000, 9_999_999]
    together, alone = (Histogram(counters.LATENESS_BOUNDS_MS) for _ in range(2))
    together.add(values)
    for value in values:
        alone.add([value])
    assert together == alone


def test_a_quantile_lies_within_its_bucket_and_within_what_there_was() -> None:
    found = Histogram((10, 20, 50))
    found.add([*[4] * 50, *[12] * 49, 33])
    assert 4 <= found.quantile(0.5) <= 10
    assert 12 <= found.quantile(0.99) <= 20
    assert found.quantile(1.0) == 33


def test_a_quantile_beyond_all_bounds_is_the_largest_value() -> None:
    found = Histogram((10,))
    found.add([70, 80, 90])
    assert found.quantile(0.99) == 90


def test_a_clock_that_was_set_back_takes_nothing_from_the_sum() -> None:
    found = Histogram((10,))
    found.add([-500])
    assert (found.counts, found.total, found.quantile(0.5)) == ([1, 0], 0, 0)


# -- lateness ----------------------------------------------------------------------------------


def test_nothing_is_said_of_a_queue_that_handed_over_nothing(told: Telemetry) -> None:
    told.handed_over("mail", [])
    assert told.lateness("mail") is None
    assert told.totals().queues == {}


def test_lateness_is_told_in_seconds_with_its_count_and_window(told: Telemetry) -> None:
    told.handed_over("mail", [3_000])
    assert told.lateness("mail") == Lateness(3.0, 3.0, 1, 300.0)


def test_half_is_not_later_than_p50_and_nearly_all_not_later_than_p99(told: Telemetry) -> None:
    told.handed_over("mail", [*[2] * 980, *[45_000] * 20])
    found = lateness(told, "mail")
    assert found.p50_seconds == 0.002
    assert 30 <= found.p99_seconds <= 45


def test_queues_are_told_apart(told: Telemetry) -> None:
    told.handed_over("mail", [10_000])
    told.handed_over("fax", [1])
    assert lateness(told, "mail").p50_seconds == 10
    assert lateness(told, "fax").p50_seconds == 0.001


def test_what_is_older_than_five_minutes_no_longer_counts(
    told: Telemetry, clock: FakeClock
) -> None:
    told.handed_over("mail", [60_000])
    clock.advance(200)
    told.handed_over("mail", [1, 1])
    assert lateness(told, "mail").count == 3
    clock.advance(100)
    assert lateness(told, "mail") == Lateness(0.001, 0.001, 2, 300.0)
    clock.advance(200)
    assert told.lateness("mail") is None
    assert sum(told.totals().queues["mail"].lateness_ms.counts) == 3


def test_the_window_of_an_idle_queue_is_dropped_and_its_totals_stay(
    told: Telemetry, clock: FakeClock
) -> None:
    told.handed_over("idle", [1])
    clock.advance(301)
    told.handed_over("busy", [1])
    assert list(told._windows) == ["busy"]
    assert set(told.totals().queues) == {"idle", "busy"}


def test_of_too_many_queues_the_longest_idle_one_is_forgotten(
    told: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "QUEUES_KEPT", 2)
    for queue in ("first", "second", "first", "third"):
        told.handed_over(queue, [1])
    assert set(told.totals().queues) == {"first", "third"}
    assert told.lateness("second") is None


def test_threads_lose_no_count(told: Telemetry) -> None:
    def tell() -> None:
        for _ in range(200):
            told.handed_over("mail", [1, 2, 3])
            told.count("jobs_created", 2)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lateness(told, "mail").count == 2400
    assert told.totals().counts["jobs_created"] == 1600


def test_totals_are_a_copy(told: Telemetry) -> None:
    told.handed_over("mail", [1])
    before = told.totals()
    told.handed_over("mail", [1])
    told.count("jobs_created", 1)
    assert before.queues["mail"].lateness_ms.counts[0] == 1
    assert before.counts["jobs_created"] == 0


# -- requests ----------------------------------------------------------------------------------


def test_requests_are_counted_by_kind_and_timed_by_route(told: Telemetry) -> None:
    for status, seconds in ((200, 0.004), (200, 0.3), (404, 0.001)):
        told.request("/jobs/{id}", "GET", status, seconds)
    totals = told.totals()
    assert totals.requests == {("GET", "/jobs/{id}", 200): 2, ("GET", "/jobs/{id}", 404): 1}
    assert sum(totals.request_seconds["/jobs/{id}"].counts) == 3
    assert totals.request_seconds["/jobs/{id}"].total == pytest.approx(0.305)


def test_methods_invented_by_clients_do_not_fill_the_memory(
    told: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "REQUESTS_KEPT", 2)
    for method in ("GET", "PUT", "FOO", "BAR", "GET"):
        told.request("/jobs", method, 200, 0.1)
    assert told.totals().requests == {
        ("GET", "/jobs", 200): 2,
        ("PUT", "/jobs", 200): 1,
        ("other", "other", 200): 2,
    }


# -- who tells ---------------------------------------------------------------------------------


class Sink(MemorySink):
    """Answers as it is told: with refusals, or with trouble."""

    answer: Mapping[int, Refusal] | Exception

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def dispatcher(cue: Scheduler, sink: Sink) -> Dispatcher:
    cue.set_queue("mail", sink="log:")
    return Dispatcher(cue.engine.node, lambda: cue.queue("mail"), sink, "one", Keeper(cue.clock))


def of_mail(cue: Scheduler) -> QueueTotals:
    return cue.telemetry.totals().queues["mail"]


def test_a_dispatcher_tells_what_was_taken_how_late_and_what_was_refused(
    cue: Scheduler, clock: FakeClock
) -> None:
    sink = Sink()
    sink.answer = {0: Refusal("busy", permanent=False), 2: Refusal("gone", permanent=True)}
    deliverer = dispatcher(cue, sink)
    cue.schedule_many([{"queue": "mail"}] * 4)
    clock.advance(7)
    deliverer.step()
    assert of_mail(cue).deliveries == {"delivered": 2, "refused": 1, "failed": 1}
    assert cue.telemetry.lateness("mail") == Lateness(7.0, 7.0, 2, 300.0)


@pytest.mark.parametrize("trouble", [SinkDown("away"), ValueError("bug")], ids=["down", "bug"])
def test_a_sink_in_trouble_counts_as_down_and_opens_the_circuit_until_it_works_again(
    cue: Scheduler, clock: FakeClock, trouble: Exception
) -> None:
    sink = Sink()
    sink.answer = trouble
    deliverer = dispatcher(cue, sink)
    cue.schedule_many([{"queue": "mail"}] * 3)
    deliverer.step()
    assert of_mail(cue).deliveries == {"down": 3}
    assert cue.telemetry.lateness("mail") is None
    assert cue.telemetry.totals().circuits == {"mail": True}
    sink.answer = {}
    clock.advance(60)
    deliverer.step()
    assert of_mail(cue).deliveries["delivered"] == 3
    assert cue.telemetry.totals().circuits == {"mail": False}


def test_the_circuit_of_a_queue_whose_sink_is_gone_is_no_longer_told(cue: Scheduler) -> None:
    cue.set_queue("mail", sink="log:")
    cue.engine.step_all()
    assert cue.telemetry.totals().circuits == {"mail": False}
    cue.set_queue("mail")
    cue.engine.step_all()
    assert cue.telemetry.totals().circuits == {}


def test_an_engine_without_telemetry_of_a_scheduler_has_its_own(cue: Scheduler) -> None:
    cue.set_queue("mail", sink="log:")
    cue.schedule(queue="mail")
    Engine(Node.of(cue.store, cue.clock), lambda url: MemorySink()).step_all()
    assert cue.telemetry.totals().queues == {}


def test_a_claim_by_hand_tells_how_late_each_queue_was(cue: Scheduler, clock: FakeClock) -> None:
    cue.schedule(queue="mail")
    clock.advance(4)
    cue.schedule(queue="fax")
    cue.claim(["mail", "fax"], "ada", limit=5)
    assert lateness(cue.telemetry, "mail").p50_seconds == 4
    assert lateness(cue.telemetry, "fax").p50_seconds == 0


def test_a_worker_tells_how_late_its_jobs_were() -> None:
    cue = HandDriven()
    cue.handler("mail")(lambda job: None)
    cue.schedule_many([{"queue": "mail"}] * 5)
    cue.clock.advance(2)
    cue.run_due()
    assert lateness(cue.telemetry, "mail") == Lateness(2.0, 2.0, 5, 300.0)


def test_only_first_attempts_count_as_late(cue: Scheduler, clock: FakeClock) -> None:
    cue.schedule(queue="mail")
    [claimed] = cue.claim("mail", "ada")
    cue.fail(claimed.id, cue.token(claimed), "no", retry_after=5)
    clock.advance(500)
    assert [job.attempt for job in cue.claim("mail", "ada")] == [2]
    assert sum(of_mail(cue).lateness_ms.counts) == 1


def test_jobs_are_counted_when_they_are_stored_and_not_when_they_are_there_already(
    cue: Scheduler,
) -> None:
    cue.schedule(1, id="same")
    cue.schedule(1, id="same")
    cue.schedule_many([{"payload": 1, "id": "same"}, {}, {}])
    asyncio.run(AsyncScheduler(cue).schedule())
    assert cue.telemetry.totals().counts["jobs_created"] == 4


def test_a_write_with_a_claim_that_is_over_is_counted_as_fenced(
    cue: Scheduler, clock: FakeClock
) -> None:
    cue.schedule(queue="mail")
    [claimed] = cue.claim("mail", "ada", lease_seconds=1)
    token = cue.token(claimed)
    clock.advance(5)
    cue.engine.step_all()
    writes = (
        lambda: cue.complete(claimed.id, token),
        lambda: cue.heartbeat(claimed.id, token),
        lambda: cue.operation(claimed.id, token, "pay", "executing"),
    )
    for write in writes:
        with pytest.raises((Fenced, NotFound)):
            write()
    assert cue.telemetry.totals().counts["fenced_writes"] == 3


def test_a_result_that_came_too_late_is_counted_as_fenced() -> None:
    cue = HandDriven()

    @cue.handler("mail")
    def slow(job: object) -> None:
        if cue.telemetry.totals().reclaimed:
            return
        cue.clock.advance(100)
        cue.engine.reclaimer.step()

    cue.schedule(queue="mail")
    cue.run_due()
    assert cue.telemetry.totals().counts["fenced_writes"] == 1


def test_reclaims_are_counted_by_what_became_of_the_job(cue: Scheduler, clock: FakeClock) -> None:
    cue.schedule(id="again")
    cue.schedule(id="last", max_attempts=1)
    cue.schedule(id="stopped")
    for claim in cue.claim("default", "ada", limit=3, lease_seconds=1):
        cue.start(claim.id, cue.token(claim))
    cue.cancel("stopped", running=True)
    clock.advance(5)
    cue.engine.reclaimer.step()
    assert cue.telemetry.totals().reclaimed == {"retried": 1, "failed": 1, "cancelled": 1}


def test_expired_and_pruned_jobs_are_counted(cue: Scheduler, clock: FakeClock) -> None:
    cue.set_queue("mail", retention_seconds=10)
    expires_at = cue.schedule(delay=5).due_at
    cue.schedule_many([{"queue": "mail", "delay": 60, "expires_at": expires_at}] * 3)
    clock.advance(6)
    cue.engine.step_all()
    assert cue.telemetry.totals().counts["expired"] == 3
    clock.advance(60)
    cue.engine.step_all()
    assert cue.telemetry.totals().counts["pruned_rows"] == 3
