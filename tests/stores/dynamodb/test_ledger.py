"""What requests cost, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue_bench.dynamodb.ledger import CountingClient
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.shelf import Shelf, absent, item, put

ABSENT = "attribute_not_exists(pk)"


@pytest.fixture
def counting(client: Any) -> CountingClient:
    return CountingClient(client)


@pytest.fixture
def shelf(counting: CountingClient, table: str) -> Shelf:
    return Shelf(counting, table)


@pytest.fixture
def quietly(client: Any, table: str) -> Shelf:
    """The same table, uncounted."""
    return Shelf(client, table)


def large(pk: str, size: int, sk: str = "s", **texts: str) -> Any:
    """An item of exactly so many bytes."""
    small = item(pk, sk, **texts)
    names = sum(len(name) + len(value["S"]) for name, value in small.items())
    return item(pk, sk, **texts, d="x" * (size - names - 1))


def indexed(pk: str, look: str = "v", at: str = "1", **texts: str) -> Any:
    return item(pk, lpk=look, lsk=at, **texts)


@pytest.mark.parametrize(("size", "units"), [(50, 1), (1024, 1), (1025, 2), (3000, 3)])
def test_a_put_costs_a_unit_for_each_kilobyte(
    counting: CountingClient, shelf: Shelf, size: int, units: int
) -> None:
    shelf.put(large("a", size))
    assert counting.total.writes == units
    assert counting.total.reads == 0


@pytest.mark.parametrize(("old", "new"), [(2500, 50), (50, 2500), (2500, 2500)])
def test_a_put_costs_the_larger_of_the_old_and_the_new_item(
    counting: CountingClient, shelf: Shelf, quietly: Shelf, old: int, new: int
) -> None:
    quietly.put(large("a", old))
    shelf.put(large("a", new))
    assert counting.total.writes == 3


def test_a_delete_costs_as_much_as_what_it_deletes(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    quietly.put(large("a", 2500))
    with counting.counted() as first:
        shelf.delete("a")
    with counting.counted() as second:
        shelf.delete("a")
    assert (first.writes, second.writes) == (3, 1)


def test_an_update_costs_the_whole_item(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    quietly.put(large("a", 2000))
    with counting.counted() as small:
        shelf.update("a", v="1")
    with counting.counted() as grown:
        shelf.update("a", v="x" * 1100)
    assert (small.writes, grown.writes) == (2, 4)


def test_a_condition_that_fails_is_paid_for(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    quietly.put(large("a", 2500))
    with pytest.raises(ClientError, match="conditional request failed"):
        shelf.put(item("a"), ConditionExpression=ABSENT)
    assert counting.total.writes == 3
    assert counting.total.requests == {"put_item": 1}


def test_other_errors_cost_nothing(counting: CountingClient, table: str) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        counting.update_item(TableName=table, Key=item("a"), UpdateExpression="nonsense")
    assert counting.total.writes == 0


def test_a_batch_costs_what_its_writes_cost(counting: CountingClient, shelf: Shelf) -> None:
    shelf.put_all(large("a", 1025), item("b"), indexed("c"))
    assert counting.total.writes == 2 + 1 + 1 + 1
    assert counting.total.requests == {"batch_write_item": 1}


def test_what_the_service_hands_back_costs_nothing(client: Any, table: str) -> None:
    plan = Plan(1, {Fault.HALF_REFUSED: 1.0})
    counting = CountingClient(FaultyClient(client, plan))
    left = Shelf(counting, table).put_all(item("a"), item("b"), item("c"))["UnprocessedItems"]
    assert counting.total.writes == 3 - len(left[table])


def test_a_transaction_costs_twice(counting: CountingClient, shelf: Shelf) -> None:
    shelf.transact(put(large("a", 1025)), put(item("b")), absent("c"))
    assert counting.total.writes == 2 * (2 + 1 + 1)
    assert counting.total.reads == 0


def test_a_cancelled_transaction_is_paid_for(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    quietly.put(item("b"))
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        shelf.transact(put(indexed("a")), absent("b"))
    assert counting.total.writes == 4


def test_a_repeated_transaction_costs_reads(counting: CountingClient, shelf: Shelf) -> None:
    shelf.transact(put(item("a")), ClientRequestToken=shelf.table[-36:])
    with counting.counted() as again:
        shelf.transact(put(item("a")), ClientRequestToken=shelf.table[-36:])
    assert (again.writes, again.reads) == (0, 2)


@pytest.mark.parametrize(
    ("old", "new", "units"),
    [
        (None, indexed("a"), 1),
        (indexed("a"), None, 1),
        (indexed("a"), item("a"), 1),
        (item("a"), indexed("a"), 1),
        (indexed("a"), indexed("a", at="2"), 2),
        (indexed("a"), indexed("a", look="w"), 2),
        (indexed("a"), indexed("a", v="not projected"), 0),
        (item("a"), item("a", v="not indexed"), 0),
        (item("a"), item("a", lpk="half a key"), 0),
    ],
)
def test_the_index_costs_as_its_entry_changes(
    counting: CountingClient, shelf: Shelf, quietly: Shelf, old: Any, new: Any, units: int
) -> None:
    if old:
        quietly.put(old)
    shelf.put(new) if new else shelf.delete("a")
    assert counting.total.index_writes == units
    assert counting.total.writes == 1 + units


def test_an_update_moves_its_entry(counting: CountingClient, shelf: Shelf, quietly: Shelf) -> None:
    quietly.put(indexed("a"))
    shelf.update("a", lsk="2")
    assert counting.total.writes == 1 + 2


def test_the_index_does_not_cost_twice_in_a_transaction(
    counting: CountingClient, shelf: Shelf
) -> None:
    shelf.transact(put(indexed("a")))
    assert (counting.total.writes, counting.total.index_writes) == (3, 1)


@pytest.mark.parametrize(("size", "units"), [(100, 1), (4096, 1), (4097, 2)])
def test_a_get_costs_half_if_it_need_not_be_consistent(
    counting: CountingClient, shelf: Shelf, quietly: Shelf, size: int, units: int
) -> None:
    quietly.put(large("a", size))
    with counting.counted() as consistent:
        shelf.get("a")
    with counting.counted() as eventual:
        shelf.get("a", consistent=False)
    assert (consistent.reads, eventual.reads) == (units, units / 2)


def test_what_is_not_there_costs_as_much_as_what_is_small(
    counting: CountingClient, shelf: Shelf
) -> None:
    shelf.get("a")
    shelf.get("a", consistent=False)
    assert counting.total.reads == 1.5


def test_a_get_costs_the_whole_item_whatever_is_asked_of_it(
    counting: CountingClient, quietly: Shelf, table: str
) -> None:
    quietly.put(large("a", 5000))
    asked = {"TableName": table, "Key": item("a"), "ProjectionExpression": "pk"}
    counting.get_item(**asked, ConsistentRead=True)
    assert counting.total.reads == 2


def test_a_batch_of_reads_rounds_each_item(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    quietly.put(large("a", 1536))
    quietly.put(large("b", 6656))
    shelf.get_all("a", "b", "absent")
    assert counting.total.reads == 1 + 2 + 1


def test_a_transaction_of_reads_costs_twice(
    counting: CountingClient, quietly: Shelf, table: str
) -> None:
    quietly.put(large("a", 5000))
    keys = [{"Get": {"TableName": table, "Key": item(pk)}} for pk in ("a", "absent")]
    counting.transact_get_items(TransactItems=keys)
    assert counting.total.reads == 2 * (2 + 1)


@pytest.mark.parametrize(("items", "units"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_query_rounds_what_it_went_through_once(
    counting: CountingClient, shelf: Shelf, quietly: Shelf, items: int, units: int
) -> None:
    for n in range(items):
        quietly.put(large("a", 1024, sk=str(n)))
    with counting.counted() as consistent:
        shelf.query("a", ConsistentRead=True)
    with counting.counted() as eventual:
        shelf.query("a")
    assert (consistent.reads, eventual.reads) == (units, units / 2)


def test_a_query_pays_for_what_a_filter_leaves_out(
    counting: CountingClient, quietly: Shelf, table: str
) -> None:
    for n in range(5):
        quietly.put(large("a", 1024, sk=str(n)))
    counting.query(
        TableName=table,
        KeyConditionExpression="#pk = :pk",
        FilterExpression="#sk = :other",
        ProjectionExpression="#sk",
        ExpressionAttributeNames={"#pk": "pk", "#sk": "lsk"},
        ExpressionAttributeValues={":pk": {"S": "a"}, ":other": {"S": "none"}},
        ConsistentRead=True,
    )
    assert counting.total.reads == 2


def test_a_query_of_the_index_pays_for_entries_only(
    counting: CountingClient, shelf: Shelf, quietly: Shelf
) -> None:
    for n in range(5):
        quietly.put(large(f"a{n}", 4000, lpk="v", lsk=str(n)))
    shelf.query("v", index=True)
    assert counting.total.reads == 0.5


def test_a_scan_pays_for_the_table(counting: CountingClient, quietly: Shelf, table: str) -> None:
    for n in range(5):
        quietly.put(large(f"a{n}", 1024))
    counting.scan(TableName=table)
    assert counting.total.reads == 1


def test_a_bill_can_be_asked_about_some_partitions(counting: CountingClient, shelf: Shelf) -> None:
    shelf.put(indexed("i#1", look="v#0"))
    shelf.put(item("w#q#0"))
    shelf.get("w#q#0")
    shelf.query("w#q#0", ConsistentRead=True)
    assert counting.total.of("i#") == (0, 1)
    assert counting.total.of("v#") == (0, 1)
    assert counting.total.of("w#") == (2, 1)
    assert str(counting.total) == "3 W, 2 R: 1 get_item, 2 put_item, 1 query"


def test_what_no_rule_is_known_for_is_refused(counting: CountingClient) -> None:
    with pytest.raises(NotImplementedError, match="execute_statement"):
        counting.execute_statement(Statement="SELECT * FROM t")


def test_what_the_network_loses_costs_nothing(counting: CountingClient, table: str) -> None:
    shelf = Shelf(FaultyClient(counting, Plan(1, {Fault.THROTTLE: 1.0})), table)
    with pytest.raises(ClientError):
        shelf.put(item("a"))
    assert counting.total.writes == 0
