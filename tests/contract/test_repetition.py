"""Repeating the write that settled a claim, also when the job went with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.core.fencing import Refused
from oncue.core.job import Claimed
from oncue.core.lifecycle import State, Verb
from oncue.ports.store import Store

from .desk import FLEETING, LEASE, Desk, settlement

UNKNOWN = Refused("unknown", None)
WRITES: list[tuple[Verb, dict[str, Any]]] = [
    (Verb.COMPLETE, {"result": None}),
    (Verb.COMPLETE, {"result": b"r"}),
    (Verb.FAIL, {"error": "boom"}),
    (Verb.DROP, {"error": "boom"}),
    (Verb.DROP, {}),
]


def taken(desk: Desk, number: int = 1, **fields: Any) -> list[Claimed]:
    """Jobs of a queue that keeps nothing, claimed together."""
    desk.set(FLEETING)
    desk.add_many(number, queue=FLEETING.name, **fields)
    return desk.claim(FLEETING)


@pytest.mark.parametrize(("verb", "content"), WRITES)
def test_the_write_with_which_a_job_went_may_be_repeated_for_a_lease(
    desk: Desk, twin: Store, verb: Verb, content: dict[str, Any]
) -> None:
    [claimed] = taken(desk)
    desk.set(replace(FLEETING, lease_seconds=30))
    write = settlement(claimed, verb, **content)
    first = desk.store.settle([write], desk.now)
    assert first.refused == {}
    assert desk.store.get(claimed.id) is None
    desk.clock.advance(29.999)
    for node in (desk.store, twin):
        assert node.settle([write], desk.now) == first
        assert node.get(claimed.id) is None
    desk.clock.advance(0.001)
    assert twin.settle([write], desk.now).refused == {0: UNKNOWN}


@pytest.mark.parametrize(("verb", "content"), WRITES)
@pytest.mark.parametrize(
    "other",
    [
        {"verb": Verb.COMPLETE, "result": b"other"},
        {"verb": Verb.FAIL, "error": "other"},
        {"verb": Verb.COMPLETE, "epoch": 2, "result": None},
        {"verb": Verb.FAIL, "id": "another", "error": "boom"},
    ],
)
def test_any_other_write_on_a_job_that_is_gone_is_refused(
    desk: Desk, verb: Verb, content: dict[str, Any], other: dict[str, Any]
) -> None:
    [claimed] = taken(desk)
    write = settlement(claimed, verb, **content)
    desk.store.settle([write], desk.now)
    assert desk.store.settle([write._replace(**other)], desk.now).refused == {0: UNKNOWN}


def test_every_claim_of_a_settled_batch_is_remembered(desk: Desk, twin: Store) -> None:
    claims = taken(desk, 100)
    results = [None if n % 2 else b"%d" % n for n in range(100)]
    for part in (slice(0, 50), slice(50, 100)):
        writes = [
            settlement(claimed, Verb.COMPLETE, result=result)
            for claimed, result in zip(claims[part], results[part], strict=True)
        ]
        assert desk.store.settle(writes, desk.now).refused == {}
    for result in (None, b"0"):
        writes = [settlement(c, Verb.COMPLETE, result=result) for c in (*claims, claims[0])]
        refused, _ = twin.settle(writes, desk.now)
        expected = [n for n, r in enumerate([*results, results[0]]) if r != result]
        assert sorted(refused) == expected


def test_a_call_that_names_a_job_twice_repeats_itself(desk: Desk) -> None:
    [claimed] = taken(desk)
    write = settlement(claimed, Verb.COMPLETE)
    other = write._replace(result=b"other")
    assert desk.store.settle([write, other, write], desk.now).refused == {1: UNKNOWN}


def test_two_claims_on_a_job_may_be_repeated_together_with_another_job(desk: Desk) -> None:
    [released] = taken(desk)
    writes = [settlement(released, Verb.RELEASE)]
    desk.store.settle(writes, desk.now)
    desk.add(queue=FLEETING.name)
    for claimed in desk.claim(FLEETING):
        writes.append(settlement(claimed, Verb.COMPLETE))
        desk.store.settle(writes[-1:], desk.now)
    for together in (writes, writes[::-1]):
        assert desk.store.settle(together, desk.now).refused == {}


def test_an_id_that_a_client_chose_makes_no_difference(desk: Desk) -> None:
    [claimed] = taken(desk, digest=b"d" * 32)
    for _ in range(2):
        assert desk.complete(claimed, b"r") is None
    assert desk.complete(claimed, b"other") == UNKNOWN


def test_a_failure_may_be_repeated_after_a_later_attempt_ended_the_job(desk: Desk) -> None:
    [claimed] = taken(desk)
    desk.retry(claimed, "boom")
    [again] = desk.claim(FLEETING)
    desk.complete(again)
    assert desk.store.get(claimed.id) is None
    assert desk.fail(claimed, "boom") is None
    assert desk.fail(claimed, "bang") == UNKNOWN


def test_a_release_that_ended_in_a_cancel_may_be_repeated(desk: Desk) -> None:
    claimed = desk.take()
    desk.request_cancel(claimed.id)
    assert desk.drop(claimed) is None  # what becomes of a release once the request is known
    assert desk.release(claimed) is None
    assert desk.state(claimed.id) is State.CANCELLED
    assert desk.codes(claimed.id) == ["failure"]


def test_what_was_taken_away_is_not_repeated(desk: Desk) -> None:
    [claimed] = taken(desk)
    desk.clock.advance(LEASE)
    [lapse] = desk.lapses(10)
    desk.reclaim(lapse, Verb.GIVE_UP)
    assert desk.complete(claimed) == UNKNOWN
    assert desk.fail(claimed) == UNKNOWN
