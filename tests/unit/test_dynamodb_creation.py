"""A table is made as a store needs it; one that is there is given only what it lacks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from oncue.core.errors import StoreUnavailable, StoreUnusable
from oncue.stores.dynamodb import creation, keys, schema
from oncue.stores.dynamodb.table import Table
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import client

CREATE = "create table"
TTL = "set the time to live"
BEGIN = "store the version of the schema (1)"
RECOVER = "turn on point-in-time recovery"
KEYS = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]


def new(connect: Any = client) -> Table:
    return Table(f"oncue-{uuid4().hex}", connect)


class Prompt(WrappedClient):
    """An index is added in words only: DynamoDB Local often builds one for minutes, and refuses
    writes meanwhile. The request is checked against the service's description of it."""

    def __init__(self) -> None:
        super().__init__(client())
        self.added: list[dict[str, Any]] = []

    def during(self, call: Call) -> Any:
        if call.method == "update_table":
            shape = self.client.meta.service_model.operation_model("UpdateTable").input_shape
            assert not ParamValidator().validate(call.kwargs, shape).has_errors()
            [update] = call.kwargs["GlobalSecondaryIndexUpdates"]
            self.added.append(update["Create"] | {"IndexStatus": "ACTIVE"})
            return {}
        answer = self.send(call)
        if call.method == "describe_table" and self.added:
            answer["Table"]["GlobalSecondaryIndexes"] = deepcopy(self.added)
        return answer


def foreign(key_schema: Any = KEYS, kind: str = "S", **more: Any) -> Table:
    """A table that was made in another way."""
    prompt = Prompt()
    table = new(lambda: prompt)
    named = [one["AttributeName"] for one in key_schema]
    given: dict[str, Any] = {
        "TableName": table.name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": one, "AttributeType": kind} for one in named],
        "KeySchema": key_schema,
    }
    client().create_table(**given | more)
    return table


def texts(table: Table, **asked: Any) -> list[str]:
    return [step.text for step in creation.steps(table, **asked)]


def starts(found: list[str], *expected: str) -> bool:
    return len(found) == len(expected) and all(
        one.startswith(start) for one, start in zip(found, expected, strict=True)
    )


