"""Rules and events in DynamoDB: what they cost, what a crash leaves, and what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import EventIdTaken
from oncue.core.event import Event
from oncue.core.publication import Published
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed_event import id_item
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import Item
from oncue_bench.dynamodb.ledger import Bill, CountingClient
from oncue_bench.dynamodb.wrapped import PARTIQL, WRITES, Call, WrappedClient
from tests.contract.board import RULE, Board, cron, cron_at, file, file_at, table, table_at
from tests.contract.desk import together
from tests.stores.dynamo import OwnTable, client, new_table

DAY = 86_400


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[DynamoStore]:
    store = OwnTable(new_table(), clock)
    yield store
    store.close()


@pytest.fixture
def board(store: DynamoStore, clock: FakeClock) -> Board:
    return Board(store, clock)


# Units


EVENT = 3  # by fact, by id, and its place in the order of arrival


class Counted:
    """A board whose posts are counted."""

    def __init__(self, store: DynamoStore, clock: FakeClock) -> None:
        self._client = CountingClient(client())
        self._board = Board(
            DynamoStore(Table(store.table.name, lambda: self._client), clock), clock
        )

    def post(self, event: Event) -> Bill:
        with self._client.counted() as bill:
            self._board.post(event)
        return bill


@pytest.fixture
def counted(store: DynamoStore, clock: FakeClock) -> Counted:
    return Counted(store, clock)


def test_the_units_of_each_decision(board: Board, counted: Counted) -> None:
    board.rule(file("/in/", 3600), cron())
    board.post_all(file_at(0), cron_at(1))  # the queue is there, and the rule is to be pruned
    assert counted.post(table_at(0, "nobody")).writes == EVENT
    assert counted.post(file_at(10)).writes == EVENT + 6
    assert counted.post(cron_at(20)).writes == EVENT + 10, "it fires"
    assert counted.post(cron_at(20)).writes == 1, "it is a duplicate"
    assert counted.post(cron_at(15)).writes == EVENT + 4, "it is stale"
    board.rule(table("nobody", 3600), cron(), name="late")
    board.post(table_at(1, "nobody"))  # this rule is to be pruned as well
    bill = counted.post(table_at(0, "nobody"))
    assert bill.writes == EVENT + 6 + EVENT, "it is kept before and after the decision"


def test_a_decision_costs_the_same_however_many_events_were_accepted(
    board: Board, counted: Counted
) -> None:
    board.rule(table("A", 5), table("B", 0))
    board.post_all(table_at(0, "A"), table_at(1, "A"))
    counted.post(table_at(0.2, "B"))  # now it knows the queue
    few = counted.post(table_at(0.5, "B"))
    many = [table_at(100 + at, "A") for at in range(400)]
    board.store.publish(many, board.now, board.bounds)
    lots = counted.post(table_at(100.5, "B"))
    assert (lots.writes, lots.reads) == (few.writes, few.reads)


# Crashes


class Crash(BaseException):
    """The process is gone."""


class MortalClient(WrappedClient):
    """Dies before its n-th write."""

    def __init__(self, of: Any, number: int) -> None:
        super().__init__(of)
        self.left = number

    def during(self, call: Call) -> Any:
        if call.method in WRITES | PARTIQL:
            self.left -= 1
            if self.left <= 0:
                raise Crash
        return self.send(call)


def crashes(store: DynamoStore, act: Callable[[DynamoStore], object], number: int) -> bool:
    """Whether a node died at its n-th write while it did something."""
    mortal = MortalClient(client(), number)
    node = DynamoStore(Table(store.table.name, lambda: mortal), store.clock)
    try:
        act(node)
    except Crash:
        return True
    return False


def test_wherever_a_publisher_dies_publishing_again_completes_it(
    board: Board, store: DynamoStore
) -> None:
    for name in ("a", "b"):
        board.rule(table("T", 3600), cron(), name=name)
    board.post(table_at(0, "T"))
    for number in range(1, 20):
        event = cron_at(number, event_id=f"event {number}")
        publish = _publishing(board, event)
        died = crashes(store, publish, number)
        [told] = publish(store)
        assert [one.rule for one in told.decisions] == ["a", "b"]
        fired = {one.job_id for one in told.decisions}
        assert None not in fired
        assert len(fired) == 2
        assert all(store.get(job_id) is not None for job_id in fired if job_id)
        [again] = publish(store)
        assert again.duplicate
        assert {one.job_id for one in again.decisions} == fired
        assert len(board.jobs()) == 2 * number
        if not died:
            return
    raise AssertionError("it was to get through in the end")


def _publishing(board: Board, event: Event) -> Callable[[DynamoStore], list[Published]]:
    return lambda node: list(node.publish([event], board.now, board.bounds))


def test_wherever_a_publisher_of_a_second_id_dies_the_id_is_free_or_belongs_to_the_event(
    board: Board, store: DynamoStore
) -> None:
    board.rule(cron(3600))
    board.post(cron_at(0, event_id="first"))
    for number in range(1, 20):
        name = f"second {number}"
        died = crashes(store, _publishing(board, cron_at(0, event_id=name)), number)
        assert board.post(cron_at(0, event_id=name)).duplicate
        with pytest.raises(EventIdTaken):
            board.post(cron_at(1, event_id=name))
        if not died:
            break
    store.delete_rule(RULE)
    board.clock.advance(8 * DAY)
    board.prune()
    assert not died
    assert left(store) == []


def test_wherever_a_change_of_a_rule_dies_the_rule_is_whole(
    board: Board, store: DynamoStore
) -> None:
    for number in range(1, 20):
        board.rule(table("A", 60), cron())
        board.post(table_at(1000 * number, "A"))

        def change(node: DynamoStore) -> None:
            Board(node, board.clock).rule(table("B", 60), cron())

        died = crashes(store, change, number)
        [rule] = store.rules(None, 10)
        resources = [one.resource for one in rule.dependencies]
        assert resources in (["A", "cron"], ["B", "cron"])
        if resources[0] == "B":
            board.post(table_at(1000 * number, "B"))
        assert len(board.post(cron_at(1000 * number + 1)).jobs) == 1
        if not died:
            return
    raise AssertionError("it was to get through in the end")


def test_wherever_pruning_dies_the_next_one_completes_it(board: Board, store: DynamoStore) -> None:
    for number in range(1, 20):
        board.rule(cron())
        board.post(cron_at(number))
        store.delete_rule(RULE)
        board.clock.advance(8 * DAY)
        died = crashes(store, lambda node: Board(node, board.clock).prune(), number)
        board.prune()
        assert left(store) == []
        if not died:
            return
    raise AssertionError("it was to get through in the end")


def left(store: DynamoStore) -> list[str]:
    """The keys of what there is of rules and events, without what has its time. A crash may leave
    the id of an event that is forgotten, or its place in the order of arrival: they say nothing
    then."""
    items, after = store.table.scan(None, 1000)
    assert after is None
    kept = [item["pk"] for item in items if "ttl" not in item]
    kinds = [pk for pk in kept if pk[:2] in ("u#", "x#", "e#", "f#", "g#", "G")]
    idle = [pk for pk in kinds if pk[:2] in ("f#", "g#")]
    assert len(idle) <= 2 * 20
    return [pk for pk in kinds if pk not in idle]


# Ids


def test_an_id_that_was_reserved_by_a_call_that_died_is_free_for_the_same_event(
    board: Board, store: DynamoStore
) -> None:
    mine, other = cron_at(1, event_id="mine"), cron_at(2, event_id="mine")
    store.table.put(id_item(mine.id, mine.fact, board.now, "dead"))
    with pytest.raises(EventIdTaken):
        board.post(other)
    assert not board.post(mine).duplicate
    with pytest.raises(EventIdTaken):
        board.post(other)


def test_an_id_that_was_reserved_in_vain_is_free_for_others_after_a_minute(
    board: Board, store: DynamoStore
) -> None:
    mine = cron_at(1, event_id="mine")
    store.table.put(id_item(mine.id, mine.fact, board.now, "dead"))
    board.clock.advance(60)
    assert not board.post(cron_at(2, event_id="mine")).duplicate
    with pytest.raises(EventIdTaken):
        board.post(cron_at(1, event_id="mine"))


def test_of_two_events_with_one_id_at_once_one_is_stored(board: Board, store: DynamoStore) -> None:
    twin = DynamoStore(Table(store.table.name, client), store.clock)
    first = DynamoStore(Table(store.table.name, client), store.clock)
    for round_ in range(10):
        name = f"round {round_}"
        events = [cron_at(10 * round_ + thread, event_id=name) for thread in (0, 1)]
        extra = [table_at(10 * round_ + thread, "x") for thread in (0, 1)]

        def publish(thread: int, events: list[Event] = events, extra: list[Event] = extra) -> bool:
            node = (first, twin)[thread]
            with suppress(EventIdTaken):
                node.publish([extra[thread], events[thread]], board.now, board.bounds)
                return True
            return False

        stored = together(2, publish)
        assert sorted(stored) == [False, True]
        won = stored.index(True)
        for thread in (0, 1):
            there = [keys.event(one[thread].fact) for one in (events, extra)]
            assert len(store.table.read(there)) == (2 if thread == won else 0)


def test_a_refused_call_gives_back_the_ids_that_it_had_reserved(board: Board) -> None:
    board.post(cron_at(1, event_id="taken"))
    both = [cron_at(2, event_id="free"), cron_at(3, event_id="taken")]
    with pytest.raises(EventIdTaken):
        board.store.publish(both, board.now, board.bounds)
    assert not board.post(cron_at(4, event_id="free")).duplicate


# What is forgotten


def item_of(store: DynamoStore, event: Event) -> Item | None:
    return store.table.get(keys.event(event.fact))


def test_an_event_is_forgotten_by_the_table_unless_a_rule_decides_on_it(
    board: Board, store: DynamoStore
) -> None:
    board.post(cron_at(1))
    item = item_of(store, cron_at(1))
    assert item is not None
    assert item["ttl"] * 1000 == board.now + 7 * DAY * 1000
    board.rule(cron())
    assert not board.post(cron_at(1)).duplicate
    item = item_of(store, cron_at(1))
    assert item is not None
    assert "ttl" not in item
    store.delete_rule(RULE)
    board.prune()
    item = item_of(store, cron_at(1))
    assert item is not None
    assert item["ttl"] * 1000 == board.now + 7 * DAY * 1000
    board.clock.advance(7 * DAY + 1)
    assert not board.post(cron_at(1)).duplicate, "the table is late, the store is not"


def test_an_event_stays_while_a_rule_has_a_decision_on_it_though_it_waits_for_other_things(
    board: Board, store: DynamoStore
) -> None:
    board.rule(cron(), name="goes")
    board.rule(cron(), name="stays")
    board.post(cron_at(1))
    board.rule(table("T", 0), name="stays")
    board.clock.advance(8 * DAY)
    store.delete_rule("goes")
    board.prune()
    assert item_of(store, cron_at(1)) is not None
    assert [one.event for one in board.log(rule="stays")] == [cron_at(1)]
    store.delete_rule("stays")
    board.prune()
    assert left(store) == []


def test_pruning_removes_a_bounded_number_of_items_and_goes_on_the_next_time(
    board: Board, store: DynamoStore
) -> None:
    board.rule(cron())
    board.post_all(*(cron_at(at) for at in range(10)))
    store.delete_rule(RULE)
    board.clock.advance(8 * DAY)
    assert store._prune_events(board.now, board.bounds, 4)
    partition = list(store.table.query(keys.rule(RULE).pk))
    assert len(partition) == 16 + 1, "the version of the rule"
    while store._prune_events(board.now, board.bounds, 4):
        continue
    assert left(store) == []


def test_pruning_goes_on_until_it_has_looked_at_every_rule(
    board: Board, store: DynamoStore
) -> None:
    """Those that are looked at first may be busy whenever somebody prunes."""
    names = [f"rule {n}" for n in range(400) if keys.look_shard(f"rule {n}") == 0][:20]
    for name in names:
        board.rule(cron(), name=name)
    board.post(cron_at(1))
    board.prune()
    assert list(store.table.look(keys.touched(0))) == []


def test_names_and_resources_may_contain_anything(board: Board) -> None:
    hostile = "a#b'\"; é 你 \U0001f600"
    board.rule(table(hostile, 60), cron(), name=hostile)
    board.rule(table("a", 60), cron(), name="a")
    board.post(table_at(0, hostile))
    [fired] = board.post(cron_at(1)).jobs
    assert fired.rule == hostile
    assert [rule.name for rule in board.store.rules(None, 10)] == ["a", hostile]
    assert [one.event for one in board.log(rule=hostile)] == [cron_at(1), table_at(0, hostile)]
    longest = "é" * 512
    board.rule(table(longest, 0), name="é" * 200)
    assert len(board.post(table_at(5, longest)).jobs) == 1
