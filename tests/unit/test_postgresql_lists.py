"""Lists of the PostgreSQL store: pages, walks and dumps of random jobs, as the memory store has
them; and every statement finds its jobs by an index."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from oncue.clock import FakeClock
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.errors import InvalidInput, KeyTaken
from oncue.core.job import JobFilter
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue
from oncue.core.shard import shard_of
from oncue.stores.memory import MemoryStore
from oncue.stores.postgresql import listing
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.bulk import PgBulk
from oncue.stores.postgresql.listing import PgListing
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.transfer import PgTransfer
from tests.contract.desk import Desk
from tests.contract.promises import every
from tests.servers.postgres import postgres_url

SHARDS = 4
QUEUES = ("a", "b", "c", "C")
CHANGES: list[tuple[BulkVerb, dict[str, Any]]] = [
    *((BulkVerb.CANCEL, {}), (BulkVerb.CANCEL, {"running": True}), (BulkVerb.RUN, {})),
    *((BulkVerb.RETRY, {}), (BulkVerb.MOVE, {"queue": "b"}), (BulkVerb.MOVE, {"queue": "new"})),
    (BulkVerb.REPRIORITISE, {"priority": 5}),
]


class ListStore(PgStore, PgListing, PgBulk, PgTransfer):
    """The store with the lists."""


@pytest.fixture(scope="module")
def schema() -> Iterator[str]:
    name = f"t{uuid4().hex}"
    yield name
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(schema: str, clock: FakeClock) -> Iterator[ListStore]:
    store = ListStore(PgAddress.read(f"{postgres_url()}?schema={schema}"), clock, shards=SHARDS)
    with store.db.connection() as connection:
        for table in ("jobs", "operations", "queues", "ranges"):
            connection.execute(f"DELETE FROM {schema}.{table}".encode())
    yield store
    store.close()


def lived_in(clock: FakeClock, seed: int, jobs: int = 300) -> Desk:
    """Jobs of every kind, by chance; with due times that many share."""
    desk, dice = Desk(MemoryStore(clock, shards=SHARDS), clock), random.Random(seed)
    for number in range(jobs):
        desk.add(
            f"{dice.randrange(10**6):06}-{number}",
            queue=QUEUES[number // 30] if number < 60 else dice.choice(QUEUES),
            due_in=dice.randrange(-20, 40) / 10,
            priority=dice.choice((0, 0, 0, 5, 9)),
            owner=dice.choice((None, "ada", "bob")),
            key=f"k{number % 30}" if number < 60 else None,
            digest=dice.choice((None, b"d")),
        )
    queues = [Queue(name) for name in QUEUES]
    for claimed in desk.claim(*queues, limit=jobs // 4):
        desk.clock.advance(dice.random() / 100)
        match dice.randrange(7):
            case 0:
                desk.complete(claimed, b"[1]")
            case 1:
                desk.fail(claimed)
            case 2:
                desk.drop(claimed)
            case 3:
                desk.touch(claimed)
            case 4:
                desk.put_operation(claimed, "one", result=b"1")
                desk.put_operation(claimed, "two", "executing", percent=10.0)
            case 5:
                desk.settle(claimed, Verb.RETRY, due_at=desk.now + 9000, error="again")
    for queue in queues[:2]:
        for _ in range(2):
            claim = desk.claim_range(queue, limit=6)
            desk.settle_range(claim, busy={job.id: "busy" for job in claim.jobs[:4]})
    return desk


def hold_ranges(desks: list[Desk]) -> None:
    """Open ranges over the same shards of each store."""
    desks[0].clock.advance(2)
    for name, dispatcher in product(("a", "b"), ("dora", "dan")):
        claims = [desk.claim_range(Queue(name), dispatcher, limit=5) for desk in desks]
        first = {job.id for job in claims[0].jobs}
        assert first
        assert all({job.id for job in one.jobs} == first for one in claims)


@pytest.fixture(params=range(2))
def twins(request: pytest.FixtureRequest, store: ListStore, clock: FakeClock) -> list[Desk]:
    """The same jobs in memory and in PostgreSQL, some of them inside open ranges."""
    memory = lived_in(clock, request.param)
    dumped = every(memory.store.export)
    assert store.admit(dumped) == len(dumped)
    desks = [memory, Desk(store, clock)]
    hold_ranges(desks)
    return desks


def filters(now: int) -> list[JobFilter]:
    """Every filter that a list can have, and windows of due time with a few of them."""
    states = (None, *State)
    wide: dict[str, Any] = {"due_after": now - 500, "due_before": now + 700}
    who: tuple[dict[str, Any], ...] = ({}, {"owner": "ada"}, {"key": "k3"}, {"queue": "a"})
    more: tuple[dict[str, Any], ...] = ({}, {"queue": "b"}, {"queue": "none"}, {"key": "k7"})
    return [
        JobFilter(state=state, **{**one, **two, **window})
        for state, one, two in product(states, who, more)
        for window in ({}, wide)
    ]


def test_pages_are_those_of_the_memory_store(twins: list[Desk]) -> None:
    memory, store = (desk.store for desk in twins)
    for wanted in filters(twins[0].now):
        expected = memory.page(wanted, None, 1000).items
        assert every(partial(store.page, wanted), 7) == expected, wanted
        assert every(partial(store.page, wanted), 500) == expected, wanted


def test_what_can_be_looked_at_for_a_page_is_bounded(
    twins: list[Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the index does not tell what is wanted."""
    memory, store = (desk.store for desk in twins)
    monkeypatch.setattr(listing, "LOOK", 5)
    for wanted in filters(twins[0].now)[::5]:
        expected = memory.page(wanted, None, 1000).items
        assert every(partial(store.page, wanted), 3) == expected, wanted


