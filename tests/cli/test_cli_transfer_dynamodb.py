"""`oncue dump | oncue restore` between SQLite and DynamoDB: everything arrives, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncue.clock import FakeClock, SystemClock
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.sqlite import SqliteStore
from oncue.usecases.tokens import Access
from tests.contract.desk import Desk
from tests.contract.test_transfer import lived_in
from tests.stores.dynamo import client, new_table

from .on_dynamodb import CREDENTIALS, new_url, url_of
from .terminal import run, shell

RULES = {
    "load": [{"type": "TABLE", "resourceId": "orders", "lifeDuration": 60}],
    "pair": [
        {"type": "FILE", "resourceId": "/in/{day}", "lifeDuration": 3600},
        {"type": "TABLE", "resourceId": "orders", "lifeDuration": 3600},
    ],
}
MANY = 110  # more than the first page of a dump


def furnish(store: Store, clock: FakeClock) -> None:
    """Jobs of every state with keys and owners, schedules, rules, events, a token."""
    lived_in(Desk(store, clock))
    cue = Scheduler(store, clock=clock)
    cue.set_queue("mail", sink="log:", max_attempts=7, rate_per_second=5.0, shards=3)
    for name in ("beats", "loads"):  # a restore pauses, and so makes, all queues that are named
        cue.set_queue(name)
    cue.schedule_many({"queue": "mail", "delay": 3600 + n, "payload": n} for n in range(MANY))
    cue.schedule({"large": "x" * 9000}, queue="mail", id="large", key="big", delay=60)
    cue.put_schedule("nightly", cron="0 2 * * *", queue="mail", timezone="Europe/Paris")
    cue.put_schedule("paused", every_seconds=60, queue="beats", paused=True)
    for name, dependencies in RULES.items():
        cue.put_rule(name, dependencies, queue="loads", payload={"n": 1})
    for kind, resource in (("TABLE", "orders"), ("TABLE", "unknown")):
        stamp = "2026-01-01T12:00:00Z"
        cue.publish({"eventType": kind, "eventResourceId": resource, "eventTimestamp": stamp})
    Access(store, clock).create("secret-name")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(SystemClock().now())


def table_url(clock: FakeClock) -> str:
    """Of a table in which there is everything."""
    name = new_table().name
    store = DynamoStore(Table(name, client), clock)
    furnish(store, clock)
    store.close()
    return url_of(name)


def file_url(folder: Path, clock: FakeClock) -> str:
    store = SqliteStore(folder / "full.db", clock)
    furnish(store, clock)
    store.close()
    return "sqlite:///full.db"


def content(folder: Path, url: str) -> dict[str, list[Any]]:
    """What a dump has, by kind."""
    ended = run("dump", "--store", url, cwd=folder, env=CREDENTIALS)
    assert ended.code == 0, ended.err
    lines = [msgspec.json.decode(line) for line in ended.out.splitlines()]
    assert "secret-name" not in ended.out, "access tokens stay"
    found: dict[str, list[Any]] = {}
    for line in lines[1:-1]:
        [(kind, value)] = line.items()
        if kind != "mark":  # where an interrupted dump goes on: each store has its own
            found.setdefault(kind, []).append(value)
    return {kind: sorted(values, key=msgspec.json.encode) for kind, values in found.items()}


def moved(source: str, target: str, folder: Path) -> None:
    line = f"oncue dump --store '{source}' | oncue restore - --release --store '{target}'"
    ended = shell(line, cwd=folder, env=CREDENTIALS)
    assert ended.code == 0, ended.err


def test_from_sqlite_to_dynamodb_and_back(tmp_path: Path, clock: FakeClock) -> None:
    source, table = file_url(tmp_path, clock), new_url()
    before = content(tmp_path, source)
    counts = {kind: len(values) for kind, values in before.items()}
    assert counts == {"job": MANY + 13, "queue": 6, "schedule": 2, "rule": 2, "event": 2}
    moved(source, table, tmp_path)
    assert content(tmp_path, table) == before
    moved(table, "sqlite:///back.db", tmp_path)
    assert content(tmp_path, "sqlite:///back.db") == before


def test_from_dynamodb_to_sqlite_and_back(tmp_path: Path, clock: FakeClock) -> None:
    source, table = table_url(clock), new_url()
    before = content(tmp_path, source)
    moved(source, "sqlite:///there.db", tmp_path)
    assert content(tmp_path, "sqlite:///there.db") == before
    moved("sqlite:///there.db", table, tmp_path)
    assert content(tmp_path, table) == before


def test_a_restore_into_a_table_can_be_repeated(tmp_path: Path, clock: FakeClock) -> None:
    source, table = file_url(tmp_path, clock), new_url()
    for _ in range(2):
        moved(source, table, tmp_path)
    assert content(tmp_path, table) == content(tmp_path, source)


def test_a_dump_of_one_table_is_not_continued_from_another(tmp_path: Path) -> None:
    first, second = new_url(), new_url()
    assert run("dump", "a.ndjson", "--store", first, cwd=tmp_path, env=CREDENTIALS).code == 0
    whole = (tmp_path / "a.ndjson").read_bytes()
    (tmp_path / "a.ndjson").write_bytes(whole.splitlines(keepends=True)[0])
    again = ("dump", "a.ndjson", "--resume", "--store")
    refused = run(*again, second, cwd=tmp_path, env=CREDENTIALS)
    assert (refused.code, "begun from table oncue-" in refused.err) == (2, True), refused.err
    assert run(*again, first, cwd=tmp_path, env=CREDENTIALS).code == 0


def test_a_dump_says_that_it_has_no_items_of_the_inbox(tmp_path: Path) -> None:
    url = new_url()
    assert "inbox" not in run("dump", "--store", url, cwd=tmp_path, env=CREDENTIALS).err
    run("inbox", "set", "--shards", "0", "--store", url, cwd=tmp_path, env=CREDENTIALS)
    told = run("dump", "--store", url, cwd=tmp_path, env=CREDENTIALS).err
    assert "Items of the inbox that are not jobs yet are not in it." in told
