"""What each life of a job costs, exactly, and that it does not depend on the jobs that wait.

The figures are measured. ADR 0017 and docs/dynamodb.md have them, rounded: a figure that changes
here has to change there, too. Each job is smaller than 1 KB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncue.aws import cost
from oncue.aws.cost import Workload
from oncue.core.queue import Queue
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue_bench.dynamodb.ledger import CountingClient
from tests.stores.dynamodb.lives import FAR, FEW, LIVES, PULLED, SENT, Lives, Units
from tests.stores.dynamodb.rig import Rig

#                                        W of each job, of the calls, R of each job, of the calls
COSTS = {
    "sink, plain, nothing kept": Units(2, 2, 1.05, 9.75),  # planned: 2 W, 1.5 R
    "sink, plain, kept": Units(4, 2, 1.05, 9.75),  # planned: 4 W, 1.5 R
    "sink, chosen id, kept": Units(7, 2, 1, 11),  # planned: 6 W, 1.5 R
    "sink, chosen id, nothing kept": Units(6, 2, 1, 11),
    "pulled, plain, kept": Units(7, 0, 2, 8),  # planned: 7 W, 2.5 R
    "heartbeat": Units(1, 0, 1, 1),  # planned: 1 W, 1 R
    "cancel, far": Units(3, 0, 2, 2),  # planned: 5 W, 2 R
    "cancel, soon": Units(5, 2, 2, 3),  # planned: 7 W, 2 R
    "reschedule, far": Units(6, 0, 2, 2),  # planned: 6 W, 2 R
    "reschedule, soon": Units(6, 2, 2, 3),  # planned: 8 W, 2 R
    "retry": Units(5, 0, 1, 1),  # planned: 7 W, 1 R
    "reclaim": Units(5, 0, 1, 1),  # planned: 7 W, 1 R
    "rule fires": Units(11.05, 2.75, 2, 3),  # planned: 10 W
}
ON_A_FULL_TABLE = ("sink, plain, kept", "pulled, plain, kept", "cancel, soon", "retry")


@pytest.fixture(scope="module")
def lives(client: Any) -> Iterator[Lives]:
    lives = Lives(client, 200)
    yield lives
    lives.rig.close()


@pytest.fixture(scope="module")
def many_lives(client: Any) -> Iterator[Lives]:
    lives = Lives(client, 2_000)
    yield lives
    lives.rig.close()


@pytest.mark.parametrize("name", LIVES)
def test_a_life_costs_what_the_table_says(lives: Lives, name: str) -> None:
    found = lives.cost(LIVES[name])
    assert found == pytest.approx(COSTS[name]), f"{found}\n{lives.bills(LIVES[name], FEW)}"


@pytest.mark.parametrize("name", ON_A_FULL_TABLE)
def test_a_life_costs_the_same_whatever_waits(many_lives: Lives, name: str) -> None:
    assert many_lives.measured(LIVES[name], FEW) == pytest.approx(COSTS[name].of(FEW))


@pytest.mark.parametrize("queue", [SENT, PULLED], ids=lambda queue: queue.name)
def test_an_idle_process_costs_what_oncue_cost_says(client: Any, queue: Queue) -> None:
    pulled = queue is PULLED
    rig = Rig(client, shards=4, inside=CountingClient, queues=[queue])
    desk, load = rig.node().desk, Workload(1, pulled=pulled)
    if not pulled:  # from here on, it has a dispatcher
        desk.add(queue=queue.name)
        assert desk.settle_range(desk.claim_range(queue))
    desk.add_many(100, queue=queue.name, due_in=FAR)  # in all shards
    reclaimer = Reclaimer(Node.of(desk.store, rig.clock))
    reclaimer.step()
    with rig.inner.counted() as look:
        rig.calm.store.look_for_news([queue.name])
    with rig.inner.counted() as pass_:
        reclaimer.step()
    rig.close()
    assert (look.reads, look.writes) == (cost.look_reads(load), 0)
    assert (pass_.reads, pass_.writes) == (cost.reclaim_reads(load), 0)
