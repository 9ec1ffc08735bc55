"""Whatever befalls a job, every store tells it in the same words: the same calls leave the same
answers, jobs, attempts and diagnostics, with every field of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from oncue.clock import FakeClock
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.dumped import DumpedJob
from oncue.core.job import Diagnostic, JobFilter
from oncue.core.lifecycle import Verb
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.core.retry import after_silence
from oncue.ports.claims import ClaimFilter
from oncue.stores.memory import MemoryStore
from oncue.usecases.bulk import change_all
from tests.contract.changing import Amendment
from tests.stores.kinds import KINDS

from .conftest import OpenStore
from .desk import DELIVERY, LEASE, Desk, Q
from .promises import every, exported

HURRIED = Queue("q", timeout_seconds=10)
FRAIL = Queue("q", poison_after=1)
WRITES: tuple[Callable[..., object], ...] = (
    Desk.touch,
    Desk.complete,
    Desk.fail,
    Desk.retry,
    Desk.release,
    Desk.drop,
    lambda desk, claimed: desk.put_operation(claimed, "step", result=b"1"),
)


def failed(desk: Desk) -> object:
    return desk.fail(desk.take("a"), "It broke.", detail="Failed: no attempt is left.")


def retried(desk: Desk) -> object:
    return desk.retry(desk.take("a"), "It broke.", due_at=desk.now + 1_500)


def retried_without_an_error(desk: Desk) -> object:
    """After a failure that had one; and the same again, which repeats it."""
    desk.retry(desk.take("a"), "It broke.")
    claimed = desk.retake("a")
    first = desk.settle(claimed, Verb.RETRY, due_at=desk.now)
    return first, desk.settle(claimed, Verb.RETRY, due_at=desk.now)


def released(desk: Desk) -> object:
    """Only a job that is put off takes over what the sink said."""
    desk.retry(desk.take("a"), "It broke.")
    return desk.release(desk.retake("a"), error="Nobody asked.")


def cancelled(desk: Desk) -> object:
    claimed = desk.take("a")
    desk.request_cancel("a")
    refusal = desk.release(claimed)
    told = {"code": "cancelled", "detail": "Released after a cancel was requested."}
    return refusal, desk.drop(claimed, **told)


def cancelled_while_waiting(desk: Desk) -> object:
    one, other = desk.add_many(2)
    change = BulkChange(BulkVerb.CANCEL, desk.now)
    bulk = change_all(desk.store, change, JobFilter(), [one], desk.now)
    return bulk, desk.cancel(other)


def failed_after_a_cancel(desk: Desk) -> object:
    claimed = desk.take("a")
    desk.request_cancel("a")
    return desk.drop(claimed, error="It broke.", detail="Failed after a cancel was requested.")


def fenced(desk: Desk) -> list[object]:
    """Every kind of write after every kind of end, twice."""
    answers: list[object] = []
    ends = (Desk.complete, Desk.fail, Desk.retry, Desk.release, Desk.drop, lost)
    for end in ends:
        claimed = desk.take()
        end(desk, claimed)
        desk.clock.advance(1)
        answers += [write(desk, claimed) for write in (*WRITES, *WRITES)]
        answers.append(desk.store.interruptions([(claimed.id, claimed.epoch)]))
        answers.append(desk.hand_over(claimed))
        desk.cancel(claimed.id)
    return answers


def lost(desk: Desk, _: object) -> None:
    desk.clock.advance(LEASE)
    desk.judge()


def silent_before_it_started(desk: Desk) -> None:
    desk.take("a")
    lost(desk, None)


def silent_after_it_started(desk: Desk) -> None:
    desk.touch(desk.take("a"), message="half", percent=50)
    lost(desk, None)


def silent_with_others(desk: Desk) -> None:
    desk.add_many(2)
    desk.claim()
    lost(desk, None)


def silent_after_a_cancel(desk: Desk) -> None:
    desk.take("a")
    desk.request_cancel("a")
    lost(desk, None)


def silent_at_its_last_attempt(desk: Desk) -> None:
    desk.take("a", max_attempts=1)
    lost(desk, None)


def overlong(desk: Desk) -> None:
    claimed = desk.take("a", queue=HURRIED)
    desk.clock.advance(9.999)
    desk.touch(claimed, lease_seconds=30)
    desk.clock.advance(0.001)
    desk.judge(HURRIED)


def poison(desk: Desk) -> None:
    desk.touch(desk.take("a"))
    desk.clock.advance(LEASE)
    desk.judge(FRAIL)


def reclaimed_by_age(desk: Desk) -> object:
    """By a reclaim run that gives up; the second comes too late."""
    desk.take("a")
    desk.clock.advance(5)
    silent = ClaimFilter(heard_outside=(desk.now, desk.now))
    (lapse,) = every(partial(desk.store.live_claims, silent))
    verdict = after_silence(lapse, Q, desk.now, 5_000, giving_up=True)
    return [desk.store.reclaim([(lapse, verdict)], desk.now) for _ in range(2)]


def expired(desk: Desk) -> object:
    desk.take("taken before", expires_at=desk.now + 10)
    desk.add("found by a claim", expires_at=desk.now + 10)
    desk.clock.advance(0.02)
    desk.add("found by the reclaimer", due_in=9, expires_at=desk.now)
    return desk.claim(), desk.store.expire(desk.now, 10)


def refused_for_good(desk: Desk) -> object:
    _, refused, _ = desk.add_many(3, queue="d")
    return desk.settle_range(desk.claim_range(), refused={refused: "No such address."})


def put_off(desk: Desk) -> object:
    """By a range and by a claim, and once more."""
    worked = replace(DELIVERY, name="w", completion="worker")
    answers: list[object] = []
    desk.add("a", queue="d")
    desk.add("b", queue="w")
    for _ in range(2):
        answers.append(desk.settle_range(desk.claim_range(), busy={"a": "Its tenant is down."}))
        (claimed,) = desk.claim(worked)
        told = {"error": "Its tenant is down.", "put_off": worked.retry}
        answers.append(desk.release(claimed, **told))
        desk.clock.advance(5)
    return answers


def put_off_and_expired(desk: Desk) -> object:
    desk.add("a", queue="d", expires_at=desk.now + 100)
    desk.settle_range(desk.claim_range(), busy={"a": "Its tenant is down."})
    desk.clock.advance(0.1)
    return desk.store.expire(desk.now, 10)


def revived(desk: Desk) -> object:
    claimed = desk.take("a")
    desk.fail(claimed, "It broke.")
    desk.clock.advance(1)
    answer = desk.revive("a")
    return answer, desk.complete(claimed), desk.fail(claimed, "It broke.")


def noted(desk: Desk) -> None:
    told = Diagnostic(to_datetime(desk.now), "told", "By hand.", 3, 2, {"list": [1, None, 0.5]})
    desk.store.note(desk.add("a"), [told])


def noted_while_it_ran(desk: Desk) -> object:
    """What others told of the attempt is not why it ended."""
    claimed = desk.take("a")
    facts = {"decision": "none"}
    told = Diagnostic(to_datetime(desk.now), "told", "By hand.", 1, claimed.epoch, facts)
    desk.store.note("a", [told])
    desk.clock.advance(1)
    desk.retry(claimed, "It broke.")
    late = desk.touch(claimed)
    desk.fail(desk.retake("a"), "It broke again.")
    return late, desk.touch(claimed)


def a_hundred_and_twenty_failures(desk: Desk) -> object:
    """Of one job that waits again, of one that is under way and of one that ended."""
    answers: list[object] = []
    for last in (Desk.retry, Desk.touch, Desk.fail):
        claims = [desk.take()]
        for number in range(120):
            desk.retry(claims[-1], f"failure {number}")
            claims.append(desk.retake(claims[0].id))
        last(desk, claims[-1])
        answers += [desk.touch(claims[number]) for number in (0, 49, 60, 110, 119)]
        desk.amend(claims[0].id, Amendment(due_at=desk.now + 1_000))
    return answers


def given_more_than_it_wants(desk: Desk) -> object:
    """A failure has no result, a success no error."""
    answer = desk.fail(desk.take("a"), "It broke.", result=b"1")
    return answer, desk.complete(desk.take("b"), b"1", error="It broke.")


SCRIPTS: dict[Callable[[Desk], object], set[str]] = {
    failed: {"failure"},
    retried: {"failure"},
    retried_without_an_error: {"failure"},
    released: {"failure"},
    cancelled: {"cancelled"},
    cancelled_while_waiting: set(),
    failed_after_a_cancel: {"failure"},
    fenced: {"fenced", "failure", "timeout_dispatched"},
    silent_before_it_started: {"timeout_dispatched"},
    silent_after_it_started: {"timeout_executing"},
    silent_with_others: {"timeout_dispatched"},
    silent_after_a_cancel: {"timeout_dispatched"},
    silent_at_its_last_attempt: {"timeout_dispatched"},
    overlong: {"timeout_executing"},
    poison: {"poison"},
    reclaimed_by_age: {"timeout_dispatched"},
    expired: {"expired"},
    refused_for_good: {"failure"},
    put_off: set(),
    put_off_and_expired: {"expired"},
    revived: {"failure", "fenced"},
    noted: {"told"},
    noted_while_it_ran: {"told", "failure", "fenced"},
    a_hundred_and_twenty_failures: {"failure", "fenced"},
    given_more_than_it_wants: {"failure"},
}
"""What happens, and the codes of the diagnostics that it leaves."""


@pytest.mark.one_shard
@pytest.mark.parametrize("open_store", [kind for kind in KINDS if kind != "memory"], indirect=True)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_both_stores_tell_the_same(open_store: OpenStore, script: Callable[[Desk], object]) -> None:
    answers, jobs = _play(open_store, script)
    expected, those_of_memory = _play(MemoryStore, script)
    assert answers == expected
    assert jobs == those_of_memory
    found = {one.code for job in jobs for one in job.history.diagnostics}
    assert found == SCRIPTS[script]


def _play(
    open_store: OpenStore, script: Callable[[Desk], object]
) -> tuple[object, list[DumpedJob]]:
    """The answers to the calls, and all that the store has then."""
    clock = FakeClock()
    desk = Desk(open_store(clock), clock)
    return script(desk), exported(desk.store)
