"""Each fault is what the service and the network really do."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from oncue_bench.dynamodb.errors import THROTTLES
from oncue_bench.dynamodb.wrapped import READS, SINGLE_WRITES, WRITES, Call
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.shelf import Shelf, absent, insert, item, put
from tests.stores.dynamodb.world import World

A, B, C = item("a"), item("b"), item("c")


def always(fault: Fault, *methods: str, first_n: int | None = None, seed: int = 1) -> Plan:
    return Plan(seed, {fault: 1.0}, only=methods or None, first_n=first_n)


def test_without_faults_a_client_does_what_it_is_asked(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, Plan(1, {})), table)
    shelf.put(A)
    assert shelf.get("a") == A
    assert shelf.client.meta is client.meta
    assert shelf.client.exceptions is client.exceptions
    assert shelf.client.describe_table(TableName=table)["Table"]["TableName"] == table


def test_a_throttled_request_does_nothing(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.THROTTLE, *WRITES)), table)
    codes = set()
    for _ in range(30):
        with pytest.raises(ClientError) as refused:
            shelf.put(A)
        assert isinstance(refused.value, client.exceptions.ClientError)
        codes.add(refused.value.response["Error"]["Code"])
    assert codes == set(THROTTLES)
    assert shelf.get("a") is None


def test_errors_are_those_that_the_client_names(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.CONFLICT)), table)
    with pytest.raises(client.exceptions.TransactionConflictException) as refused:
        shelf.put(A)
    assert refused.value.operation_name == "PutItem"
    with pytest.raises(client.exceptions.TransactionCanceledException):
        shelf.transact(put(A))


def test_a_request_that_fails_does_nothing(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.FAIL, *WRITES)), table)
    kinds = set()
    for _ in range(30):
        with pytest.raises((ClientError, BotoCoreError)) as failed:
            shelf.put(A)
        kinds.add(type(failed.value).__name__)
    assert "InternalServerError" in kinds
    assert "ReadTimeoutError" in kinds
    assert len(kinds) == 4
    assert shelf.get("a") is None


def test_a_time_out_comes_after_the_work(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.TIMEOUT, "put_item")), table)
    with pytest.raises((ClientError, BotoCoreError)):
        shelf.put(A)
    assert shelf.get("a") == A


def test_a_late_put_arrives_after_the_delete(client: Any, table: str) -> None:
    faulty = FaultyClient(client, always(Fault.LATE, "put_item"), late_calls=None)
    shelf = Shelf(faulty, table)
    with pytest.raises(ReadTimeoutError):
        shelf.put(A)
    assert shelf.get("a") is None
    shelf.delete("a")
    faulty.world.arrive()
    assert shelf.get("a") == A


def test_a_late_request_arrives_by_itself_some_calls_later(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.LATE, "put_item"), late_calls=3), table)
    with pytest.raises(ReadTimeoutError):
        shelf.put(A)
    assert A in [shelf.get("a") for _ in range(3)]


def test_nobody_hears_that_a_late_request_was_refused(client: Any, table: str) -> None:
    faulty = FaultyClient(client, always(Fault.LATE, first_n=1), late_calls=None)
    shelf = Shelf(faulty, table)
    with pytest.raises(ReadTimeoutError):
        shelf.put(item("a", v="late"), ConditionExpression="attribute_not_exists(pk)")
    shelf.put(A)
    faulty.world.arrive()
    assert shelf.get("a") == A


def test_a_part_of_a_batch_of_writes_comes_back(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.HALF_REFUSED, "batch_write_item")), table)
    left = shelf.put_all(A, B, C)["UnprocessedItems"][table]
    refused = [request["PutRequest"]["Item"]["pk"]["S"] for request in left]
    assert 0 < len(refused) < 3
    for pk in "abc":
        assert (shelf.get(pk) is None) == (pk in refused)


def test_a_part_of_a_batch_of_reads_comes_back(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.HALF_REFUSED, "batch_get_item")), table)
    shelf.put_all(A, B, C)
    answer = shelf.get_all("a", "b", "c")
    left = answer["UnprocessedKeys"][table]
    assert left["ConsistentRead"]
    found = [one["pk"]["S"] for one in answer["Responses"][table]]
    assert sorted(found + [key["pk"]["S"] for key in left["Keys"]]) == ["a", "b", "c"]
    assert 0 < len(found) < 3


def test_a_part_of_a_batch_is_done_and_no_answer_comes(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.HALF_DOWN)), table)
    with pytest.raises((ClientError, BotoCoreError)):
        shelf.put_all(A, B, C)
    assert 0 < sum(shelf.get(pk) is not None for pk in "abc") < 3


def test_short_pages_show_every_item_once_in_order(client: Any, table: str) -> None:
    faulty = FaultyClient(client, always(Fault.SHORT, "query"))
    shelf = Shelf(faulty, table)
    shelf.put_all(*(item("a", f"{n:02}") for n in range(12)))
    pages: list[list[str]] = []
    start: dict[str, Any] = {}
    while True:
        answer = shelf.query("a", Limit=5, **start)
        pages.append([one["sk"]["S"] for one in answer["Items"]])
        if "LastEvaluatedKey" not in answer:
            break
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert [*chain(*pages)] == [f"{n:02}" for n in range(12)]
    assert max(map(len, pages)) < 5
    assert [] in pages[:-1]


def test_a_cancelled_transaction_names_the_items_to_blame(client: Any, table: str) -> None:
    shelf = Shelf(FaultyClient(client, always(Fault.CONFLICT)), table)
    with pytest.raises(ClientError) as cancelled:
        shelf.transact(put(A), put(B), absent("c"))
    codes = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
    assert set(codes) == {"None", "TransactionConflict"}
    assert len(codes) == 3
    assert f"[{', '.join(codes)}]" in str(cancelled.value)
    assert client.get_item(TableName=table, Key=A).get("Item") is None


def test_the_shape_of_a_cancellation_is_that_of_the_server(client: Any, table: str) -> None:
    def shape(of: ClientError) -> object:
        response = {**of.response, "ResponseMetadata": None, "CancellationReasons": None}
        return sorted(response), sorted(of.response["Error"]), type(of), of.operation_name

    Shelf(client, table).put(A)
    with pytest.raises(ClientError) as real:
        Shelf(client, table).transact(absent("a"), put(B))
    with pytest.raises(ClientError) as made:
        Shelf(FaultyClient(client, always(Fault.CONFLICT)), table).transact(put(A), put(B))
    assert shape(made.value) == shape(real.value)


def test_what_runs_before_a_write_makes_it_lose_the_race(client: Any, table: str) -> None:
    def rival(call: Call) -> None:
        if call.method == "put_item":
            Shelf(faulty, table).put(item("a", v="rival"))

    faulty = FaultyClient(client, Plan(1, {}), before=rival)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        Shelf(faulty, table).put(A, ConditionExpression="attribute_not_exists(pk)")
    assert Shelf(faulty, table).get("a") == item("a", v="rival")


def test_every_request_for_items_can_be_preceded(client: Any, table: str) -> None:
    seen: list[str] = []
    faulty = FaultyClient(client, Plan(1, {}), before=lambda call: seen.append(call.method))
    shelf = Shelf(faulty, table)
    shelf.put(A), shelf.get("a"), shelf.update("a", v="1"), shelf.delete("a")
    shelf.put_all(A), shelf.get_all("a"), shelf.transact(put(B)), shelf.query("a")
    faulty.scan(TableName=table)
    faulty.transact_get_items(TransactItems=[{"Get": {"TableName": table, "Key": A}}])
    shelf.execute(insert(C))
    assert set(seen) == READS | WRITES


def test_a_transaction_is_seen_half_done(client: Any, table: str) -> None:
    seen: list[int] = []

    def reader(call: Call) -> None:
        answer = shelf.get_all("a", "b", "c")["Responses"][table]
        seen.append(len([one for one in answer if "v" in one]))

    faulty = FaultyClient(client, always(Fault.TORN), between=reader)
    shelf = Shelf(faulty, table)
    shelf.put_all(A, B, C)
    shelf.transact(*(put(item(pk, v="new")) for pk in "abc"))
    [some] = seen
    assert 0 < some < 3
    assert all(shelf.get(pk) == item(pk, v="new") for pk in "abc")


@pytest.mark.parametrize("method", sorted(SINGLE_WRITES | {"transact_get_items"}))
def test_who_touches_a_transaction_that_is_half_done_meets_a_conflict(
    client: Any, table: str, method: str
) -> None:
    tried: list[str] = []

    def rival(call: Call) -> None:
        asked: dict[str, dict[str, Any]] = {
            "put_item": {"TableName": table, "Item": A},
            "delete_item": {"TableName": table, "Key": A},
            "update_item": {"TableName": table, "Key": A},
            "transact_get_items": {"TransactItems": [{"Get": {"TableName": table, "Key": A}}]},
        }
        with pytest.raises(ClientError, match="TransactionConflict") as met:
            getattr(faulty, method)(**asked[method])
        tried.append(met.value.response["Error"]["Code"])

    faulty = FaultyClient(client, always(Fault.TORN), between=rival)
    Shelf(faulty, table).transact(put(item("a", v="1")), put(B))
    assert len(tried) == 1
    assert Shelf(faulty, table).get("a") == item("a", v="1")


def test_a_transaction_that_fails_is_never_seen(client: Any, table: str) -> None:
    faulty = FaultyClient(client, always(Fault.TORN), between=lambda call: pytest.fail("seen"))
    shelf = Shelf(faulty, table)
    shelf.put(A)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        shelf.transact(put(B), put(C), absent("a"))


def test_a_repeated_transaction_is_applied_anew_when_its_token_has_expired(
    client: Any, table: str
) -> None:
    now = [0.0]
    world = World(client, now=lambda: now[0])
    shelf = Shelf(FaultyClient(client, Plan(1, {}), world=world), table)
    for seconds, is_applied in ((0, True), (599, False), (601, True), (1200, False)):
        now[0] = seconds
        shelf.delete("a")
        shelf.transact(put(A), ClientRequestToken=table[-36:])
        assert (shelf.get("a") is not None) == is_applied


def test_the_same_seed_makes_the_same_trouble(client: Any, table: str) -> None:
    def trouble(seed: int) -> list[str]:
        rates = {Fault.FAIL: 0.2, Fault.THROTTLE: 0.2, Fault.TIMEOUT: 0.2, Fault.LATE: 0.2}
        shelf, met = Shelf(FaultyClient(client, Plan(seed, rates)), table), []
        for _ in range(30):
            try:
                met.append(str(shelf.put(A)["ResponseMetadata"]["HTTPStatusCode"]))
            except (ClientError, BotoCoreError) as error:
                met.append(str(error))
        return met

    assert trouble(3) == trouble(3)
    assert trouble(3) != trouble(4)


def test_a_healed_plan_leaves_the_client_alone(client: Any, table: str) -> None:
    plan = always(Fault.FAIL)
    plan.heal()
    shelf = Shelf(FaultyClient(client, plan), table)
    shelf.put(A)
    assert shelf.get("a") == A


def test_a_slow_request_lets_time_pass(client: Any, table: str) -> None:
    passed: list[float] = []
    faulty = FaultyClient(client, always(Fault.DELAY), pause=passed.append, pause_seconds=3)
    Shelf(faulty, table).put(A)
    assert passed == [3]
