"""Creating jobs: what is stored, and what clashes."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.core.job import Job, NewJob
from oncue.core.lifecycle import State

from .desk import DELIVERY, Desk, at


def test_a_new_job_is_stored_as_it_was_given(desk: Desk) -> None:
    new = desk.new(
        "mine",
        due_in=30,
        payload=b'{"a": 1}',
        priority=7,
        owner="olga",
        key="k",
        expires_at=desk.now + 90_000,
        max_attempts=5,
        timeout_seconds=12.5,
        digest=b"d",
    )
    assert desk.insert([new]) == {}
    assert desk.store.get("mine") == Job(
        id="mine",
        queue="q",
        state=State.SCHEDULED,
        due_at=at(desk.now + 30_000),
        payload_json=b'{"a": 1}',
        priority=7,
        attempt=0,
        created_at=at(desk.now),
        updated_at=at(desk.now),
        owner="olga",
        key="k",
        expires_at=at(desk.now + 90_000),
        max_attempts=5,
        timeout_seconds=12.5,
        epoch=new.epoch,
    )
    assert new.epoch > desk.now


def test_nothing_is_stored_for_an_empty_batch(desk: Desk) -> None:
    assert desk.insert([]) == {}
    assert desk.listed() == []


def test_a_batch_of_many_jobs_is_stored_whole(desk: Desk) -> None:
    added = desk.add_many(500)
    assert desk.listed() == added


def test_an_id_with_the_same_digest_is_existing(desk: Desk) -> None:
    desk.add("mine", digest=b"d", payload=b"first")
    clash = desk.insert([desk.new("mine", digest=b"d", payload=b"second")])[0]
    assert (clash.kind, clash.job) == ("existing", desk.job("mine"))
    assert desk.job("mine").payload_json == b"first"


def test_an_id_with_the_digest_of_an_earlier_version_is_existing(desk: Desk) -> None:
    desk.add("mine", digest=b"f")
    clash = desk.insert([desk.new("mine", digest=b"d", former_digest=b"f")])[0]
    assert (clash.kind, clash.job.id) == ("existing", "mine")


def test_an_id_with_another_digest_is_taken(desk: Desk) -> None:
    desk.add("mine", digest=b"d")
    clash = desk.insert([desk.new("mine", digest=b"e", payload=b"second")])[0]
    assert (clash.kind, clash.job) == ("id taken", desk.job("mine"))
    assert desk.job("mine").payload_json == b"{}"


def test_a_minted_id_that_comes_again_tells_of_a_repeated_call(desk: Desk) -> None:
    batch = [desk.new("a"), desk.new("b")]
    assert desk.insert(batch[:1]) == {}
    clashes = desk.insert(batch)
    assert {position: clash.kind for position, clash in clashes.items()} == {0: "existing"}
    assert desk.listed() == ["a", "b"]


def test_an_id_with_a_digest_on_one_side_only_is_taken(desk: Desk) -> None:
    for number, (first, second) in enumerate([(b"d", None), (None, b"d")]):
        job_id = f"mine-{number}"
        desk.add(job_id, digest=first)
        clash = desk.insert([desk.new(job_id, digest=second)])[0]
        assert clash.kind == "id taken", (first, second)


@pytest.mark.parametrize("known", [0, 70, 149], ids=["first", "middle", "last"])
def test_of_a_call_that_is_repeated_in_part_the_rest_is_stored(desk: Desk, known: int) -> None:
    """The jobs are due in another order than they are given in."""
    jobs = [desk.new(due_in=60 + 37 * place % 150) for place in range(150)]
    assert desk.insert(jobs[known : known + 1]) == {}
    clashes = desk.insert(jobs)
    assert {place: clash.kind for place, clash in clashes.items()} == {known: "existing"}
    assert clashes[known].job.id == jobs[known].id
    by_due = sorted(jobs, key=lambda job: (job.due_at, job.id))
    assert desk.listed() == [job.id for job in by_due]


def test_a_clash_of_ids_does_not_hinder_the_rest_of_the_batch(desk: Desk) -> None:
    desk.add("b", digest=b"d")
    batch = [desk.new("a"), desk.new("b"), desk.new("c")]
    clashes = desk.insert(batch)
    assert {position: clash.kind for position, clash in clashes.items()} == {1: "id taken"}
    assert desk.listed() == ["a", "b", "c"]


def test_ids_are_compared_across_queues_and_after_the_end(desk: Desk) -> None:
    claimed = desk.take("mine", digest=b"d")
    desk.complete(claimed)
    clash = desk.insert([desk.new("mine", queue="other", digest=b"d")])[0]
    assert (clash.kind, clash.job.state) == ("existing", State.SUCCEEDED)


def test_a_key_that_is_held_answers_with_the_holder(desk: Desk) -> None:
    desk.add("first", key="k")
    clash = desk.insert([desk.new("second", key="k")])[0]
    assert (clash.kind, clash.job) == ("existing", desk.job("first"))
    assert desk.store.get("second") is None


def test_a_key_is_held_in_every_unfinished_state_and_free_afterwards(desk: Desk) -> None:
    claimed = desk.take("first", key="k")
    assert desk.insert([desk.new("second", key="k")])[0].kind == "existing"
    desk.touch(claimed)
    assert desk.insert([desk.new("second", key="k")])[0].kind == "existing"
    desk.complete(claimed)
    assert desk.insert([desk.new("second", key="k")]) == {}


def test_the_same_key_in_two_queues_is_no_clash(desk: Desk) -> None:
    desk.add(key="k", queue="q")
    desk.add(key="k", queue="other")


def test_replace_gives_the_holder_the_new_time_and_payload_and_nothing_else(desk: Desk) -> None:
    desk.add("first", key="k", priority=1, owner="olga", due_in=5)
    desk.clock.advance(1)
    new = desk.new(
        "second", key="k", replace=True, due_in=60, payload=b"new", priority=9, owner="nobody"
    )
    clash = desk.insert([new])[0]
    job = desk.job("first")
    assert (clash.kind, clash.job) == ("replaced", job)
    assert (job.due_at, job.payload_json) == (at(desk.now + 60_000), b"new")
    assert (job.priority, job.owner) == (1, "olga")
    assert job.updated_at == at(desk.now)
    assert desk.store.get("second") is None


def test_replace_is_refused_once_the_holder_is_taken(desk: Desk) -> None:
    claimed = desk.take("first", key="k", payload=b"old")
    for _ in range(2):
        clash = desk.insert([desk.new("second", key="k", replace=True)])[0]
        assert (clash.kind, clash.job.id) == ("key taken", "first")
        desk.touch(claimed)
    assert desk.job("first").payload_json == b"old"


def test_replace_is_refused_inside_an_open_range(desk: Desk) -> None:
    desk.add("first", queue="d", key="k", payload=b"old")
    desk.claim_range(DELIVERY)
    new = desk.new("second", queue="d", key="k", replace=True, payload=b"new")
    clash = desk.insert([new])[0]
    assert (clash.kind, clash.job.state) == ("key taken", State.DISPATCHED)
    assert desk.job("first").payload_json == b"old"


def test_jobs_of_one_batch_clash_with_each_other_in_order(desk: Desk) -> None:
    batch = [
        desk.new("a", digest=b"d"),
        desk.new("a", digest=b"d"),
        desk.new("a", digest=b"e"),
        desk.new("b", key="k", payload=b"1"),
        desk.new("c", key="k", payload=b"2"),
        desk.new("d", key="k", payload=b"3", replace=True),
    ]
    clashes = desk.insert(batch)
    assert {position: (clash.kind, clash.job.id) for position, clash in clashes.items()} == {
        1: ("existing", "a"),
        2: ("id taken", "a"),
        4: ("existing", "b"),
        5: ("replaced", "b"),
    }
    assert desk.listed() == ["a", "b"]
    assert desk.job("b").payload_json == b"3"


def test_many_of_one_call_are_replaced_in_order(desk: Desk) -> None:
    taken = desk.take("taken", key="taken")
    for key in ("a", "b", "put-off"):
        desk.add(key, key=key, due_in=30, queue="d" if key == "put-off" else "q")
    desk.clock.advance(30)
    desk.settle_range(desk.claim_range(DELIVERY), busy={"put-off": "busy"})
    desk.add("named", digest=b"d")

    def new(key: str, body: bytes, job_id: str | None = None, **fields: Any) -> NewJob:
        return desk.new(job_id or f"new-{body.decode()}", key=key, payload=body, **fields)

    batch = [
        new("a", b"1", replace=True),
        new("taken", b"2", replace=True),
        new("b", b"3", replace=True, due_in=5),
        new("put-off", b"4", replace=True, queue="d"),
        new("a", b"5", replace=True, due_in=9),
        new("b", b"6"),
        new("free", b"7", replace=True),
        new("free", b"8", replace=True),
        new("a", b"9", "named", digest=b"d", replace=True),
    ]
    clashes = desk.insert(batch)
    assert {position: (clash.kind, clash.job.id) for position, clash in clashes.items()} == {
        0: ("replaced", "a"),
        1: ("key taken", "taken"),
        2: ("replaced", "b"),
        3: ("replaced", "put-off"),
        4: ("replaced", "a"),
        5: ("existing", "b"),
        7: ("replaced", "new-7"),
        8: ("existing", "named"),
    }
    bodies = {name: desk.job(name).payload_json for name in ("a", "b", "put-off", "new-7")}
    assert bodies == {"a": b"5", "b": b"3", "put-off": b"4", "new-7": b"8"}
    assert [desk.job(name).due_at for name in ("a", "b")] == [
        at(desk.now + 9_000),
        at(desk.now + 5_000),
    ]
    put_off = desk.job("put-off")
    assert (put_off.not_before, put_off.due_at) == (None, at(desk.now))
    assert [clashes[n].job.payload_json for n in (0, 4)] == [b"1", b"5"]
    assert desk.complete(taken) is None


def test_an_id_goes_before_a_key(desk: Desk) -> None:
    desk.add("first", key="k")
    desk.add("second", digest=b"d")
    clash = desk.insert([desk.new("second", key="k", digest=b"d")])[0]
    assert (clash.kind, clash.job.id) == ("existing", "second")
