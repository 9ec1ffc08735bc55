"""Batches of statements cost and fail as the single writes would."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from oncue_bench.dynamodb import statements
from oncue_bench.dynamodb.capacity import CapacityClient, Limits
from oncue_bench.dynamodb.ledger import CountingClient
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.replica import Replica
from tests.stores.dynamodb.shelf import Shelf, delete_if, insert, item, put, set_if
from tests.stores.dynamodb.world import World

A, B, C = (item(pk, v="1") for pk in "abc")
LARGE = item("large", v="1", d="x" * 2000)


@pytest.fixture
def counting(client: Any) -> CountingClient:
    return CountingClient(client)


def codes(answers: list[Any]) -> list[str | None]:
    return [one.get("Error", {}).get("Code") for one in answers]


def always(client: Any, fault: Fault, seed: int = 1, **more: Any) -> FaultyClient:
    plan = Plan(seed, {fault: 1.0}, only=[statements.METHOD])
    return FaultyClient(client, plan, **more)


def test_each_statement_costs_what_its_write_costs(
    client: Any, counting: CountingClient, table: str
) -> None:
    Shelf(client, table).put_all(A, B, LARGE)
    shelf = Shelf(counting, table)
    indexed = item("c", lpk="v", lsk="1")
    assert codes(shelf.execute(insert(indexed), set_if("a", "2", "1"), delete_if("b", "1"))) == [
        None,
        None,
        None,
    ]
    assert counting.total.writes == 2 + 1 + 1
    assert counting.total.of("v") == (0, 1)
    with counting.counted() as large:
        shelf.execute(set_if("large", "2", "1"))
    assert large.writes == 2
    assert counting.total.requests == {statements.METHOD: 2}
    assert shelf.get("large") == item("large", v="2")


def test_conditions_that_fail_are_paid_for(
    client: Any, counting: CountingClient, table: str
) -> None:
    Shelf(client, table).put_all(A, B, LARGE)
    shelf = Shelf(counting, table)
    asked = insert(A), set_if("large", "3", "2"), delete_if("b", "2"), delete_if("none", "1")
    refused = shelf.execute(*asked)
    assert codes(refused)[:3] == ["DuplicateItem", *["ConditionalCheckFailed"] * 2]
    assert counting.total.writes == 1 + 2 + 1 + 1
    assert shelf.get("a") == A


def test_what_nobody_can_price_is_refused(counting: CountingClient, table: str) -> None:
    for text in ('SELECT * FROM %s WHERE "pk"=?', 'DELETE FROM %s WHERE contains("v", ?)'):
        with pytest.raises(NotImplementedError):
            Shelf(counting, table).execute({"Statement": text, "Parameters": [{"S": "s"}]})


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.CONFLICT, {"TransactionConflict"}),
        (Fault.HALF_REFUSED, {"InternalServerError"}),
        (Fault.THROTTLE, set(statements.THROTTLES)),
    ],
)
def test_single_statements_go_wrong(
    client: Any, table: str, fault: Fault, expected: set[str]
) -> None:
    """Those are not done, and the others are. A throttled batch may also be refused as a whole."""
    met: set[str | None] = set()
    for seed in range(12):
        faulty = always(client, fault, seed)
        shelf = Shelf(faulty, table)
        batch = [insert(item(f"{pk}{seed}")) for pk in "abc"]
        try:
            found = codes(shelf.execute(*batch))
        except ClientError:
            assert fault is Fault.THROTTLE
            found = ["whole"] * 3
        for pk, code in zip("abc", found, strict=True):
            assert (shelf.get(f"{pk}{seed}") is None) == (code is not None)
        met |= set(found) - {"whole"}
    assert met == expected | {None}


def test_a_batch_times_out_after_it_was_done(client: Any, table: str) -> None:
    shelf = Shelf(always(client, Fault.TIMEOUT), table)
    with pytest.raises((ClientError, BotoCoreError)):
        shelf.execute(insert(A), insert(B))
    assert shelf.get("a") == A
    assert shelf.get("b") == B


def test_a_part_of_a_batch_is_done_and_no_answer_comes(client: Any, table: str) -> None:
    shelf = Shelf(always(client, Fault.HALF_DOWN), table)
    with pytest.raises((ClientError, BotoCoreError)):
        shelf.execute(insert(A), insert(B), insert(C))
    assert 0 < sum(shelf.get(pk) is not None for pk in "abc") < 3


def test_a_batch_arrives_late_under_its_conditions(client: Any, table: str) -> None:
    faulty = always(client, Fault.LATE, late_calls=None)
    shelf = Shelf(faulty, table)
    shelf.put(B)
    with pytest.raises(BotoCoreError):
        shelf.execute(insert(A), set_if("b", "2", "1"))
    shelf.put(item("b", v="3"))
    faulty.world.arrive()
    assert shelf.get("a") == A
    assert shelf.get("b") == item("b", v="3")


def test_a_statement_that_meets_a_transaction_has_a_conflict_and_the_others_are_done(
    client: Any, table: str
) -> None:
    met: list[str | None] = []
    plan = Plan(1, {Fault.TORN: 1.0})

    def rival(_: object) -> None:
        met.extend(codes(shelf.execute(insert(C), set_if("a", "2", "1"))))

    faulty = FaultyClient(client, plan, between=rival)
    shelf = Shelf(faulty, table)
    shelf.transact(put(A), put(B))
    assert met == [None, "TransactionConflict"]
    assert shelf.get("c") == C


def test_a_replica_hears_of_statements(client: Any, table: str) -> None:
    replica = Replica(client, table)
    faulty = FaultyClient(client, Plan(1, {}), world=World(client, replica=replica))
    Shelf(faulty, table).execute(insert(A), insert(B))
    assert replica.behind
    replica.catch_up()
    assert Shelf(client, replica.name).get("a") == A
    replica.drop()


def test_what_exceeds_a_partition_is_throttled_statement_by_statement(
    client: Any, table: str
) -> None:
    narrow = CapacityClient(client, lambda: 0.0, Limits(partitions=1, writes=2))
    found = codes(Shelf(narrow, table).execute(insert(A), insert(B), insert(C)))
    assert found == [None, None, "ThrottlingError"]
    assert narrow.throttles == {table: 1}
    assert narrow.used == {0: 2}