@pytest.mark.parametrize("limit", [1, 8, 500])
def test_walks_find_what_the_memory_store_finds(twins: list[Desk], limit: int) -> None:
    memory, store = (desk.store for desk in twins)
    for (verb, how), wanted in product(CHANGES, filters(twins[0].now)[:: 3 if limit == 8 else 11]):
        change = BulkChange(verb, twins[0].now - 1, **how)
        expected = memory.find_all(change, wanted, None, 1000).items
        found = every(partial(store.find_all, change, wanted), limit)
        assert sorted(found) == sorted(expected), (change, wanted)


@pytest.mark.parametrize("change", CHANGES)
def test_no_job_is_found_again_where_the_change_has_put_it(
    twins: list[Desk], change: tuple[BulkVerb, dict[str, Any]]
) -> None:
    desk = twins[1]
    verb, how = change
    bulk = BulkChange(verb, desk.now, **how)
    parts = bulk.parts(JobFilter())

    def carry_out(ids: list[str]) -> None:
        for part in parts:
            desk.store.change(ids, part, desk.now)

    before = every(partial(desk.store.find_all, bulk, JobFilter()), 500)
    found = every(partial(desk.store.find_all, bulk, JobFilter()), 9, carry_out)
    assert sorted(found) == sorted(before)


def test_a_put_off_job_that_returns_meanwhile_keeps_its_place_in_the_walk(
    store: ListStore, clock: FakeClock
) -> None:
    desk = Desk(store, clock)
    ids = [f"job-{n}" for n in range(40)]
    for job_id in ids:
        desk.add(job_id, queue="q")
    while (claim := desk.claim_range(Queue("q"))).jobs:
        desk.settle_range(claim, busy={job.id: "busy" for job in claim.jobs})
    everything = JobFilter(queue="q")
    found: list[str] = []

    def run_some(page: list[str]) -> None:
        """Every other one is in line again."""
        store.change(ids[len(found) % 2 :: 2], JobChange(ChangeVerb.RUN), desk.now)
        found.extend(page)

    every(partial(store.find_all, BulkChange(BulkVerb.CANCEL, desk.now), everything), 3, run_some)
    assert sorted(found) == sorted(ids)


def test_a_cursor_of_another_queue_or_filter_is_refused(twins: list[Desk]) -> None:
    desk = twins[1]
    cancel, move = BulkChange(BulkVerb.CANCEL, desk.now), BulkChange(BulkVerb.MOVE, 0, queue="b")
    queue = desk.store.find_all(cancel, JobFilter(queue="a"), None, 1).next
    owner = desk.store.find_all(cancel, JobFilter(owner="ada"), None, 1).next
    moved = desk.store.find_all(move, JobFilter(), None, 1).next
    for change, wanted, cursor in (
        (cancel, JobFilter(queue="b"), queue),
        (cancel, JobFilter(owner="ada"), queue),
        (cancel, JobFilter(queue="a"), owner),
        (cancel, JobFilter(key="k1"), owner),
        (cancel, JobFilter(), moved),
        (BulkChange(BulkVerb.RETRY, 0), JobFilter(), queue),
    ):
        assert cursor is not None
        with pytest.raises(InvalidInput, match="not a cursor"):
            desk.store.find_all(change, wanted, cursor, 1)


