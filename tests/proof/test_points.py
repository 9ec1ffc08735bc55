"""The points at which processes die: all are reached, each strikes when ordered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from oncue.clock import FakeClock
from oncue.core.event import Bounds
from oncue.core.job import Delivery, NewJob
from oncue.core.lease import Touch
from oncue.core.queue import Queue
from oncue.core.retry import after_lapse
from oncue.ports.sink import Refusal
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from tests.contract.board import time_based
from tests.contract.desk import claim_due, lapses_by
from tests.proof.points import POINTS, VARIABLE, KillingSink, KillingStore, Points

START = 1_800_000_000_000
WORK = Queue("work", lease_seconds=10)
OUT = Queue("out", sink="out", lease_seconds=10)


def a_store() -> MemoryStore:
    return MemoryStore(FakeClock(START))


def a_job(job_id: str, queue: str = "work") -> NewJob:
    return NewJob(job_id, queue, START, b"{}", 0, START)


def a_batch(size: int) -> list[Delivery]:
    return [Delivery(f"j{n}", START, b"{}", 1) for n in range(size)]


class Struck(BaseException):
    """Stands for the death of the process."""


def dying_at(orders: str) -> Points:
    def strike(with_signal: signal.Signals) -> None:
        raise Struck(with_signal.name)

    return Points(orders, strike)


def live_a_life(store: KillingStore, sink: KillingSink) -> None:
    """Pass every point there is."""
    store.insert([a_job("a"), a_job("b", "out"), a_job("c", "out")], START)
    (claimed,) = claim_due(store, [WORK], "w", 1, START)
    store.touch([Touch("a", claimed.epoch)], START)
    (lapse,) = lapses_by(store, START + 60_000)
    store.reclaim([(lapse, after_lapse(lapse, WORK, START))], START)
    taken = store.claim_range(OUT, "d", 10, START, lease_seconds=10)
    sink.deliver("out", [Delivery(*due) for due in taken.jobs])
    store.settle_range(taken, [due.id for due in taken.jobs], {}, START)
    store.publish([time_based("cron", 0)], START, Bounds())


@pytest.mark.parametrize("point", sorted(POINTS))
def test_every_point_is_reached_and_can_kill_or_stop(point: str) -> None:
    store = a_store()
    points = dying_at(f"{point}:1")
    with pytest.raises(Struck, match="SIGKILL"):
        live_a_life(KillingStore(store, points), KillingSink(MemorySink(), points))
    store = a_store()
    points = dying_at(f"stop:{point}:1")
    with pytest.raises(Struck, match="SIGSTOP"):
        live_a_life(KillingStore(store, points), KillingSink(MemorySink(), points))


def test_without_orders_nothing_happens_at_any_point() -> None:
    store = a_store()
    points = dying_at("")
    live_a_life(KillingStore(store, points), KillingSink(MemorySink(), points))
    assert points.reached.total() > 0


def test_a_point_strikes_at_its_count_and_only_then() -> None:
    points = dying_at("after-claim:3")
    points.reach("after-claim")
    points.reach("after-claim")
    with pytest.raises(Struck):
        points.reach("after-claim")
    points.reach("after-claim")


def test_healed_points_strike_no_more() -> None:
    points = dying_at("after-claim:1")
    points.heal()
    points.reach("after-claim")


def test_before_the_commit_nothing_is_stored_and_after_it_everything() -> None:
    for point, stored in (("before-insert-commit", False), ("after-insert-commit", True)):
        store = a_store()
        with pytest.raises(Struck):
            KillingStore(store, dying_at(f"{point}:1")).insert([a_job("a")], START)
        assert (store.get("a") is not None) is stored


def test_in_the_middle_of_a_batch_half_of_it_was_taken() -> None:
    sink = MemorySink()
    with pytest.raises(Struck):
        KillingSink(sink, dying_at("mid-batch:1")).deliver("out", a_batch(4))
    assert sink.counts["out"] == 2


def test_a_batch_taken_in_halves_keeps_the_positions_of_its_refusals() -> None:
    sink = MemorySink()
    sink.refuse("j3", Refusal("too large", permanent=True))
    refused = KillingSink(sink, dying_at("mid-batch:2")).deliver("out", a_batch(4))
    assert list(refused) == [3]


def test_an_empty_claim_reaches_no_point() -> None:
    store = a_store()
    points = dying_at("")
    killing = KillingStore(store, points)
    claim_due(killing, [WORK], "w", 1, START)
    killing.claim_range(OUT, "d", 1, START, lease_seconds=1)
    assert points.reached.total() == 0


@pytest.mark.parametrize(
    "orders", ["nowhere:1", "after-claim", "after-claim:0", "stop:after-claim"]
)
def test_orders_that_make_no_sense_are_refused(orders: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        Points(orders)


CHILD = """
from tests.proof.points import reach
for n in range(5):
    print(n, flush=True)
    reach("after-claim")
"""


def a_child(orders: str) -> subprocess.Popen[str]:
    environment = {**os.environ, VARIABLE: orders, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_child_process_kills_itself_at_the_ordered_point() -> None:
    with a_child("after-claim:3") as child:
        said, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert said.split() == ["0", "1", "2"]


def test_a_child_process_stops_itself_and_goes_on_when_told() -> None:
    with a_child("stop:after-claim:2") as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert said.split() == ["0", "1", "2", "3", "4"]
