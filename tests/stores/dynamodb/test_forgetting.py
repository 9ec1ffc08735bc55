"""An event comes again, for another rule, just when the last rule that knew it is pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from oncue.core.event import Event
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.store import DynamoStore
from oncue_bench.dynamodb.wrapped import READS, WRITES
from tests.contract.board import Board, table, table_at
from tests.stores.dynamodb.rig import Rig
from tests.stores.dynamodb.steps import every_point

WEEK = 7 * 86_400


class Scene:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.calm = Board(rig.calm.store, rig.clock)
        self.node = rig.node()
        self.board = Board(self.node.store, rig.clock)
        self._numbers = count(1)
        self.event = table_at(0, "T")

    def begin(self, age_seconds: float) -> None:
        """A rule has gone that knew the event, and another one waits for it."""
        number = next(self._numbers)
        self.event = table_at(0, f"T{number}")
        self.calm.rule(table(f"T{number}", 60), name=f"gone {number}")
        self.calm.post(self.event)
        self.rig.clock.advance(age_seconds)
        self.calm.store.delete_rule(f"gone {number}")
        self.calm.rule(table(f"T{number}", 60), name=f"waits {number}")

    def check(self) -> None:
        """The event is known and kept, with its id and its place in the order of arrival."""
        table = self.rig.calm.store.table
        item = table.get(keys.event(self.event.fact))
        assert item is not None
        rest = table.read([keys.event_id(self.event.id), keys.arrived(item["arrival"])])
        assert len(rest) == 2
        assert not any("ttl" in one for one in [item, *rest.values()])
        told = self.calm.post(self.event)
        assert told.duplicate
        assert [one.job_id is not None for one in told.decisions] == [True]


@pytest.fixture
def scene(client: Any) -> Iterator[Scene]:
    rig = Rig(client)
    yield Scene(rig)
    rig.close()


Act = Callable[[Board, Event], object]


def post(board: Board, event: Event) -> object:
    return board.post(event)


def prune(board: Board, event: Event) -> object:
    assert isinstance(board.store, DynamoStore)
    return board.store._prune_events(board.now, board.bounds, 1000)


@pytest.mark.parametrize("age", [2 * WEEK, 60], ids=["old", "young"])
@pytest.mark.parametrize(
    ("first", "second", "methods"),
    [(post, prune, READS | WRITES), (prune, post, WRITES)],
    ids=["pruned meanwhile", "posted meanwhile"],
)
def test_an_event_on_which_a_rule_decides_is_kept(
    scene: Scene, age: float, first: Act, second: Act, methods: frozenset[str]
) -> None:
    for interruption in every_point(lambda: second(scene.calm, scene.event), methods):
        scene.begin(age)
        scene.node.client.before = interruption
        first(scene.board, scene.event)
        scene.node.client.before = None
        if not interruption.happened:
            second(scene.calm, scene.event)
        scene.check()
