"""Every point between two requests is visited, and trouble does not invent or lose anything."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from oncue_bench.dynamodb.wrapped import WRITES
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.faulty import FaultyClient
from tests.stores.dynamodb.replica import Replica
from tests.stores.dynamodb.shelf import Shelf, item, put
from tests.stores.dynamodb.steps import every_point
from tests.stores.dynamodb.world import World

STORM = {
    Fault.FAIL: 0.05,
    Fault.THROTTLE: 0.05,
    Fault.TIMEOUT: 0.05,
    Fault.CONFLICT: 0.1,
    Fault.TORN: 0.2,
    Fault.STALE: 0.1,
}


def test_every_point_is_visited_once_and_then_none(client: Any, table: str) -> None:
    faulty = FaultyClient(client, Plan(1, {}))
    shelf, log = Shelf(faulty, table), []
    for interruption in every_point(lambda: log.append("rival")):
        faulty.before = interruption
        shelf.put(item("a"))
        log.append("put")
        shelf.get("a")
        log.append("get")
        shelf.delete("a")
        log.append("delete end")
    assert " ".join(log).split(" end ") == [
        "rival put get delete",
        "put rival get delete",
        "put get rival delete",
        "put get delete end",
    ]


def test_points_can_be_those_before_writes(client: Any, table: str) -> None:
    faulty = FaultyClient(client, Plan(1, {}))
    shelf, runs = Shelf(faulty, table), 0
    for interruption in every_point(lambda: None, WRITES):
        faulty.before = interruption
        shelf.put(item("a"))
        shelf.get("a")
        runs += 1
    assert runs == 2


def test_a_rival_at_every_point_shows_a_lost_update(client: Any, table: str) -> None:
    """Reading and then writing without a condition is wrong at just one point."""
    faulty = FaultyClient(client, Plan(1, {}))
    mine, rival, found = Shelf(faulty, table), Shelf(faulty.another(Plan(1, {})), table), []
    for interruption in every_point(lambda: rival.update("a", by_rival="x")):
        faulty.before = interruption
        rival.put(item("a"))
        now = mine.get("a")
        assert now
        mine.put({**now, "by_me": {"S": "x"}})
        found.append(sorted(rival.get("a") or ()))
    both = ["by_me", "by_rival", "pk", "sk"]
    assert found == [both, ["by_me", "pk", "sk"], ["by_me", "pk", "sk"]]


@pytest.mark.parametrize("seed", range(2))
def test_trouble_neither_loses_nor_invents_a_write(client: Any, table: str, seed: int) -> None:
    """Threads count up two items in one transaction, under a condition. What was acknowledged is
    there, what may have been done may be there, and nothing else."""
    replica = Replica(client, table)
    world = World(client, replica=replica)
    counts: dict[str, int] = {"done": 0, "unknown": 0}
    lock, begun = threading.Lock(), threading.Barrier(3)

    def work(number: int) -> None:
        plan = Plan(seed * 10 + number, STORM)
        shelf = Shelf(FaultyClient(client, plan, world=world, between=lambda call: None), table)
        begun.wait()
        for _ in range(15):
            outcome = count_up(shelf)
            with lock:
                counts[outcome] = counts.get(outcome, 0) + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    quietly = Shelf(client, table)
    ends = {value_of(quietly.get(pk)) for pk in ("a", "b")}
    replica.catch_up()
    lagged = {value_of(Shelf(client, replica.name).get(pk)) for pk in ("a", "b")}
    replica.drop()
    [end] = ends
    assert counts["done"] <= end <= counts["done"] + counts["unknown"]
    assert lagged == ends
    assert counts["done"] > 0


def count_up(shelf: Shelf) -> str:
    """One try: done, refused, or unknown."""
    try:
        seen = shelf.get("a")
        value, old = str(value_of(seen) + 1), {":old": (seen or {}).get("v", {"S": "0"})}
        same = "attribute_not_exists(v) OR v = :old"
        shelf.transact(
            put(item("a", v=value), ConditionExpression=same, ExpressionAttributeValues=old),
            put(item("b", v=value)),
        )
    except ClientError as error:
        return "unknown" if error.response["ResponseMetadata"]["HTTPStatusCode"] == 500 else "no"
    except BotoCoreError:
        return "unknown"
    return "done"


def value_of(found: Any) -> int:
    return int(found["v"]["S"]) if found else 0
