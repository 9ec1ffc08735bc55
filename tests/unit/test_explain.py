"""Why a job is where it is: every reason, reached the way it comes about."""

from __future__ import annotations

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import NotFound
from oncue.core.explain import REASONS, UNTAKEN_SECONDS, Backlog, Explanation, explain
from oncue.core.fencing import Settlement
from oncue.core.job import Claimed, History, Job
from oncue.core.lease import Touch
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.ports.sink import Refusal
from oncue.scheduler import Scheduler
from oncue.sinks.memory import named
from oncue.stores.memory import MemoryStore
from tests.contract.desk import claim_due

NOON = 1_800_000_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def cue(clock: FakeClock) -> Scheduler:
    return Scheduler(MemoryStore(clock), clock=clock)


def take(cue: Scheduler, worker: str = "w1") -> Claimed:
    [claimed] = cue.claim("mail", worker)
    return claimed


def check(told: Explanation, reason: str, *words: str) -> None:
    assert told.reason == reason
    assert reason in REASONS
    for word in words:
        assert word in told.sentence
    assert told.sentence.endswith(".")
    assert "None" not in told.sentence


def test_a_job_of_the_future_is_not_due(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail", delay=7200)
    told = cue.explain(job.id)
    check(told, "not_due", "2027-01-15T10:00:00.000Z", "in 2 h")
    assert told.facts["due_in_seconds"] == 7200


def test_a_future_job_of_a_paused_queue_will_wait_on(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail", delay=60)
    cue.pause("mail")
    check(cue.explain(job.id), "not_due", "queue mail is paused")


def test_a_due_job_of_a_paused_queue_waits_for_that(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    cue.pause("mail")
    clock.advance(12)
    check(cue.explain(job.id), "paused", "due for 12 s", "queue mail is paused")


def test_a_job_that_has_just_become_due_waits(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    check(cue.explain(job.id), "waiting", "waits to be taken")


def test_a_due_job_is_told_how_many_have_been_due_longer(cue: Scheduler, clock: FakeClock) -> None:
    for _ in range(3):
        cue.schedule(queue="mail")
    take(cue)
    clock.advance(1)
    job = cue.schedule(queue="mail")
    clock.advance(UNTAKEN_SECONDS)
    told = cue.explain(job.id)
    check(told, "waiting", "2 of its queue have been due longer", "1 are under way")
    assert (told.facts["due"], told.facts["due_longer"], told.facts["taken"]) == (3, 2, 1)


def test_a_job_nobody_takes_says_so(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "no_worker", "the queue seems to have no worker")


def test_a_job_nobody_delivers_says_so(cue: Scheduler, clock: FakeClock) -> None:
    cue.set_queue("mail", sink="log:")
    job = cue.schedule(queue="mail")
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "no_dispatcher", "no dispatcher seems to run", "log:")


def test_a_task_nobody_publishes_says_who_would(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="celery")
    cue.set_queue("celery", sink="celery:")
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "no_dispatcher", "no worker of Celery", "the broker is down")


def test_a_job_refused_for_now_says_why_how_often_and_until_when(
    cue: Scheduler, clock: FakeClock
) -> None:
    sink = named("busy")
    cue.set_queue("mail", sink="memory:busy")
    job = cue.schedule(queue="mail")
    sink.refuse(job.id, Refusal("tenant A is down", False))
    cue.engine.step_all()
    told = cue.explain(job.id)
    check(
        told,
        "put_off",
        "refused it for now: tenant A is down; it is offered to the sink again at 2027-",
    )
    assert (told.facts["refusals"], told.facts["error"]) == (1, "tenant A is down")
    until = told.facts["not_before"]
    clock.advance(told.facts["put_off_seconds"])
    check(cue.explain(job.id), "waiting")
    cue.engine.step_all()
    again = cue.explain(job.id)
    check(again, "put_off", "refused it for now, 2 times in a row: tenant A is down")
    assert again.facts["not_before"] > until
    cue.pause("mail")
    check(cue.explain(job.id), "put_off", "queue mail is paused, so it will wait then too")
    cue.resume("mail")
    assert cue.run(job.id).not_before is None
    check(cue.explain(job.id), "waiting")


def test_a_job_of_a_full_queue_says_how_many_are_under_way(
    cue: Scheduler, clock: FakeClock
) -> None:
    cue.set_queue("mail", concurrency=1)
    cue.schedule(queue="mail")
    take(cue)
    job = cue.schedule(queue="mail")
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "full", "1 under way, and no more than 1 at once")


def test_a_job_that_waits_for_the_rate_is_not_called_neglected(
    cue: Scheduler, clock: FakeClock
) -> None:
    cue.set_queue("mail", rate_per_second=0.1)
    cue.schedule(queue="mail")
    clock.advance(0.001)
    job = cue.schedule(queue="mail")
    clock.advance(20)
    check(cue.explain(job.id), "waiting", "its queue hands over at most 0.1 a second")
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "no_worker", "the queue seems to have no worker")


