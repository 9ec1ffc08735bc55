"""Events that arrive at once, on one node and on two."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from oncue.core.errors import EventIdTaken
from oncue.core.event import Event
from oncue.core.publication import Published
from oncue.ports.store import Store

from .board import Board, cron, cron_at, file, file_at, table, table_at
from .desk import together

ROUNDS = 10


def publish(store: Store, board: Board, events: Sequence[Event]) -> list[Published]:
    return [answer for one in events for answer in store.publish([one], board.now, board.bounds)]


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_two_events_at_once_on_two_nodes_fire_one_job(
    board: Board, twin: Store, round_: int
) -> None:
    board.rule(file("/in/", 3600), cron())
    nodes, events = (board.store, twin), (file_at(0), cron_at(10))
    answers = together(2, lambda node: publish(nodes[node], board, [events[node]]))
    assert sum(len(answer.jobs) for mine in answers for answer in mine) == 1
    assert board.instants() == [10]


def test_an_id_that_two_nodes_give_to_two_events_at_once_belongs_to_one(
    board: Board, twin: Store
) -> None:
    """As the second id of an event that is known, and as the id of a new one."""
    board.rule(table("A", 60), cron())
    board.post(cron_at(0))
    nodes = (board.store, twin)
    for round_ in range(ROUNDS):
        name = f"round {round_}"
        events = cron_at(0, event_id=name), table_at(round_, "A", event_id=name)

        def send(node: int, events: tuple[Event, ...] = events) -> bool:
            with suppress(EventIdTaken):
                publish(nodes[node], board, [events[node]])
                return True
            return False

        stored = together(2, send)
        assert sorted(stored) == [False, True]
        with pytest.raises(EventIdTaken):
            board.post(events[stored.index(False)])
        assert board.post(events[stored.index(True)]).duplicate


def test_the_same_events_from_eight_threads_on_two_nodes_fire_once_each(
    board: Board, twin: Store
) -> None:
    names = [f"rule {n}" for n in range(5)]
    for name in names:
        board.rule(table("A", 60), table("B", 60), name=name)
    events = [*(table_at(n, "A") for n in range(10)), *(table_at(n, "B") for n in range(10))]

    def send(thread: int) -> list[Published]:
        mine = events[thread:] + events[:thread]
        return publish(twin if thread % 2 else board.store, board, mine)

    answers = [answer for mine in together(8, send) for answer in mine]
    fired = [(job.rule, job.instant) for answer in answers for job in answer.jobs]
    assert len(set(fired)) == len(fired)
    assert {rule for rule, _ in fired} == set(names)
    stored = [(job.rule, job.id) for job in board.jobs()]
    assert len(stored) == len(fired)
    for name in names:
        assert board.instants(name) == sorted(set(board.instants(name)))


@pytest.mark.needs("all-events")
def test_a_rule_deleted_while_events_arrive_leaves_nothing_half_done(
    board: Board, twin: Store
) -> None:
    board.rule(cron())

    def act(thread: int) -> None:
        if thread == 0:
            publish(board.store, board, [cron_at(n) for n in range(30)])
        else:
            for _ in range(10):
                twin.delete_rule("r")
                board.rule(cron())

    together(2, act)
    board.prune()
    for logged in board.log(limit=50):
        for one in logged.decisions:
            assert (one.job_id is not None) == (one.decision == "ACCEPTED")
            assert one.job_id is None or board.store.get(one.job_id) is not None
