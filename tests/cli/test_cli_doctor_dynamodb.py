"""`oncue doctor` on a DynamoDB table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from oncue.cli import dynamodb_findings, findings, forecast
from oncue.cli.app import App
from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import StoreUnavailable
from oncue.core.queue import default_queue
from oncue.scheduler import Scheduler
from oncue.stores.dynamodb import creation, health
from oncue.stores.dynamodb.health import MOST_COUNTED, QueueLoad
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.skew import ServiceClock
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import client, new_table
from tests.unit.test_dynamodb_clock import World

from .on_dynamodb import CREDENTIALS, url_of
from .terminal import Ended, run

KEYS = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]


def doctor(name: str, *arguments: str, cwd: Path) -> Ended:
    return run("doctor", "--store", url_of(name), *arguments, cwd=cwd, env=CREDENTIALS)


def by_name(told: Any) -> dict[str, Any]:
    return {found["name"]: found for found in told["findings"]}


def levels(found: Any) -> list[str]:
    return [one.level for one in found]


# -- the whole -------------------------------------------------------------------------------------


def test_a_sound_table_is_told_to_be_sound(tmp_path: Path) -> None:
    name = f"oncue-{uuid4().hex}"
    run("migrate", "--store", url_of(name), cwd=tmp_path, env=CREDENTIALS)
    ended = doctor(name, "--quota", "--json", cwd=tmp_path)
    told = ended.json
    assert [one for one in told["findings"] if one["level"] == "bad"] == []
    assert ended.code == 0
    assert told["ok"] is True
    assert told["store"]["table"] == name
    assert (told["store"]["status"], told["store"]["throttles"]) == ("active", 0)
    found = by_name(told)
    assert {one["level"] for one in found.values()} == {"ok"}
    assert {*found} == {
        *("store", "clock", "claims", "nodes", "schedules", "lateness", "paused queues", "sinks"),
        *("table", "index", "time to live", "shards", "service's clock", "throttles", "quota"),
    }
    assert "active, on demand" in found["table"]["text"]
    assert "40,000 write units per second" in found["quota"]["text"]


def test_the_quota_is_asked_for_on_request_only(tmp_path: Path) -> None:
    assert "quota" not in by_name(doctor(new_table().name, "--json", cwd=tmp_path).json)
    run("migrate", cwd=tmp_path)
    found = by_name(run("doctor", "--quota", "--json", cwd=tmp_path).json)
    assert "only a DynamoDB table has one" in found["quota"]["text"]
    refused = run("doctor", "--quota", "--url", "http://localhost:1", cwd=tmp_path)
    assert (refused.code, "--quota needs the store itself" in refused.err) == (2, True)


def test_a_table_that_lacks_something_is_told_with_the_next_step(tmp_path: Path) -> None:
    """Made by hand, provisioned, without an index and a time to live."""
    made = Table(f"oncue-{uuid4().hex}", client)
    client().create_table(
        TableName=made.name,
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        KeySchema=KEYS,
        ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
    )
    creation._begin(made)
    ended = doctor(made.name, "--json", cwd=tmp_path)
    assert ended.code == 1
    found = by_name(ended.json)
    assert found["table"]["level"] == "warn"
    assert "provisioned for 6 write units per second" in found["table"]["text"]
    assert "--billing-mode PAY_PER_REQUEST" in found["table"]["todo"]
    for name in ("index", "time to live"):
        assert (found[name]["level"], found[name]["todo"]) == (
            "bad",
            "Add what is missing: oncue migrate",
        )
    assert (
        "Give commands that are named here the same --store." in doctor(made.name, cwd=tmp_path).out
    )


def test_a_table_that_is_not_there_is_told_with_the_next_step(tmp_path: Path) -> None:
    ended = doctor(f"oncue-{uuid4().hex}", cwd=tmp_path)
    assert ended.code == 1
    assert "create it: oncue migrate, with the URL of this store" in ended.out


def test_late_work_and_paused_queues_are_seen_without_counts(tmp_path: Path) -> None:
    made = new_table()
    early = FakeClock(SystemClock().now() - 600_000)
    with Scheduler(DynamoStore(Table(made.name, client), early), clock=early) as cue:
        cue.schedule(1, queue="mail")
        cue.schedule(1, queue="held")
        cue.pause("held")
    found = by_name(doctor(made.name, "--json", cwd=tmp_path).json)
    assert found["lateness"]["level"] == "warn"
    assert "queue mail has work that is 1" in found["lateness"]["text"]
    assert "queue held is paused and has had due work for 1" in found["paused queues"]["text"]


# -- single checks ---------------------------------------------------------------------------------


def described(**changes: Any) -> dict[str, Any]:
    index = {
        "IndexName": "look",
        "IndexStatus": "ACTIVE",
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    return {"GlobalSecondaryIndexes": [index | changes]}


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, "ok", "active, with keys only"),
        ({"IndexStatus": "CREATING"}, "warn", "is creating"),
        ({"Projection": {"ProjectionType": "ALL"}}, "warn", "has more than keys (ALL)"),
    ],
)
def test_the_index(changes: dict[str, Any], level: str, text: str) -> None:
    [found] = dynamodb_findings._index(lambda: described(**changes))
    assert found.level == level
    assert text in found.text


def test_a_time_to_live_by_another_attribute_is_an_error(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    monkeypatch.setattr(health, "time_to_live", lambda store: told)
    [found] = dynamodb_findings._time_to_live(store)
    assert found.level == "bad"
    assert "goes by the attribute expires" in found.text


def load(name: str, *due: int) -> QueueLoad:
    return QueueLoad(default_queue(name), len(due), list(due), None)


def test_a_shard_with_more_than_it_can_take_is_told_with_the_next_step() -> None:
    loads = [load("calm", 10, 20), load("busy", MOST_COUNTED + 1, 5, 5, 5)]
    [found] = dynamodb_findings._shards(lambda: loads)
    assert found.level == "warn"
    assert "queue busy has 4 shards, and one of them has more than 42,000 jobs" in found.text
    assert "oncue queues set busy --shards 8, and its other settings" in found.todo


def test_shards_that_are_calm_are_told_with_the_busiest() -> None:
    [found] = dynamodb_findings._shards(lambda: [load("calm", 10, 20), load("idle", 0)])
    assert found.text.endswith("; the busiest (calm) has 20.")
    [found] = dynamodb_findings._shards(list)
    assert found.level == "ok"


@pytest.mark.parametrize(
    ("ahead_ms", "level", "text"),
    [
        (0, "ok", "agrees with this machine's"),
        (1500, "warn", "1.5 s ahead of that of DynamoDB: it is corrected"),
        (-9000, "bad", "9.0 s behind that of DynamoDB: no work is taken here"),
    ],
)
def test_skew(ahead_ms: int, level: str, text: str) -> None:
    world = World(ahead_ms)
    world.ask(200)
    [found] = dynamodb_findings._skew(world.clock)
    assert found.level == level
    assert text in found.text


def test_a_service_that_does_not_tell_its_time() -> None:
    for clock in (ServiceClock(FakeClock()), FakeClock()):
        [found] = dynamodb_findings._skew(clock)
        assert (found.level, "carry no Date" in found.text) == ("warn", True)


# -- load and throttles, on a table ----------------------------------------------------------------


class Throttling(WrappedClient):
    """Refuses or leaves out what it is told to, so many times."""

    def __init__(self) -> None:
        super().__init__(client())
        self.method = ""
        self.left = 0

    def during(self, call: Call) -> Any:
        if call.method != self.method or not self.left:
            return self.send(call)
        self.left -= 1
        if call.method == "batch_write_item":
            return {"UnprocessedItems": call.kwargs["RequestItems"]}
        if call.method == "batch_get_item":
            return {"Responses": {}, "UnprocessedKeys": call.kwargs["RequestItems"]}
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, call.method)


@pytest.fixture
def throttling() -> Throttling:
    return Throttling()


@pytest.fixture
def store(throttling: Throttling) -> Iterator[DynamoStore]:
    store = DynamoStore(Table(new_table().name, lambda: throttling), FakeClock())
    yield store
    store.close()


def test_what_is_due_within_a_minute_is_counted_by_shard(store: DynamoStore) -> None:
    with Scheduler(store, clock=store.clock) as cue:
        soon = [{"queue": "mail", "delay": n, "priority": n % 3} for n in range(0, 60, 2)]
        later = [{"queue": "mail", "delay": 61 + n} for n in range(20)]
        cue.schedule_many([*soon, *later])
        cue.schedule(queue="idle", delay=3600)
        idle, mail = health.loads(store, store.clock.now())
        assert (sum(mail.due), mail.shards, mail.oldest_due_at) == (30, 4, store.clock.now())
        assert (idle.busiest, idle.oldest_due_at) == (0, store.clock.now() + 3_600_000)


def test_counting_stops_when_it_is_enough(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MOST_COUNTED", 2)
    with Scheduler(store, clock=store.clock) as cue:
        cue.schedule_many({"queue": "mail", "priority": n % 9} for n in range(90))
        [mail] = health.loads(store, store.clock.now())
        assert 2 < mail.busiest < 90


@pytest.mark.parametrize("method", ["get_item", "batch_get_item", "batch_write_item"])
def test_throttles_are_counted_logged_and_told(
    method: str,
    store: DynamoStore,
    throttling: Throttling,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert levels(dynamodb_findings._throttles(store)) == ["ok"]
    throttling.method, throttling.left = method, 3
    store.table.write([{"pk": "x", "sk": "y"}])
    store.table.get(Key("x", "y"))
    store.table.read([Key("x", "y")])
    [found] = dynamodb_findings._throttles(store)
    assert (found.level, store.table.throttles.count) == ("warn", 3)
    assert "3 requests of this command were throttled" in found.text
    assert store.describe().details["throttles"] == 3
    logged = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[1].split()[0] for text in logged] == ["1", "2"]


def test_a_check_that_the_store_does_not_answer_does_not_end_the_others() -> None:
    def away() -> dict[str, Any]:
        raise StoreUnavailable("it was throttled")

    checks = {"table": dynamodb_findings._table(away), "index": [findings.ok("fine")]}
    assert levels(findings.checked(checks)) == ["bad", "ok"]


def test_a_quota_that_is_too_small_is_told(
    monkeypatch: pytest.MonkeyPatch, store: DynamoStore
) -> None:
    nothing = forecast.Ahead(now=0, until=60_000, begins=[0])
    monkeypatch.setattr(forecast, "look_ahead", lambda *asked: nothing)
    loads = [load("mail", *[60_000] * 167)]
    [found] = dynamodb_findings._quota(App(), store, lambda: loads)
    assert found.level == "warn"
    assert "has 10,020,000 jobs: up to 1,169,000 units per second" in found.text
    assert "Service Quotas" in found.todo
