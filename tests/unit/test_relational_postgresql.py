"""Rules, events, schedules and settings in PostgreSQL while another node writes at the same time.

One node is held just before its commit; the other one must wait for it, or pass it by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from oncue.clock import FakeClock, SystemClock
from oncue.core.access import AccessToken, Scope
from oncue.core.event import Bounds, Event, EventType
from oncue.core.moment import to_datetime
from oncue.core.publication import EventFilter
from oncue.core.retention import Retention
from oncue.core.rule import Dependency, Rule
from oncue.core.schedule import Progress, Schedule, check_schedule, occurrence_job
from oncue.ports.schedules import Advance
from oncue.stores.postgresql.joined import PgJoined
from oncue.stores.postgresql.store import PgStore
from tests.stores.postgres import another_postgres, open_postgres

T = TypeVar("T")
WAIT_SECONDS = 30.0
CLOCK = FakeClock()
NOW = CLOCK.now()
STAMP = NOW * 1000
FILE = Event("file", EventType.FILE, "/in/a", STAMP)
TABLE = Event("table", EventType.TABLE, "t", STAMP + 1)
RULE = Rule("both", (Dependency(EventType.FILE, "/in/", 60), Dependency(EventType.TABLE, "t", 60)))
TOKEN = AccessToken("a" * 16, None, b"d" * 32, frozenset({Scope.READ}), NOW)


class HeldStore(PgStore):
    """Keeps its next transaction open until it is let go."""

    def hold(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def _write(self, call: Callable[[PgJoined], T], *, synced: bool = True) -> T:
        def held(tx: PgJoined) -> T:
            answer = call(tx)
            if not self.released.is_set():
                tx.flush()
                self.reached.set()
                assert self.released.wait(WAIT_SECONDS)
            return answer

        return super()._write(held, synced=synced)


@pytest.fixture
def store() -> Iterator[PgStore]:
    store = open_postgres(CLOCK, 4)
    yield store
    store.close()


@pytest.fixture
def held(store: PgStore) -> Iterator[HeldStore]:
    other = HeldStore(store.db.address, CLOCK, shards=4)
    other.hold()
    yield other
    other.released.set()
    other.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def at_once(
    pool: ThreadPoolExecutor,
    held: HeldStore,
    first: Callable[[PgStore], T],
    store: PgStore,
    second: Callable[[PgStore], T],
) -> tuple[T, T]:
    """The second begins after all that the first wrote and before its commit; it has to wait."""
    one: Future[T] = pool.submit(first, held)
    assert held.reached.wait(WAIT_SECONDS)
    two: Future[T] = pool.submit(second, store)
    until(lambda: two.done() or somebody_waits(store))
    assert not two.done(), "it did not wait"
    held.released.set()
    return one.result(WAIT_SECONDS), two.result(WAIT_SECONDS)


def until(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    ends = clock.monotonic() + WAIT_SECONDS
    while not holds():
        assert clock.monotonic() < ends
        threading.Event().wait(0.005)


def somebody_waits(store: PgStore) -> bool:
    """Whether a transaction on these tables waits for another one."""
    with store.db.connect() as connection:
        found = connection.execute(
            "SELECT 1 FROM pg_locks AS waits JOIN pg_locks AS own USING (pid) "
            "JOIN pg_class AS c ON c.oid = own.relation "
            "JOIN pg_namespace AS s ON s.oid = c.relnamespace "
            "WHERE NOT waits.granted AND s.nspname = %s",
            [store.db.address.schema],
        )
        return found.fetchone() is not None


def publishing(*events: Event) -> Callable[[PgStore], Any]:
    return lambda store: store.publish(events, NOW, Bounds())


def advancing(one: Advance) -> Callable[[PgStore], Any]:
    return lambda store: store.advance([one], NOW)


def jobs_of(*answers: Any) -> int:
    return sum(len(one.jobs) for answer in answers for one in answer)


def revision(store: PgStore) -> int:
    with store.db.reading() as tx:
        return int(tx.run("queues", "revision").get)


def a_schedule(name: str = "s") -> Schedule:
    at = to_datetime(NOW)
    wanted = Schedule(name, every_seconds=60, anchor_at=at, created_at=at, updated_at=at)
    return replace(check_schedule(wanted), progress=Progress(NOW, NOW))


def test_two_events_that_only_together_meet_a_rule_fire_it_once(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.put_rule(RULE, NOW)
    answers = at_once(pool, held, publishing(FILE), store, publishing(TABLE))
    assert jobs_of(*answers) == 1
    assert len(store.events(EventFilter(), None, 10).items) == 2


def test_a_fact_that_is_published_twice_at_once_is_one_event(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.put_rule(replace(RULE, dependencies=RULE.dependencies[:1]), NOW)
    first, second = at_once(pool, held, publishing(FILE), store, publishing(FILE))
    assert jobs_of(first, second) == 1
    assert [first[0].duplicate, second[0].duplicate] == [False, True]
    assert len(store.events(EventFilter(), None, 10).items) == 1


def test_events_in_opposite_order_do_not_block_each_other(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.put_rule(RULE, NOW)
    answers = at_once(pool, held, publishing(FILE, TABLE), store, publishing(TABLE, FILE))
    assert jobs_of(*answers) == 1
    assert [one.duplicate for one in answers[1]] == [True, True]


def test_a_rule_that_two_nodes_create_is_one(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    shorter = replace(RULE, dependencies=RULE.dependencies[:1])

    def put(rule: Rule) -> Callable[[PgStore], Rule]:
        return lambda store: store.put_rule(rule, NOW)

    _, last = at_once(pool, held, put(RULE), store, put(shorter))
    assert store.rules(None, 10) == [last]
    assert last.dependencies == shorter.dependencies


def test_a_rule_that_changes_during_a_publication_decides_as_it_was_or_as_it_is(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.put_rule(RULE, NOW)
    other = Dependency(EventType.TABLE, "other", 60)
    changed = replace(RULE, dependencies=(other,))

    def change(store: PgStore) -> Any:
        return store.put_rule(changed, NOW)

    _, published = at_once(pool, held, change, store, publishing(FILE))
    assert published[0].decisions == (), "it no longer waits for files"


def test_an_event_that_is_being_published_is_not_pruned(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.publish([FILE], NOW, Bounds())
    store.put_rule(RULE, NOW)
    later = NOW + 30 * 86_400_000
    one = pool.submit(held.publish, [FILE], later, Bounds())
    assert held.reached.wait(WAIT_SECONDS)
    store.prune(Retention({}), later, 100)
    held.released.set()
    assert one.result(WAIT_SECONDS)[0].decisions
    assert [len(one.decisions) for one in store.events(EventFilter(), None, 10).items] == [1]


def test_a_schedule_that_two_nodes_advance_goes_on_once(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    store.advance([Advance(None, a_schedule())], NOW)
    seen = store.schedule("s")
    assert seen is not None
    job = occurrence_job(seen, NOW, NOW)
    step = Advance(seen, seen, [job], progress=Progress(NOW + 60_000, NOW + 60_000, NOW, job.id))
    before = revision(store)
    refused = at_once(
        pool,
        held,
        lambda one: one.advance([step], NOW),
        store,
        lambda one: one.advance([step], NOW),
    )
    assert [list(one) for one in refused] == [[], [0]]
    assert store.get(job.id) is not None
    assert revision(store) == before, "progress is no setting"


def test_a_schedule_that_two_nodes_create_is_created_once(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    new = Advance(None, a_schedule())
    refused = at_once(pool, held, advancing(new), store, advancing(new))
    assert [list(one) for one in refused] == [[], [0]]
    assert revision(store) == 1


def test_a_token_whose_id_is_taken_at_the_same_time_is_refused(
    store: PgStore, held: HeldStore, pool: ThreadPoolExecutor
) -> None:
    kept = at_once(
        pool, held, lambda one: one.put_token(TOKEN), store, lambda one: one.put_token(TOKEN)
    )
    assert kept == (True, False)
    assert store.tokens() == [TOKEN]
    assert revision(store) == 1
    assert store.remove_token(TOKEN.id)
    assert revision(store) == 2


def test_another_node_sees_the_rule_and_its_last_job(store: PgStore) -> None:
    store.put_rule(RULE, NOW)
    answer = store.publish([FILE, TABLE], NOW, Bounds())
    other = another_postgres(store)
    try:
        assert [rule.last_job_id for rule in other.rules(None, 10)] == [answer[1].jobs[0].job_id]
        assert other.publish([FILE, TABLE], NOW, Bounds())[1].duplicate
    finally:
        other.close()