def test_a_store_that_cannot_count_claims_nothing_about_workers() -> None:
    job = _job(State.SCHEDULED)
    check(
        explain(job, Queue("mail"), History(), NOON + 60_000, Backlog()), "waiting", "due for 60 s"
    )


def test_a_failed_attempt_is_followed_by_a_pause(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    claimed = take(cue)
    cue.fail(job.id, cue.token(claimed), "no route to host\nTraceback …", retry_after=600)
    told = cue.explain(job.id)
    check(told, "backoff", "Attempt 1 of 3 failed: no route to host;", "in 10 min")
    assert told.facts["error"] == "no route to host\nTraceback …"


def test_a_long_error_is_cut_in_the_sentence_only(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    cue.fail(job.id, cue.token(take(cue)), "x" * 1000, retry_after=600)
    told = cue.explain(job.id)
    assert len(told.sentence) < 400
    assert told.facts["error"] == "x" * 1000


def test_a_revived_job_counts_its_attempts_anew(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail", max_attempts=1)
    cue.fail(job.id, cue.token(take(cue)), "boom")
    cue.retry(job.id)
    told = cue.explain(job.id)
    check(told, "waiting")
    assert told.facts["attempt"] == 0


def test_a_taken_job_names_its_worker(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    take(cue, "host-a:1")
    check(cue.explain(job.id), "taken", "worker host-a:1", "attempt 1 of 3", "08:01:00.000Z")


def test_an_executing_job_tells_when_it_was_last_heard(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    cue.heartbeat(job.id, cue.token(take(cue)), percent=40)
    clock.advance(3)
    check(cue.explain(job.id), "executing", "worker w1", "40 % done", "last heard 3 s ago")


def test_a_silent_worker_is_waited_for_until_the_reclaimer_looks(
    cue: Scheduler, clock: FakeClock
) -> None:
    job = cue.schedule(queue="mail")
    take(cue)
    clock.advance(61)
    check(cue.explain(job.id), "silent", "for 61 s", "reclaimer")


def test_a_reclaimed_job_goes_ahead(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    take(cue)
    clock.advance(61)
    cue.engine.reclaimer.step()
    told = cue.explain(job.id)
    assert told.facts["reclaimed"] is True
    clock.advance(UNTAKEN_SECONDS)
    check(cue.explain(job.id), "no_worker", "It was taken back from a lost claim; it has been due")


def test_a_job_lost_with_others_says_that_no_attempt_was_used(
    cue: Scheduler, clock: FakeClock
) -> None:
    job = cue.schedule(queue="mail")
    cue.schedule(queue="mail")
    assert len(cue.claim("mail", "w1", limit=2)) == 2
    clock.advance(61)
    cue.engine.reclaimer.step()
    clock.advance(UNTAKEN_SECONDS)
    told = "It was taken back from a lost claim, no attempt used; it has been due"
    check(cue.explain(job.id), "no_worker", told)


def test_a_cancel_on_its_way_is_told(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    take(cue)
    cue.cancel(job.id, running=True)
    check(cue.explain(job.id), "cancel_requested", "worker w1", "next heartbeat")
    clock.advance(61)
    check(cue.explain(job.id), "silent", "ends cancelled")


def test_a_job_inside_a_delivery_says_so(cue: Scheduler, clock: FakeClock) -> None:
    queue = cue.set_queue("mail", sink="log:")
    job = cue.schedule(queue="mail")
    cue.store.claim_range(queue, "d1", 10, clock.now(), lease_seconds=30)
    check(cue.explain(job.id), "delivering", "log:", "right now")


def test_a_job_handed_over_waits_for_word_from_its_worker(cue: Scheduler, clock: FakeClock) -> None:
    queue = cue.set_queue("mail", sink="log:", completion="worker")
    job = cue.schedule(queue="mail")
    [claimed] = claim_due(cue.store, [queue], "d1", 1, clock.now())
    cue.store.settle([Settlement(job.id, claimed.epoch, Verb.HAND_OVER)], clock.now())
    check(cue.explain(job.id), "handed_over", "log:", "attempt 1 of 3")
    cue.store.touch([Touch(job.id, claimed.epoch)], clock.now())
    check(cue.explain(job.id), "executing")


def test_success_tells_how_late_it_was_taken(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail")
    clock.advance(2)
    cue.complete(job.id, cue.token(take(cue)))
    told = cue.explain(job.id)
    check(told, "succeeded", "attempt 1 of 3 by w1", "2 s after it was due")
    assert told.facts["late_seconds"] == 2


def test_failure_tells_the_error_and_why_it_was_the_last(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    cue.fail(job.id, cue.token(take(cue)), "no such user", retryable=False)
    told = cue.explain(job.id)
    check(told, "failed", "on attempt 1 of 3: no such user; the failure is not retryable")


def test_a_job_given_up_does_not_say_things_twice(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail", max_attempts=1)
    take(cue)
    clock.advance(61)
    cue.engine.reclaimer.step()
    told = cue.explain(job.id)
    check(told, "failed", "Nothing was heard", "No attempt is left")
    assert told.sentence.count("Nothing was heard") == 1


def test_a_late_write_does_not_hide_the_reason(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    token = cue.token(take(cue))
    cue.fail(job.id, token, "no such user", retryable=False)
    with pytest.raises(Exception, match="no longer belongs"):
        cue.complete(job.id, token)
    check(cue.explain(job.id), "failed", "not retryable")


def test_a_cancelled_job_was_never_taken(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail", delay=60)
    cue.cancel(job.id)
    check(cue.explain(job.id), "cancelled", "by request, while it waited")


def test_a_job_cancelled_at_work_tells_how(cue: Scheduler) -> None:
    job = cue.schedule(queue="mail")
    token = cue.token(take(cue))
    cue.cancel(job.id, running=True)
    cue.fail(job.id, token, "stopped")
    check(cue.explain(job.id), "cancelled", "after a cancel was requested")


def test_an_expired_job_says_when(cue: Scheduler, clock: FakeClock) -> None:
    job = cue.schedule(queue="mail", expires_at=to_datetime(NOON + 60_000))
    clock.advance(60)
    check(cue.explain(job.id), "expiring", "2027-01-15T08:01:00.000Z")
    cue.store.expire(clock.now(), 10)
    check(cue.explain(job.id), "expired", "not taken before it expired at 2027-01-15T08:01:00.000Z")


def test_an_unknown_job_cannot_be_explained(cue: Scheduler) -> None:
    with pytest.raises(NotFound):
        cue.explain("nope")


def test_a_finished_job_whose_history_is_gone_is_still_explained() -> None:
    for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED):
        job = _job(state)._replace(finished_at=to_datetime(NOON))
        check(explain(job, Queue("mail"), History(), NOON, Backlog()), str(state), "2027-01-15T08")


def _job(state: State) -> Job:
    at = to_datetime(NOON)
    return Job(
        id="j",
        queue="mail",
        state=state,
        due_at=at,
        payload_json=b"{}",
        priority=0,
        attempt=0,
        created_at=at,
        updated_at=at,
    )
