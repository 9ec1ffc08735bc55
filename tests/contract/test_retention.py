"""What is kept after the end, for how long, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncue.core.fencing import Refused
from oncue.core.job import History
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue
from oncue.core.retention import Pruned, Retention
from tests.contract.pruning import forget, prune

from .desk import FLEETING, Desk, Q, at, settlement
from .test_fencing import WRITES

DAY = 86_400


def finished(desk: Desk, number: int) -> list[str]:
    """Jobs that finished a second after one another, the last one now."""
    done = []
    for _ in range(number):
        desk.clock.advance(1)
        claimed = desk.take()
        desk.put_operation(claimed, "step")
        desk.complete(claimed)
        done.append(claimed.id)
    return done


def test_pruning_removes_what_finished_before_the_moment_with_all_that_belongs_to_it(
    desk: Desk,
) -> None:
    done = finished(desk, 4)
    assert prune(desk.store, "q", desk.now - 1_000, desk.now, 10) == 2
    assert [desk.store.get(job_id) is None for job_id in done] == [True, True, False, False]
    assert desk.store.history(done[0]) == History()
    assert desk.listed() == done[2:]
    assert desk.listed(state=State.SUCCEEDED) == done[2:]
    assert prune(desk.store, "q", desk.now - 1_000, desk.now, 10) == 0


def test_pruning_takes_the_oldest_first_and_not_more_than_asked_for(desk: Desk) -> None:
    done = finished(desk, 5)
    desk.clock.advance(1)
    assert prune(desk.store, "q", desk.now, desk.now, 2) == 2
    assert desk.listed() == done[2:]
    assert prune(desk.store, "q", desk.now, desk.now, 2) == 2
    assert prune(desk.store, "q", desk.now, desk.now, 2) == 1


def test_pruning_ends_with_every_final_state_and_never_touches_unfinished_work(desk: Desk) -> None:
    desk.add_many(6)
    claims = desk.claim(limit=5)
    desk.complete(claims[0])
    desk.fail(claims[1])
    desk.drop(claims[2])
    desk.touch(claims[3])
    waiting = desk.add(due_in=-5)
    desk.clock.advance(2 * DAY)
    assert prune(desk.store, "q", desk.now, desk.now, 100) == 3
    left = desk.listed()
    assert len(left) == 4
    assert {claims[3].id, claims[4].id, waiting} <= set(left)


def test_pruning_is_of_one_queue(desk: Desk) -> None:
    claimed = desk.take(queue=Queue("f"))
    desk.complete(claimed)
    desk.clock.advance(1)
    assert prune(desk.store, "q", desk.now, desk.now, 10) == 0
    assert prune(desk.store, "f", desk.now, desk.now, 10) == 1


@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL, Verb.DROP])
def test_a_job_that_is_not_kept_is_gone_when_it_ends(desk: Desk, verb: Verb) -> None:
    claimed = desk.take(queue=FLEETING, key="k", owner="olga")
    desk.put_operation(claimed, "step")
    assert desk.settle(claimed, verb) is None
    assert desk.store.get(claimed.id) is None
    assert desk.store.history(claimed.id) == History()
    assert desk.listed() == desk.listed(owner="olga") == desk.listed(key="k") == []
    assert not any(desk.store.stats("f").counts.values())
    desk.add(queue="f", key="k")


def test_many_that_are_not_kept_are_gone_together(desk: Desk) -> None:
    desk.set(FLEETING)
    desk.add_many(5, queue="f")
    remembered = desk.add("mine", queue="f", digest=b"d")
    claims = desk.claim(FLEETING)
    done = [settlement(claimed, Verb.COMPLETE) for claimed in claims]
    assert desk.store.settle(done, desk.now).refused == {}
    assert desk.listed() == []
    clash = desk.insert([desk.new(remembered, queue="f", digest=b"d")])[0]
    assert (clash.kind, clash.job.state) == ("existing", State.SUCCEEDED)


@pytest.mark.parametrize("digest", [None, b"d"])
@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.DROP])
def test_a_job_that_is_gone_knows_no_claim_not_even_within_the_batch_that_ended_it(
    desk: Desk, verb: Verb, digest: bytes | None
) -> None:
    claimed = desk.take(queue=FLEETING, digest=digest)
    first = settlement(claimed, Verb.FAIL, error="x")
    second = settlement(claimed, verb, result=b"r", error="y", due_at=desk.now)
    assert desk.store.settle([first, second], desk.now).refused == {1: Refused("unknown", None)}
    assert desk.store.get(claimed.id) is None
    assert desk.claim(FLEETING) == []


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.RELEASE])
def test_a_job_that_goes_on_is_kept_whatever_the_retention(desk: Desk, verb: Verb) -> None:
    claimed = desk.take(queue=FLEETING)
    desk.settle(claimed, verb, due_at=desk.now)
    assert desk.state(claimed.id) is State.SCHEDULED


@pytest.mark.parametrize("verb", [Verb.GIVE_UP, Verb.DROP])
def test_a_job_given_up_is_gone_if_it_is_not_kept(desk: Desk, verb: Verb) -> None:
    claimed = desk.take(queue=FLEETING)
    assert desk.reclaim(desk.lapse(), verb) is None
    assert desk.store.get(claimed.id) is None
    assert desk.store.leases().next_lapse is None


def end_by_settling(desk: Desk) -> None:
    desk.complete(desk.retake("mine", queue=FLEETING), b"r")


def end_by_delivery(desk: Desk) -> None:
    claim = desk.claim_range(FLEETING)
    assert desk.settle_range(claim)


def end_by_refusal(desk: Desk) -> None:
    claim = desk.claim_range(FLEETING)
    assert desk.settle_range(claim, [], {"mine": "no"})


def end_by_giving_up(desk: Desk) -> None:
    desk.retake("mine", queue=FLEETING)
    assert desk.reclaim(desk.lapse(), Verb.GIVE_UP) is None


def end_and_prune(desk: Desk) -> None:
    desk.complete(desk.retake("mine", queue=FLEETING), b"r")
    desk.clock.advance(1)
    assert prune(desk.store, "f", desk.now, desk.now, 10) == 1
    desk.clock.set(desk.now - 1_000)


@pytest.mark.parametrize(
    "end",
    [end_by_settling, end_by_delivery, end_by_refusal, end_by_giving_up, end_and_prune],
)
def test_an_id_chosen_by_a_client_is_remembered_for_a_day_after_its_end(
    desk: Desk, end: Callable[[Desk], None]
) -> None:
    new = desk.new("mine", queue="f", digest=b"d", key="k", owner="olga", payload=b"p")
    desk.set(Queue("f") if end is end_and_prune else FLEETING)
    desk.insert([new])
    end(desk)
    assert desk.store.get("mine") is None
    assert desk.store.history("mine") == History()
    assert desk.listed() == desk.listed(queue="f") == []
    assert desk.listed(owner="olga") == desk.listed(key="k") == []
    assert not any(desk.store.stats("f").counts.values())
    assert desk.revive("mine").job is None

    desk.clock.advance(DAY - 1)
    forget(desk.store, desk.now)
    clash = desk.insert([new])[0]
    assert (clash.kind, clash.job.id, clash.job.finished_at) == (
        "existing",
        "mine",
        at(desk.now - (DAY - 1) * 1_000),
    )
    other = new._replace(digest=b"e")
    assert desk.insert([other])[0].kind == "id taken"
    assert desk.store.get("mine") is None

    desk.clock.advance(1)
    forget(desk.store, desk.now)
    assert desk.insert([other])[0].kind == "id taken"

    desk.clock.advance(0.001)
    assert prune(desk.store, "f", desk.now, desk.now, 10) == 0
    forget(desk.store, desk.now)
    assert desk.insert([other]) == {}
    assert desk.job("mine").attempt == 0


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("queue", [Q, FLEETING], ids=["kept for a day", "not kept"])
def test_a_claim_on_a_forgotten_job_can_change_nothing_on_a_new_one_of_the_same_id(
    desk: Desk, queue: Queue, write: str
) -> None:
    old = desk.take("mine", queue=queue, digest=b"d")
    assert desk.complete(old) is None
    desk.clock.advance(DAY + 0.001)
    prune(desk.store, queue.name, desk.now, desk.now, 10)
    forget(desk.store, desk.now)
    new = desk.take("mine", queue=queue, digest=b"d")
    before = desk.job("mine"), desk.store.history("mine")

    assert WRITES[write](desk, old) == Refused("unknown", State.DISPATCHED)
    assert desk.store.interruptions([(old.id, old.epoch)]) == {
        0: Refused("unknown", State.DISPATCHED)
    }
    assert (desk.job("mine"), desk.store.history("mine")) == before
    assert not isinstance(WRITES[write](desk, new), Refused)


def test_claims_on_jobs_of_chosen_and_minted_ids_are_completed_together(desk: Desk) -> None:
    chosen = [desk.new(f"mine-{n}", digest=b"d") for n in range(3)]
    minted = [desk.new() for _ in range(3)]
    desk.insert([*chosen, *minted])
    claims = desk.claim()
    late = claims.pop()._replace(epoch=1_000)
    ends = [settlement(one, Verb.COMPLETE) for one in [*claims, late]]
    assert desk.store.settle(ends, desk.now).refused == {5: Refused("unknown", State.DISPATCHED)}
    assert {desk.state(one.id) for one in claims} == {State.SUCCEEDED}
    assert desk.state(late.id) is State.DISPATCHED


def test_a_remembered_job_holds_no_key(desk: Desk) -> None:
    claimed = desk.take("mine", queue=FLEETING, key="k", digest=b"d")
    desk.complete(claimed)
    desk.add(queue="f", key="k")


def test_an_id_kept_longer_than_a_day_is_gone_with_its_job(desk: Desk) -> None:
    claimed = desk.take("mine", digest=b"d")
    desk.complete(claimed)
    desk.clock.advance(2 * DAY)
    assert prune(desk.store, "q", desk.now - DAY * 1_000, desk.now, 10) == 1
    desk.add("mine", digest=b"e")


def test_remembered_ids_of_finished_and_living_jobs_do_not_disturb_each_other(desk: Desk) -> None:
    gone = desk.take("gone", queue=FLEETING, digest=b"d")
    desk.complete(gone)
    alive = desk.add("alive", queue="f", digest=b"d")
    assert desk.listed() == [alive]
    assert desk.claimed_ids(FLEETING) == [alive]


@pytest.mark.needs("prune-counts")
def test_queues_are_pruned_by_their_own_moments_and_more_is_told(desk: Desk) -> None:
    done = finished(desk, 3)
    desk.complete(desk.take("fleeting", queue=Queue("f")))
    desk.clock.advance(1)
    kept = Retention({"q": desk.now, "f": desk.now - DAY, "none": desk.now})
    assert desk.store.prune(kept, desk.now, 2) == Pruned(2, more=True)
    assert set(desk.listed()) == {done[2], "fleeting"}
    assert desk.store.prune(kept, desk.now, 2) == Pruned(1, more=False)
    assert desk.store.prune(kept, desk.now, 2) == Pruned(0, more=False)
    assert desk.listed() == ["fleeting"]
