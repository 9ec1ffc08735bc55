"""Partitions take so much and no more."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue_bench.dynamodb.capacity import CapacityClient, Limits
from tests.stores.dynamodb.shelf import INDEX, Shelf, item, put

SMALL = Limits(partitions=50, writes=5, reads=10, table_writes=40, table_reads=40)


class Scene:
    """A table with small limits, and a clock that stands."""

    def __init__(self, client: Any, table: str, limits: Limits) -> None:
        self.now = 0.0
        self.client = CapacityClient(client, lambda: self.now, limits)
        self.shelf = Shelf(self.client, table)
        self.quietly = Shelf(client, table)

    def throttled(self, *calls: Any) -> int:
        """How many of the calls were."""
        refused = 0
        for call in calls:
            try:
                call()
            except self.client.exceptions.ThrottlingException:
                refused += 1
        return refused

    def puts(self, count: int, pk: str = "hot", **texts: str) -> int:
        return self.throttled(
            *(lambda n=n: self.shelf.put(item(pk, str(n), **texts)) for n in range(count))
        )


@pytest.fixture
def scene(client: Any, table: str) -> Scene:
    return Scene(client, table, SMALL)


def test_a_partition_takes_so_many_writes_in_a_second(scene: Scene) -> None:
    assert scene.puts(7) == 2
    assert scene.client.throttles == {scene.shelf.table: 2}
    assert scene.client.peak_writes == 5


def test_it_takes_more_when_time_has_passed(scene: Scene) -> None:
    scene.puts(5)
    scene.now = 0.4
    assert scene.puts(3) == 1
    scene.now = 100
    assert scene.puts(7) == 2


def test_what_was_not_used_can_be_kept_for_a_while(client: Any, table: str) -> None:
    scene = Scene(client, table, SMALL._replace(burst_seconds=3))
    assert scene.puts(17) == 2


def test_other_partitions_have_room(scene: Scene) -> None:
    scene.puts(5)
    assert scene.puts(5, "another key") == 0


def test_keys_share_partitions(client: Any, table: str) -> None:
    scene = Scene(client, table, SMALL._replace(partitions=1))
    assert scene.puts(5) + scene.puts(5, "another key") == 5


def test_the_table_has_a_limit_of_its_own(client: Any, table: str) -> None:
    scene = Scene(client, table, SMALL._replace(table_writes=8))
    refused = sum(scene.puts(1, f"key {n}") for n in range(12))
    assert refused >= 4
    assert scene.client.peak_writes == 8


def test_a_partition_takes_so_many_reads_in_a_second(scene: Scene) -> None:
    reads = [lambda: scene.shelf.get("hot")] * 12
    assert scene.throttled(*reads) == 2
    queries = [lambda: scene.shelf.query("warm")] * 22
    assert scene.throttled(*queries) == 2


def test_what_a_query_really_read_is_owed(scene: Scene) -> None:
    scene.quietly.put(item("large", d="x" * 60_000))
    query = [lambda: scene.shelf.query("large", ConsistentRead=True)]
    assert scene.throttled(*query) == 0
    scene.now = 0.5
    assert scene.throttled(*query) == 1
    scene.now = 0.7
    assert scene.throttled(*query) == 0


def test_a_full_index_holds_up_the_table(scene: Scene) -> None:
    refused = sum(scene.puts(1, f"key {n}", lpk="one date", lsk="1") for n in range(8))
    assert refused == 3
    assert scene.client.throttles == {f"{scene.shelf.table}/{INDEX}": 3}
    assert scene.puts(1, "key 1 without an entry") == 0


def test_fifty_shards_of_an_index_are_not_throttled_where_one_is(client: Any, table: str) -> None:
    """The finding about 100,000 tasks on one date, in small."""

    def refused(shards: int) -> int:
        scene = Scene(client, table, SMALL._replace(partitions=5_000))
        for n in range(30):
            texts = {"lpk": f"{shards} {n % shards}", "lsk": str(n)}
            scene.puts(1, f"user {n}", **texts)
        return scene.client.throttles.total()

    assert refused(1) == 25
    assert refused(50) == 0


def test_a_batch_comes_back_in_part(scene: Scene) -> None:
    left = scene.shelf.put_all(*(item("hot", str(n)) for n in range(7)))["UnprocessedItems"]
    assert len(left[scene.shelf.table]) == 2
    with pytest.raises(ClientError, match="ThrottlingException"):
        scene.shelf.put_all(item("hot", "one more"))
    assert scene.client.throttles.total() == 3


def test_a_batch_of_reads_comes_back_in_part(client: Any, table: str) -> None:
    scene = Scene(client, table, SMALL._replace(partitions=1))
    answer = scene.shelf.get_all(*(f"key {n}" for n in range(12)))
    assert len(answer["UnprocessedKeys"][table]["Keys"]) == 2


def test_a_transaction_is_let_in_as_a_whole(scene: Scene) -> None:
    scene.puts(4)
    with pytest.raises(ClientError) as refused:
        scene.shelf.transact(put(item("hot", "x")), put(item("cold")))
    codes = [reason["Code"] for reason in refused.value.response["CancellationReasons"]]
    assert codes == ["ThrottlingError", "None"]
    assert scene.puts(1) == 0
    assert scene.quietly.get("cold") is None


def test_a_request_that_was_wrong_uses_nothing(scene: Scene) -> None:
    for _ in range(10):
        with pytest.raises(ClientError, match="ValidationException"):
            scene.client.update_item(
                TableName=scene.shelf.table, Key=item("hot"), UpdateExpression="nonsense"
            )
    assert scene.puts(5) == 0