def test_a_table_is_created_with_all_it_needs() -> None:
    table = new()
    assert starts(texts(table), CREATE, TTL, BEGIN)
    creation.create(table)
    told = schema.describe(table)
    assert schema.mode_of(told) == "PAY_PER_REQUEST"
    assert told["KeySchema"] == KEYS
    [index] = told["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["Projection"]["ProjectionType"]) == ("look", "KEYS_ONLY")
    ttl = client().describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    assert ttl["AttributeName"] == "ttl"
    assert len(schema.open_table(table)) == 32


def test_creating_it_again_changes_nothing() -> None:
    table = new()
    steps = creation.steps(table)
    creation.create(table)
    secret = schema.open_table(table)
    for step in steps:  # as by two who began at the same time
        step.apply()
    assert texts(table) == []
    assert schema.open_table(table) == secret


def test_looking_at_what_is_missing_changes_nothing() -> None:
    table = new()
    creation.steps(table)
    with pytest.raises(StoreUnusable, match="does not exist"):
        schema.describe(table)


def test_a_table_that_is_there_is_given_what_it_lacks_and_keeps_what_it_has() -> None:
    table = foreign()
    table.put({"pk": "j#2026-01-01T00:00", "sk": "x"})
    assert starts(texts(table), "add index look", TTL, BEGIN)
    creation.create(table)
    assert texts(table) == []
    assert table.get(keys.Key("j#2026-01-01T00:00", "x")) is not None
    [index] = schema.describe(table)["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["Projection"]["ProjectionType"]) == ("look", "KEYS_ONLY")


def test_an_index_that_is_not_ready_is_waited_for() -> None:
    table = foreign()
    creation.create(table)
    told = schema.describe(table)
    told["GlobalSecondaryIndexes"][0]["IndexStatus"] = "CREATING"
    [step] = creation._missing_index(table, told)
    assert step.text == "wait for index look"
    step.apply()


def test_a_provisioned_table_stays_one() -> None:
    given = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 9}
    table = foreign(BillingMode="PROVISIONED", ProvisionedThroughput=given)
    creation.create(table)
    told = schema.describe(table)
    assert schema.mode_of(told) == "PROVISIONED"
    [index] = told["GlobalSecondaryIndexes"]
    assert index["ProvisionedThroughput"]["WriteCapacityUnits"] == 9


@pytest.mark.parametrize(
    ("key_schema", "kind", "text"),
    [
        (
            [{"AttributeName": "id", "KeyType": "HASH"}],
            "S",
            r"other keys .* id \(S\) instead of pk",
        ),
        (KEYS, "B", r"pk \(B\), sk \(B\) instead of pk \(S\)"),
    ],
)
def test_a_table_with_other_keys_is_refused(key_schema: Any, kind: str, text: str) -> None:
    with pytest.raises(StoreUnusable, match=text):
        creation.steps(foreign(key_schema, kind))


def test_a_table_with_another_time_to_live_is_refused() -> None:
    table = foreign()
    wanted = {"Enabled": True, "AttributeName": "expires"}
    client().update_time_to_live(TableName=table.name, TimeToLiveSpecification=wanted)
    with pytest.raises(StoreUnusable, match="in the attribute 'expires'"):
        creation.steps(table)


def test_a_table_with_another_index_of_that_name_is_refused() -> None:
    index = {
        "IndexName": "look",
        "KeySchema": [{"AttributeName": "sk", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    with pytest.raises(StoreUnusable, match="an index look with other keys"):
        creation.steps(foreign(GlobalSecondaryIndexes=[index]))


def test_a_table_that_does_not_get_ready_is_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Creating(WrappedClient):
        def during(self, call: Call) -> Any:
            answer = self.send(call)
            if call.method == "describe_table":
                answer["Table"]["TableStatus"] = "CREATING"
            return answer

    monkeypatch.setattr(creation, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(creation, "READY_SECONDS", 0.02)
    with pytest.raises(StoreUnavailable, match="Repeat 'oncue migrate'"):
        creation.create(new(lambda: Creating(client())))


# -- point-in-time recovery, which DynamoDB Local does not have ------------------------------------


class WithBackups(WrappedClient):
    """Backups can be had; from the second request on (`later`), as with a new table of AWS."""

    def __init__(self, *, later: bool = True) -> None:
        super().__init__(client())
        self.asked = 0 if later else 1
        self.is_on = False

    def during(self, call: Call) -> Any:
        if call.method == "describe_continuous_backups":
            status = "ENABLED" if self.is_on else "DISABLED"
            recovery = {"PointInTimeRecoveryStatus": status}
            return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": recovery}}
        if call.method != "update_continuous_backups":
            return self.send(call)
        self.asked += 1
        if self.asked == 1:
            code = "ContinuousBackupsUnavailableException"
            raise ClientError({"Error": {"Code": code}}, "UpdateContinuousBackups")
        wanted = call.kwargs["PointInTimeRecoverySpecification"]
        self.is_on = wanted["PointInTimeRecoveryEnabled"]
        return {}


def test_recovery_is_turned_on_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "LOOK_SECONDS", 0.01)
    backed_up = WithBackups()
    table = new(lambda: backed_up)
    steps = creation.steps(table, recovery=True)
    assert starts([step.text for step in steps], CREATE, TTL, BEGIN, RECOVER)
    for step in steps:
        step.apply()
    assert (backed_up.is_on, backed_up.asked) == (True, 2)
    assert texts(table, recovery=True) == []


def test_an_emulator_without_recovery_is_told() -> None:
    table = new()
    *others, recover = creation.steps(table, recovery=True)
    for step in others:
        step.apply()
    for ask in (recover.apply, lambda: creation.steps(table, recovery=True)):
        with pytest.raises(StoreUnusable, match="Leave out --point-in-time-recovery"):
            ask()
    assert texts(table) == [], "all else was done"
