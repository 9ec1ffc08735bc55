"""Schedules and the inbox on a DynamoDB in trouble: time-outs after success, requests that arrive
late, conflicts, throttling, short pages, an index that lags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.moment import Moment
from oncue.core.recurrence import begun
from oncue.core.schedule import Schedule, check_schedule
from oncue.engine.node import Node
from oncue.engine.recurrer import Recurrer
from oncue.stores.dynamodb import table
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.contract.recurring import put_schedule
from tests.proof.plan import Fault, Plan
from tests.stores.dynamo import OwnTable, client, new_table
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.replica import Replica
from tests.stores.dynamodb.world import World
from tests.unit.inbox_desk import START, InboxDesk

RATES = {
    Fault.FAIL: 0.04,
    Fault.THROTTLE: 0.04,
    Fault.TIMEOUT: 0.06,
    Fault.LATE: 0.06,
    Fault.CONFLICT: 0.04,
    Fault.SHORT: 0.06,
    Fault.HALF_REFUSED: 0.04,
    Fault.HALF_DOWN: 0.02,
    Fault.STALE: 0.1,
}
MINUTES = 12
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIRST_PAUSE_SECONDS", 0.0005)
    monkeypatch.setattr(table, "LONGEST_PAUSE_SECONDS", 0.002)


def in_trouble(name: str, seed: int, world: World) -> Table:
    return Table(name, lambda: FaultyClient(client(), Plan(seed, RATES), world=world))


@pytest.fixture
def desk() -> Iterator[InboxDesk]:
    desk = InboxDesk()
    yield desk
    desk.store.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_producer_put_is_lost(desk: InboxDesk, seed: int) -> None:
    world = World(client())
    nodes = [
        DynamoStore(in_trouble(desk.store.table.name, 10 * seed + n, world), desk.clock, shards=2)
        for n in range(2)
    ]
    for n in range(60):
        desk.put(f"j{n}", START + n * 7000, str(n), queue="out" if n % 2 else "mail")
    for _ in range(60):
        desk.clock.advance(10)
        for number, node in enumerate(nodes):
            _try_step(desk, node, f"n{number}")
    world.arrive()
    desk.clock.advance(60)
    desk.work_off()
    assert desk.left() == []
    assert {job_id for job_id, _ in desk.sent} == {f"j{n}" for n in range(60) if n % 2}
    jobs = [desk.store.get(f"j{n}") for n in range(0, 60, 2)]
    assert [job and job.payload for job in jobs] == [str(n) for n in range(0, 60, 2)]
    items, _ = desk.store.table.scan(None, 10_000)
    heads = [item for item in items if item["pk"].startswith("i#") and item["sk"] == "head"]
    assert len(heads) == 30, "no item became two jobs"


def _try_step(desk: InboxDesk, node: DynamoStore, holder: str) -> None:
    with suppress(StoreUnavailable):  # then the loop tries again
        node.inbox.step(holder, desk.now, desk.accept)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_occurrence_becomes_one_job(seed: int) -> None:
    clock = FakeClock()
    store = OwnTable(new_table(), clock)
    replica = Replica(client(), store.table.name)
    world = World(client(), replica=replica)
    for name in ("a", "b", "c"):
        wanted = check_schedule(Schedule(name, cron="* * * * *", queue="q", catch_up="all"))  # type: ignore[arg-type]
        assert put_schedule(store, None, begun(wanted, clock.now()), clock.now()) is not None
    recurrers = [
        Recurrer(
            Node.of(DynamoStore(in_trouble(store.table.name, 10 * seed + n, world), clock), clock)
        )
        for n in range(2)
    ]
    for _ in range(MINUTES * 6):
        clock.advance(10)
        for recurrer in recurrers:
            _make(recurrer)
    world.arrive()
    sure = Recurrer(Node.of(store, clock))
    while sure.step() == 0.0:
        continue
    assert _made(store, clock.now()) == dict.fromkeys(("a", "b", "c"), MINUTES)
    for name in ("a", "b", "c"):
        assert len(store.outcomes(name)) in (MINUTES, MINUTES + 1), "one may be made ahead of time"
    replica.drop()
    store.close()


def _make(recurrer: Recurrer) -> None:
    with suppress(StoreUnavailable):  # then the loop tries again
        while recurrer.step() == 0.0:
            continue


def _made(store: DynamoStore, until: Moment) -> Counter[str]:
    """How many jobs of each schedule wait that are due by then, each moment counted once."""
    items, _ = store.table.scan(None, 10_000)
    ids = [item["pk"][2:] for item in items if item["pk"].startswith("i#") and item["sk"] == "head"]
    jobs = [job for job_id in ids if (job := store.get(job_id)) is not None]
    due = {
        (job.schedule or "", job.due_at) for job in jobs if job.due_at.timestamp() * 1000 <= until
    }
    return Counter(name for name, _ in due)