def test_a_page_ends_where_no_more_fits_in_memory(
    twins: list[Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, store = (desk.store for desk in twins)
    room = 5
    monkeypatch.setattr(listing, "BATCH_BYTES", room)
    page = store.page(JobFilter(), None, 500)
    sizes = [len(job.payload_json) + len(job.result_json or b"") for job in page.items]
    assert sum(sizes[:-1]) < room <= sum(sizes)
    monkeypatch.setattr(listing, "BATCH_BYTES", 1)
    assert len(store.page(JobFilter(), None, 500).items) == 1
    wanted = JobFilter(queue="b", state=State.SCHEDULED)
    assert every(partial(store.page, wanted)) == memory.page(wanted, None, 1000).items


def test_what_is_dumped_is_as_it_was(twins: list[Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    memory, store = (desk.store for desk in twins)
    expected = every(memory.export)
    assert every(store.export, 7) == every(store.export, 500) == expected
    monkeypatch.setattr("oncue.stores.postgresql.transfer.BATCH_BYTES", 9)
    assert len(store.export(None, 500).items) < 9
    assert every(store.export, 500) == expected
    assert store.admit(expected) == 0
    store.change([expected[0].job.id], JobChange(ChangeVerb.RUN), 0)
    assert every(store.export)[1:] == expected[1:]


def test_a_job_that_is_admitted_is_in_the_shard_of_its_id(twins: list[Desk]) -> None:
    store = twins[1].store
    assert isinstance(store, ListStore)
    schema = store.db.address.schema
    with store.db.connection() as connection:
        found = connection.execute(f"SELECT id, shard FROM {schema}.jobs".encode()).fetchall()
        queues = connection.execute(f"SELECT name FROM {schema}.queues".encode()).fetchall()
    assert all(shard == shard_of(job_id, SHARDS) for job_id, shard in found)
    assert {name for (name,) in queues} >= set(QUEUES)


def test_a_key_that_is_held_is_refused_and_nothing_is_stored(
    store: ListStore, clock: FakeClock
) -> None:
    source, desk = Desk(MemoryStore(clock), clock), Desk(store, clock)
    desk.add("holder", queue="q", key="k")
    source.add("another", queue="q")
    source.add("late", queue="q", key="k")
    dumped = every(source.store.export)
    with pytest.raises(KeyTaken) as caught:
        store.admit(dumped)
    with pytest.raises(KeyTaken) as known:
        source.store.admit(every(store.export))
    assert str(caught.value) == str(known.value).replace("holder", "late")
    assert [one.job.id for one in every(store.export)] == ["holder"]
    desk.cancel("holder")
    assert store.admit([*dumped, *dumped]) == 2


def test_who_waits_for_work_is_told_of_what_is_admitted(store: ListStore, clock: FakeClock) -> None:
    source = Desk(MemoryStore(clock), clock)
    source.add("soon", queue="a", due_in=1)
    source.add("late", queue="a", due_in=9)
    source.cancel(source.add("gone", queue="b"))
    told: list[dict[str | None, int]] = []
    store.db.on_commit = lambda tx: told.append(tx.news)
    store.admit(every(source.store.export))
    assert told == [{"a": clock.now() + 1000}]


# -- plans -----------------------------------------------------------------------------------------

FILES = ("listing", "bulk", "transfer")
FRAGMENTS = {"after_start", "from_head", "in_line", "put_off_in_line", "taken_of", "final_of"}
FRAGMENTS |= {"window", "applies", "fits", "admitted_columns"}
WRITES = {"admit", "admit_operations"}
NUMBERS = {"due_at", "until", "limit", "room", "p1", "p2", "low_due", "start", "begun_at"}
FLAGS = {"uncovered", "scheduled", "dispatched", "executing", "failed", "cancelled"}
LISTS = {"ids", "queues", "keys", "states"}


@pytest.mark.parametrize("file", FILES)
def test_every_statement_finds_its_jobs_by_an_index(store: ListStore, file: str) -> None:
    fill = f"""INSERT INTO {store.db.address.schema}.jobs
        (id, queue, due_at, created_at, updated_at, shard, payload, owner, key)
        SELECT 'j' || n, 'q' || n % 3, n, 1, 1, n % 4, '', 'o' || n % 50, 'k' || n
        FROM generate_series(1, 5000) AS n"""
    with store.db.connection() as connection:
        connection.execute(fill.encode())
        connection.execute(f"ANALYZE {store.db.address.schema}.jobs".encode())
        for name, text in store.db.statements.load(file).items():
            if name in FRAGMENTS | WRITES:
                continue
            plan = "\n".join(row[0] for row in _explained(connection, text, name))
            assert not re.search(r"Seq Scan on (?!ranges)", plan), f"{file}.{name}:\n{plan}"


def _explained(connection: psycopg.Connection[Any], text: str, name: str) -> list[Any]:
    """The plan for any parameters."""
    parameter = re.compile(r"%\((\w+)\)[sb]")
    names = list(dict.fromkeys(parameter.findall(text)))
    text = parameter.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    types = [_type(one, name) for one in names]
    connection.execute(f"PREPARE p_{name} ({', '.join(types)}) AS {text}".encode(), prepare=False)
    nulls = ", ".join("NULL" for _ in names)
    asked = f"EXPLAIN EXECUTE p_{name} ({nulls})".encode()
    return connection.execute(asked, prepare=False).fetchall()


def _type(parameter: str, statement: str) -> str:
    if parameter == "p1" and statement == "find_ended":
        return "text"
    if parameter in NUMBERS:
        return "bigint"
    if parameter in LISTS:
        return "text[]"
    if parameter == "ranks":
        return "bigint[]"
    return "boolean" if parameter in FLAGS else "text"
