"""How often the hot paths wait for the server: each journey is part of the lateness of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncue.core.event import Bounds, Event, EventType
from oncue.core.job import NewJob
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue
from oncue.core.rule import read_rule
from oncue.core.stamp import of_moment
from oncue.stores.postgresql.tx import Asked, PgTx
from oncue.stores.relational import publication
from tests.contract.desk import DELIVERY, FLEETING, Desk, Q, settlement
from tests.stores.postgresql.faults import store_of
from tests.stores.postgresql.journeys import counted

NODES = 20
JOBS = 300
LOOK = 5  # statements: settings, ranges, lines, what returns, what has expired
Prepare = Callable[[Desk], Any]


def nothing(desk: Desk) -> None:
    """Nothing is due."""


def a_range(desk: Desk) -> Any:
    desk.add(queue=DELIVERY.name)
    return desk.claim_range()


def a_claim(desk: Desk) -> Any:
    return desk.take()


CASES: dict[str, tuple[int, Prepare, Callable[[Desk, Any], object]]] = {
    "a range claim of one job": (
        *(2, lambda desk: desk.add(queue=DELIVERY.name)),
        lambda desk, _: desk.claim_range().jobs,
    ),
    "a range claim of nothing": (1, nothing, lambda desk, _: not desk.claim_range().jobs),
    "the settlement of a range": (2, a_range, lambda desk, claim: desk.settle_range(claim)),
    "a claim of one job": (2, lambda desk: desk.add(), lambda desk, _: desk.claim(Q, limit=1)),
    "a claim of nothing": (2, nothing, lambda desk, _: not desk.claim(Q)),
    "the completion of a job": (
        *(2, a_claim),
        lambda desk, claim: desk.complete(claim) is None,
    ),
    "a look when something is due": (
        *(1, lambda desk: desk.add(due_in=60)),
        lambda desk, _: desk.store.next_due(["q"]),
    ),
}


def test_the_connection_that_was_used_last_is_used_next(desk: Desk) -> None:
    """Its process of the server is awake, and others are not needed."""
    db = store_of(desk).db
    with db.connection() as first, db.connection() as second:
        assert first is not second
    used = []
    for _ in range(3):
        with db.connection() as connection:
            used.append(connection)
    assert used == 3 * [first]


@pytest.mark.parametrize("case", CASES)
def test_a_calm_call_makes_few_journeys(desk: Desk, case: str) -> None:
    journeys, prepare, call = CASES[case]
    for queue in (Q, DELIVERY):
        desk.set(queue)
    given = prepare(desk)
    with counted(store_of(desk)) as sent:
        assert call(desk, given)
    assert sent.count == journeys


@pytest.mark.parametrize(("by", "journeys"), [("id", 2), ("key", 3)])
def test_a_call_that_is_repeated_asks_as_often_however_many_jobs_it_has(
    desk: Desk, by: str, journeys: int
) -> None:
    def new(attempt: str) -> list[NewJob]:
        if by == "id":
            return [desk.new(f"chosen-{n}", digest=b"d") for n in range(JOBS)]
        return [desk.new(f"{attempt}-{n}", key=f"k{n}") for n in range(JOBS)]

    jobs = new("first")
    assert desk.insert(jobs) == {}
    with counted(store_of(desk)) as sent:
        clashes = desk.insert(new("second"))
    assert [(clash.kind, clash.job.id) for clash in clashes.values()] == [
        ("existing", job.id) for job in jobs
    ]
    assert sent.count == journeys


@pytest.mark.parametrize("queue", [Q, FLEETING], ids=["kept", "not kept"])
def test_completions_ask_as_often_however_many_they_are(desk: Desk, queue: Queue) -> None:
    desk.set(queue)

    def statements_for(number: int) -> int:
        desk.add_many(number, queue=queue.name)
        writes = [settlement(one, Verb.COMPLETE) for one in desk.claim(queue)]
        assert len(writes) == number
        with counted(store_of(desk)) as sent:
            assert not desk.store.settle(writes, desk.now).refused
        return sent.statements

    statements_for(1)  # which prepares them
    assert statements_for(2) == statements_for(50)


def test_many_are_replaced_by_as_many_journeys_as_few(desk: Desk) -> None:
    def journeys(number: int, payload: bytes) -> int:
        jobs = [
            desk.new(f"{payload!r}-{n}", key=f"k{n}", replace=True, payload=payload, due_in=60)
            for n in range(number)
        ]
        with counted(store_of(desk)) as sent:
            clashes = desk.insert(jobs)
        assert {clash.kind for clash in clashes.values()} == {"replaced"}
        assert [clash.job.payload for clash in clashes.values()] == number * [int(payload)]
        return sent.count

    desk.insert([desk.new(f"first-{n}", key=f"k{n}", due_in=30) for n in range(JOBS)])
    assert journeys(2, b"1") == journeys(JOBS, b"2")
    assert {desk.job(f"first-{n}").payload for n in range(JOBS)} == {2}


def test_jobs_of_one_call_are_kept_and_replaced_in_their_order(desk: Desk) -> None:
    """What is looked for together does not show a job as it was before it was replaced."""
    desk.add("there", key="k", due_in=60)
    by_key: dict[str, Any] = {"key": "k", "due_in": 60}
    jobs = [desk.new("a", **by_key), desk.new("b", payload=b"2", replace=True, **by_key)]
    clashes = desk.insert([*jobs, desk.new("c", **by_key)])
    assert [clash.kind for clash in clashes.values()] == ["existing", "replaced", "existing"]
    assert [clash.job.payload for clash in clashes.values()][1:] == [2, 2]


@pytest.mark.parametrize(("events", "looks"), [(1, [40]), (3, [120, 80, 40])])
def test_rules_that_an_event_matches_are_not_looked_for_again_and_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, events: int, looks: list[int]
) -> None:
    """However many transactions decide on it: here ten rules each."""
    monkeypatch.setattr(publication, "DECISIONS_AT_ONCE", 10)
    for n in range(40):
        needs = [{"type": "TABLE", "resourceId": name, "lifeDuration": 0} for name in ("T", f"{n}")]
        desk.store.put_rule(read_rule(f"rule-{n:02}", needs), desk.now)
    found: list[int] = []
    together = PgTx.together

    def noted(tx: PgTx, *asked: Asked) -> list[list[Any]]:
        answers = together(tx, *asked)
        both = zip(asked, answers, strict=True)
        found.extend(len(rows) for (_, name, _), rows in both if name == "candidates")
        return answers

    monkeypatch.setattr(PgTx, "together", noted)
    stamp = of_moment(desk.now)
    new = [Event(f"e{n}", EventType.TABLE, "T", stamp - n) for n in range(events)]
    published = desk.store.publish(new, desk.now, Bounds())
    assert [len(one.decisions) for one in published] == events * [40]
    assert found == looks


@pytest.mark.parametrize("delivered", [False, True])
def test_of_many_nodes_one_takes_a_due_job_and_the_others_only_look(
    desk: Desk, delivered: bool
) -> None:
    """One journey each, in which they begin no transaction and hold no lock: whether the job is
    being delivered or gone."""
    desk.set(DELIVERY)
    desk.add(queue=DELIVERY.name)
    claim = desk.claim_range(dispatcher="the first")
    assert claim.jobs
    if delivered:
        assert desk.settle_range(claim)
    with counted(store_of(desk)) as sent:
        for node in range(NODES):
            assert not desk.claim_range(dispatcher=f"node {node}").jobs
    assert (sent.count, sent.statements) == (NODES, NODES * LOOK)
