"""What lags: indexes, eventually consistent reads, and the deletion of what has expired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.replica import Replica
from tests.stores.dynamodb.shelf import Shelf, item, put
from tests.stores.dynamodb.ttl import HeldTtl
from tests.stores.dynamodb.world import World


@pytest.fixture
def replica(client: Any, table: str) -> Iterator[Replica]:
    Shelf(client, table).put(indexed("old"))
    replica = Replica(client, table)
    yield replica
    replica.drop()


def indexed(pk: str, look_at: str = "1") -> Any:
    return item(pk, lpk="v", lsk=look_at)


def shelf_of(client: Any, replica: Replica, plan: Plan) -> Shelf:
    world = World(client, replica=replica)
    return Shelf(FaultyClient(client, plan, world=world), replica.table)


def found(shelf: Shelf) -> list[str]:
    return [one["pk"]["S"] for one in shelf.query("v", index=True)["Items"]]


def stale(first_n: int) -> Plan:
    return Plan(1, {Fault.STALE: 1.0}, first_n=first_n, sparing={"put_item", "delete_item"})


def test_an_index_that_keeps_up_shows_what_is(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, Plan(1, {}))
    shelf.put(indexed("new"))
    shelf.delete("old")
    assert found(shelf) == ["new"]


def test_an_index_that_lags_shows_what_was(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, stale(first_n=1))
    shelf.put(indexed("new"))
    assert found(shelf) == ["old"]
    assert found(shelf) == ["new", "old"] or found(shelf) == ["old", "new"]


def test_entries_come_in_another_order_than_they_were_written(
    client: Any, replica: Replica
) -> None:
    shelf = shelf_of(client, replica, stale(first_n=100))
    written = [f"{n:02}" for n in range(8)]
    for pk in written:
        shelf.put(indexed(pk, pk))
    seen = [found(shelf) for _ in range(8)]
    assert any(set(page) - {"old"} not in [set(written[:n]) for n in range(9)] for page in seen)


def test_the_changes_of_one_item_keep_their_order(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, Plan(1, {}))
    shelf.put(indexed("new", "1"))
    shelf.put(indexed("new", "2"))
    for expected in ("1", "2"):
        replica.advance(lambda names: names)
        [entry] = [one for one in _entries(client, replica) if one["pk"]["S"] == "new"]
        assert entry["lsk"]["S"] == expected
    assert not replica.behind


def _entries(client: Any, replica: Replica) -> list[Any]:
    return list(Shelf(client, replica.name).query("v", index=True)["Items"])


def test_a_consistent_read_never_lags(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, stale(first_n=100))
    shelf.put(indexed("new"))
    assert shelf.get("new") is not None
    assert shelf.get_all("new")["Responses"][replica.table]
    assert shelf.query("new", ConsistentRead=True)["Items"]


def test_an_eventually_consistent_read_may_lag(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, stale(first_n=3))
    shelf.put(indexed("new"))
    assert shelf.get("new", consistent=False) is None
    assert shelf.get_all("new", consistent=False)["Responses"][replica.table] == []
    assert shelf.query("new")["Items"] == []
    assert shelf.get("new", consistent=False) is not None


def test_every_way_to_write_reaches_the_index(client: Any, replica: Replica) -> None:
    shelf = shelf_of(client, replica, Plan(1, {}))
    shelf.put_all(indexed("batch"))
    shelf.transact(put(indexed("transaction")), {"Delete": {"Key": item("old")}})
    shelf.update("update", lpk="v", lsk="1")
    assert sorted(found(shelf)) == ["batch", "transaction", "update"]


def test_what_has_expired_stays_until_the_test_says_so(client: Any, table: str) -> None:
    held = HeldTtl(client)
    wanted = {"Enabled": True, "AttributeName": "ttl"}
    held.update_time_to_live(TableName=table, TimeToLiveSpecification=wanted)
    told = held.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert told == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    shelf = Shelf(held, table)
    for pk, ttl in (("past", "100"), ("future", "300")):
        shelf.put({**item(pk), "ttl": {"N": ttl}})
    shelf.put(item("forever"))
    assert shelf.get("past") is not None
    assert held.expire(table, now=200) == 1
    assert [shelf.get(pk) is None for pk in ("past", "future", "forever")] == [True, False, False]


def test_the_server_is_not_told_about_the_time_to_live(client: Any, table: str) -> None:
    wanted = {"Enabled": True, "AttributeName": "ttl"}
    HeldTtl(client).update_time_to_live(TableName=table, TimeToLiveSpecification=wanted)
    told = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert told["TimeToLiveStatus"] == "DISABLED"
