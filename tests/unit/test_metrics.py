"""What Prometheus is told."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncue import __version__
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.queue import Queue, QueueStats
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.telemetry import prometheus
from oncue.testing import HandDriven


class Store(MemoryStore):
    """Can be away, and tells how often jobs were counted."""

    away = False
    counted = 0

    def queues(self) -> list[Queue]:
        if self.away:
            raise StoreUnavailable("the disk is gone")
        return super().queues()

    def stats(self, name: str) -> QueueStats:
        self.counted += 1
        return super().stats(name)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000)


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return Store(clock)


@pytest.fixture
def cue(store: Store, clock: FakeClock) -> Scheduler:
    return Scheduler(store, clock=clock)


def samples(cue: Scheduler) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(prometheus.render(cue).decode())
        for sample in family.samples
    }


def test_an_idle_process_tells_its_version_and_that_the_store_is_up(cue: Scheduler) -> None:
    found = samples(cue)
    assert found["oncue_build_info", __version__] == 1
    assert found["oncue_store_up",] == 1
    assert found["oncue_jobs_created_total",] == 0
    assert found["oncue_fenced_writes_total",] == 0
    assert found["oncue_reclaimed_total", "retried"] == 0


def test_the_process_itself_is_measured(cue: Scheduler) -> None:
    assert samples(cue)["process_resident_memory_bytes",] > 0


def test_jobs_are_told_by_queue_and_state(cue: Scheduler) -> None:
    cue.schedule_many([{"queue": "mail"}] * 3)
    cue.claim("mail", "ada")
    found = samples(cue)
    assert found["oncue_jobs", "mail", "scheduled"] == 2
    assert found["oncue_jobs", "mail", "dispatched"] == 1
    assert found["oncue_jobs", "mail", "failed"] == 0
    assert found["oncue_jobs_created_total",] == 3


def test_the_oldest_due_job_tells_how_long_it_has_waited(cue: Scheduler, clock: FakeClock) -> None:
    cue.schedule(queue="mail")
    cue.schedule(queue="later", delay=3600)
    clock.advance(90)
    found = samples(cue)
    assert found["oncue_oldest_due_seconds", "mail"] == 90
    assert found["oncue_oldest_due_seconds", "later"] == 0


def test_lateness_is_a_cumulative_histogram_in_seconds(cue: Scheduler) -> None:
    cue.telemetry.handed_over("mail", [0, 1, 2, 40, 7_200_000])
    found = samples(cue)
    buckets = {
        le: found["oncue_lateness_seconds_bucket", le, "mail"]
        for le in ("0.001", "0.002", "0.03", "0.05", "3600.0", "+Inf")
    }
    assert list(buckets.values()) == [2, 3, 3, 4, 4, 5]
    assert found["oncue_lateness_seconds_count", "mail"] == 5
    assert found["oncue_lateness_seconds_sum", "mail"] == pytest.approx(7200.043)


def test_deliveries_are_told_by_outcome_also_those_that_never_happened() -> None:
    cue = HandDriven()
    cue.set_queue("mail", sink="log:")
    cue.schedule_many([{"queue": "mail"}] * 4)
    cue.run_due()
    found = samples(cue)
    assert found["oncue_deliveries_total", "delivered", "mail"] == 4
    assert found["oncue_deliveries_total", "down", "mail"] == 0
    assert found["oncue_circuit_open", "mail"] == 0


def test_a_sink_in_trouble_shows_as_an_open_circuit(cue: Scheduler) -> None:
    cue.telemetry.down("mail", 7)
    cue.telemetry.circuit("mail", is_open=True)
    found = samples(cue)
    assert found["oncue_deliveries_total", "down", "mail"] == 7
    assert found["oncue_circuit_open", "mail"] == 1


def test_fenced_writes_reclaims_expiry_and_pruning_are_told(cue: Scheduler) -> None:
    cue.telemetry.count("fenced_writes", 2)
    cue.telemetry.reclaimed({"failed": 3})
    cue.telemetry.count("expired", 4)
    cue.telemetry.count("pruned_rows", 5)
    found = samples(cue)
    assert found["oncue_fenced_writes_total",] == 2
    assert found["oncue_reclaimed_total", "failed"] == 3
    assert found["oncue_expired_total",] == 4
    assert found["oncue_pruned_rows_total",] == 5


def test_threads_that_were_replaced_are_told(cue: Scheduler) -> None:
    assert samples(cue)["oncue_threads_replaced_total",] == 0
    cue.telemetry.count("threads_replaced")
    assert samples(cue)["oncue_threads_replaced_total",] == 1


def test_requests_are_told_by_method_route_and_status(cue: Scheduler) -> None:
    cue.telemetry.request("/jobs/{id}", "GET", 200, 0.004)
    cue.telemetry.request("/jobs/{id}", "GET", 404, 0.2)
    found = samples(cue)
    assert found["oncue_http_requests_total", "GET", "/jobs/{id}", "404"] == 1
    assert found["oncue_http_request_seconds_bucket", "0.005", "/jobs/{id}"] == 1
    assert found["oncue_http_request_seconds_count", "/jobs/{id}"] == 2


def test_while_the_store_is_away_the_process_tells_what_it_knows(
    cue: Scheduler, store: Store
) -> None:
    cue.schedule(queue="mail")
    cue.claim("mail", "ada")
    store.away = True
    found = samples(cue)
    assert found["oncue_store_up",] == 0
    assert found["oncue_lateness_seconds_count", "mail"] == 1
    assert not [sample for sample in found if sample[0] == "oncue_jobs"]


def test_jobs_are_counted_at_most_every_five_seconds(
    cue: Scheduler, store: Store, clock: FakeClock
) -> None:
    cue.schedule(queue="mail")
    samples(cue)
    cue.schedule(queue="mail")
    clock.advance(4.9)
    assert samples(cue)["oncue_jobs", "mail", "scheduled"] == 1
    assert store.counted == 1
    clock.advance(0.1)
    assert samples(cue)["oncue_jobs", "mail", "scheduled"] == 2


def test_a_store_that_is_back_is_noticed_after_five_seconds(
    cue: Scheduler, store: Store, clock: FakeClock
) -> None:
    store.away = True
    samples(cue)
    store.away = False
    assert samples(cue)["oncue_store_up",] == 0
    clock.advance(5)
    assert samples(cue)["oncue_store_up",] == 1


def test_no_more_than_the_first_queues_by_name_are_told_and_it_says_so(
    cue: Scheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "QUEUES_EXPORTED", 2)
    for queue in ("c", "a", "d", "b"):
        cue.schedule(queue=queue)
        cue.telemetry.handed_over(queue, [1])
    found = samples(cue)
    told = {sample[1] for sample in found if sample[0] == "oncue_jobs"}
    late = {sample[1] for sample in found if sample[0] == "oncue_lateness_seconds_count"}
    assert told == late == {"a", "b"}
    assert found["oncue_queues_left_out",] == 2
    assert store.counted == 2


def test_schedulers_are_measured_apart_and_forgotten_with_their_scheduler(
    cue: Scheduler, clock: FakeClock
) -> None:
    other = Scheduler("memory:", clock=clock)
    cue.schedule(queue="mail")
    assert ("oncue_jobs", "mail", "scheduled") not in samples(other)
    assert ("oncue_jobs", "mail", "scheduled") in samples(cue)
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_whoever_does_not_ask_for_metrics_does_not_load_the_prometheus_client() -> None:
    code = "import sys, oncue.worker, oncue.cli.app; print('prometheus_client' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
