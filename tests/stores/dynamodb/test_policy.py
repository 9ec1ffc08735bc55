"""The policies of docs/dynamodb.md allow what is done, and nothing else."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import oncue.stores.dynamodb
from oncue.clock import FakeClock
from oncue.core.access import Scope
from oncue.core.errors import NotFound
from oncue.stores.dynamodb import creation, health
from oncue.stores.dynamodb.buckets import Buckets
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.memory import MemoryStore
from oncue.testing import HandDriven
from oncue.transfer.dump import Dump
from oncue.transfer.restore import Restore
from oncue.usecases.tokens import Access
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import client, new_name, new_table
from tests.stores.dynamodb.policy import Recording, granted, statements
from tests.unit.test_dynamodb_creation import WithBackups

MIGRATE, RUN, INDEX = "OncueMigrate", "OncueRun", "OncueRunIndex"
DUMP, DOCTOR, QUOTA = "OncueDump", "OncueDoctor", "OncueQuota"
CLOCK = FakeClock()
SOURCES = Path(oncue.stores.dynamodb.__file__).parent
METHODS = re.compile(r"\.call\(\s*\"(\w+)\"|\.client\.(\w+)\(|_write_one\(\"(\w+)\"")


@contextmanager
def recorded(table: str) -> Iterator[tuple[DynamoStore, Recording]]:
    """A store whose requests are recorded, also those of opening it."""
    recording = Recording(client())
    store = DynamoStore(Table(table, lambda: recording), CLOCK)
    yield store, recording
    store.close()


@pytest.fixture(scope="module")
def run() -> Iterator[Recording]:
    """The requests of a process that does everything but dump."""
    name = new_table().name
    with recorded(name) as (store, recording):
        cue = HandDriven(store, clock=CLOCK)
        do_jobs(cue)
        make_jobs(cue)
        look_after(cue, store)
        cue.close()
        yield recording
    client().delete_table(TableName=name)


@pytest.fixture(scope="module")
def dump() -> Iterator[Recording]:
    name = new_table().name
    with recorded(name) as (store, _):
        HandDriven(store, clock=CLOCK).schedule(1)
        with recorded(name) as (other, recording):
            Dump(other, io.BytesIO()).write()
            yield recording
    client().delete_table(TableName=name)


@pytest.fixture(scope="module")
def doctor() -> Iterator[Recording]:
    name = new_table().name
    with recorded(name) as (store, recording):
        recording.needed.clear()
        health.time_to_live(store)
        yield recording
    client().delete_table(TableName=name)


@pytest.fixture(scope="module")
def migrate() -> Recording:
    """All that can be asked for, twice; once a table is created, once an index is added."""
    recording = Recording(Building(WithBackups(later=False)))
    created = Table(new_name(), lambda: recording)
    for _ in range(2):
        for step in creation.steps(created, recovery=True):
            step.apply()
    creation._add_index(created, creation._described(created) or {})
    client().delete_table(TableName=created.name)
    return recording


class Building(WrappedClient):
    """Adds no index, which takes long: the table has one."""

    def during(self, call: Call) -> Any:
        return {} if call.method == "update_table" else self.send(call)


def do_jobs(cue: HandDriven) -> None:
    """What can happen to jobs."""
    cue.set_queue("out", sink="log:", retention_seconds=0)
    cue.set_queue("kept", sink="log:")
    cue.set_queue("slow", concurrency=2, max_attempts=1)
    for queue in ("out", "kept", "slow", "mail"):
        cue.schedule_many({"queue": queue, "payload": n} for n in range(30))
    owned = {"queue": "mail", "owner": "ada"}
    cue.schedule_many({**owned, "id": f"i{n}", "key": f"k{n}"} for n in range(3))
    cue.schedule({"large": "x" * 9000}, queue="mail", key="k", delay=5)
    cue.schedule(queue="mail", id="late", delay=7200, owner="ada")
    cue.reschedule("late", delay=9000)
    cue.cancel("late")
    cue.retry("late")
    cue.move_all(to="other", queue="mail", owner="ada")
    with pytest.raises(NotFound):
        cue.job("unknown")
    claims = cue.claim("mail", worker="me", limit=20)
    cue.heartbeat(claims[0].id, cue.token(claims[0]))
    cue.fail(claims[0].id, cue.token(claims[0]), "once more")
    cue.complete(claims[1].id, cue.token(claims[1]), {"result": "x" * 9000})
    cue.handler("slow")(lambda job: job.step("first", lambda: 1))
    cue.advance(100)
    cue.reclaim(reclaim_age_minutes=1)


def make_jobs(cue: HandDriven) -> None:
    """Where jobs come from besides: schedules, rules, the inbox."""
    cue.put_schedule("often", every_seconds=10, queue="kept")
    cue.put_rule("load", [{"type": "FILE", "resourceId": "a", "lifeDuration": 60}], queue="kept")
    for second in ("00", "01", "01"):
        stamp = f"2026-01-01T12:00:{second}Z"
        cue.publish({"eventType": "FILE", "eventResourceId": "a", "eventTimestamp": stamp})
    cue.advance(30)
    assert list(cue.events(rule="load"))
    cue.delete_rule("load")
    cue.delete_schedule("often")


def look_after(cue: HandDriven, store: DynamoStore) -> None:
    """Settings, tokens, nodes, the inbox; a queue that goes; a dump that comes."""
    now = store.clock.now()
    store.inbox.set(Buckets(5, 2), now)
    store.inbox.step("me", now, lambda batch: None)
    store.inbox.leave(now)
    tokens = Access(store, store.clock)
    tokens.revoke(tokens.create("ada", [Scope.READ])[0].id)
    cue.nodes()
    cue.cancel_all(queue="other")
    cue.delete_queue("other")
    store.describe()
    other = MemoryStore(CLOCK)
    HandDriven(other, clock=CLOCK).schedule(1, id="moved", queue="kept")
    out = io.BytesIO()
    Dump(other, out).write()
    out.seek(0)
    Restore(store).read(out)
    health.loads(store, now)


def test_a_process_may_do_what_it_does(run: Recording) -> None:
    assert run.needed == granted(RUN, INDEX)


def test_a_dump_may_scan_besides(dump: Recording) -> None:
    assert granted(DUMP) == dump.needed - granted(RUN, INDEX)


def test_the_doctor_may_look_at_the_table_besides(doctor: Recording) -> None:
    assert doctor.needed == granted(DOCTOR)
    with recorded(new_table().name) as (store, recording):
        recording.needed.clear()
        health.write_quota(store)
        assert recording.needed == granted(QUOTA)


def test_migrate_may_create_the_table(migrate: Recording) -> None:
    assert migrate.needed == granted(MIGRATE)


def test_every_kind_of_request_was_seen(
    run: Recording, dump: Recording, doctor: Recording, migrate: Recording
) -> None:
    sources = [file.read_text("utf-8") for file in SOURCES.glob("*.py")]
    named = {name for text in sources for found in METHODS.findall(text) for name in found if name}
    seen = run.methods | dump.methods | doctor.methods | migrate.methods
    assert seen == named - {"describe_limits"}


def test_no_other_statement_is_on_the_page() -> None:
    assert {*statements()} == {MIGRATE, RUN, INDEX, DUMP, DOCTOR, QUOTA}
