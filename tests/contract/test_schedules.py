"""Schedules: every change is applied to what was seen, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.core.lifecycle import State
from oncue.core.moment import LATEST, Moment, to_datetime
from oncue.core.queue import Queue
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome, begun
from oncue.core.schedule import (
    CatchUp,
    Emission,
    Overlap,
    Progress,
    Schedule,
    check_schedule,
    occurrence_id,
    occurrence_job,
)
from oncue.ports.schedules import Advance
from tests.contract.changing import Amendment
from tests.contract.recurring import delete_schedule, put_schedule

from .desk import DELIVERY, Desk
from .promises import Listening, every

HOUR = 3_600_000


def wanted(desk: Desk, name: str = "s", **fields: Any) -> Schedule:
    given = {"queue": "q", **({} if "cron" in fields else {"every_seconds": 3600}), **fields}
    return begun(check_schedule(Schedule(name, **given)), desk.now)


def put(desk: Desk, name: str = "s", **fields: Any) -> Schedule:
    stored = put_schedule(desk.store, None, wanted(desk, name, **fields), desk.now)
    assert stored is not None
    return stored


def seen(desk: Desk, name: str = "s") -> Schedule:
    found = desk.store.schedule(name)
    assert found is not None
    return found


def created(name: str, at: Moment, now: Moment) -> Outcome:
    when = to_datetime(at)
    return Outcome(Fate.CREATED, when, when, to_datetime(now), job_id=occurrence_id(name, at))


def onward(desk: Desk, schedule: Schedule, at: Moment) -> Advance:
    """One job at this moment, and on to two hours later."""
    job = occurrence_job(schedule, at, desk.now)
    progress = Progress(at + 2 * HOUR, at + 2 * HOUR - 15_000, at, job.id)
    return Advance(schedule, schedule, [job], [created(schedule.name, at, desk.now)], (), progress)


def test_a_schedule_comes_back_as_it_was_put(desk: Desk) -> None:
    stored = put(
        desk,
        cron="30 9 * * MON-FRI",
        timezone="Europe/Paris",
        payload_json=b'{"a":1}',
        owner="ada",
        catch_up="all",
        overlap="queue",
        paused=True,
    )
    assert desk.store.schedule("s") == stored
    assert (stored.catch_up, stored.overlap) == (CatchUp.ALL, Overlap.QUEUE)
    assert stored.created_at == to_datetime(desk.now)
    emitting = put(desk, "e", emits=Emission("FILE", "/in/a"), every_seconds=1.5)
    assert desk.store.schedule("e") == emitting
    assert desk.store.schedule("none") is None


def test_a_name_is_created_once(desk: Desk) -> None:
    first = put(desk)
    assert put_schedule(desk.store, None, wanted(desk, owner="bob"), desk.now) is None
    assert desk.store.schedule("s") == first


def test_a_change_applies_to_the_schedule_that_was_seen(desk: Desk) -> None:
    first = put(desk)
    second = put_schedule(desk.store, first, replace(first, owner="bob"), desk.now)
    assert second is not None
    assert second.revision != first.revision
    assert put_schedule(desk.store, first, replace(first, owner="eve"), desk.now) is None
    assert seen(desk).owner == "bob"


def test_progress_keeps_the_revision_and_new_settings_change_it(desk: Desk) -> None:
    first = put(desk)
    on = replace(first, progress=first.progress._replace(wake_at=desk.now))
    assert list(desk.store.advance([Advance(first, on)], desk.now)) == []
    assert seen(desk) == on
    retimed = replace(on, zone_digest="of a newer database", cron="0 9 * * *", every_seconds=None)
    assert list(desk.store.advance([Advance(on, retimed)], desk.now)) == []
    assert seen(desk) == replace(retimed, revision=seen(desk).revision)
    assert seen(desk).revision != first.revision


def test_a_schedule_can_be_created_with_its_first_job(desk: Desk) -> None:
    first = onward(desk, wanted(desk), desk.now)._replace(seen=None)
    assert list(desk.store.advance([first, first], desk.now)) == [1]
    assert desk.listed() == [occurrence_id("s", desk.now)]
    assert list(desk.store.outcomes("s")) == [created("s", desk.now, desk.now)]


def test_a_name_that_was_deleted_and_created_again_is_another_schedule(desk: Desk) -> None:
    first = put(desk)
    assert delete_schedule(desk.store, first, desk.now)
    assert desk.store.schedule("s") is None
    again = put(desk)
    assert again.revision != first.revision
    assert not delete_schedule(desk.store, first, desk.now)
    assert list(desk.store.advance([onward(desk, first, desk.now)], desk.now)) == [0]
    assert desk.listed() == []


def test_advancing_creates_the_job_and_moves_on_in_one(desk: Desk) -> None:
    schedule = put(desk, owner="ada", payload_json=b"[1]")
    assert list(desk.store.advance([onward(desk, schedule, desk.now)], desk.now)) == []
    job = desk.job(occurrence_id("s", desk.now))
    assert (job.schedule, job.owner, job.payload_json, job.queue) == ("s", "ada", b"[1]", "q")
    assert (job.state, job.due_at) == (State.SCHEDULED, to_datetime(desk.now))
    after = seen(desk)
    assert after.progress.next_at == desk.now + 2 * HOUR
    assert after.progress.last_job_id == job.id
    assert after.revision == schedule.revision
    assert list(desk.store.outcomes("s")) == [created("s", desk.now, desk.now)]
    assert "q" in {queue.name for queue in desk.store.queues()}


def test_what_was_decided_twice_is_applied_once(desk: Desk) -> None:
    schedule = put(desk)
    one = onward(desk, schedule, desk.now)
    other = onward(desk, schedule, desk.now + 1000)
    assert list(desk.store.advance([one, other], desk.now)) == [1]
    assert list(desk.store.advance([other], desk.now)) == [0]
    assert desk.listed() == [occurrence_id("s", desk.now)]
    assert len(desk.store.outcomes("s")) == 1


def test_one_refusal_does_not_keep_the_others_back(desk: Desk) -> None:
    stale = put(desk, "a")
    fresh = [put(desk, name) for name in ("b", "c")]
    put_schedule(desk.store, stale, replace(stale, owner="x"), desk.now)
    advances = [onward(desk, one, desk.now) for one in (fresh[0], stale, fresh[1])]
    assert list(desk.store.advance(advances, desk.now)) == [1]
    assert {job.schedule for job in map(desk.job, desk.listed())} == {"b", "c"}


def test_an_occurrence_whose_job_is_there_already_is_not_made_again(desk: Desk) -> None:
    schedule = put(desk)
    desk.add(occurrence_id("s", desk.now), payload=b'"mine"')
    assert list(desk.store.advance([onward(desk, schedule, desk.now)], desk.now)) == []
    assert desk.job(occurrence_id("s", desk.now)).payload_json == b'"mine"'
    assert seen(desk).progress.next_at == desk.now + 2 * HOUR


def test_a_schedule_is_due_when_it_wakes_unless_it_is_paused(desk: Desk) -> None:
    late = put(desk, "late")
    desk.clock.advance(1)
    put(desk, "later")
    put(desk, "paused", paused=True)
    assert late.progress.wake_at is not None
    assert list(desk.store.waking(late.progress.wake_at - 1, 10)) == []
    assert [one.name for one in desk.store.waking(late.progress.wake_at, 10)] == ["late"]
    assert [one.name for one in desk.store.waking(LATEST, 10)] == ["late", "later"]
    assert [one.name for one in desk.store.waking(LATEST, 1)] == ["late"]


def test_without_schedules_nothing_wakes(desk: Desk) -> None:
    assert list(desk.store.waking(LATEST, 1)) == []
    schedule = put(desk)
    over = Advance(schedule, replace(schedule, progress=Progress(None, None)))
    assert list(desk.store.advance([over], desk.now)) == []
    assert list(desk.store.waking(LATEST, 1)) == []


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "gone"])
def test_a_schedule_knows_whether_its_last_job_is_unfinished(desk: Desk, end: str) -> None:
    schedule = put(desk)
    assert not schedule.unfinished
    desk.store.advance([onward(desk, schedule, desk.now)], desk.now)
    assert seen(desk).unfinished
    if end == "cancel":
        desk.cancel(occurrence_id("s", desk.now))
    else:
        [claimed] = desk.claim()
        assert seen(desk).unfinished
        if end == "gone":
            desk.set(Queue("q", retention_seconds=0))
        desk.fail(claimed) if end == "fail" else desk.complete(claimed)
    assert not seen(desk).unfinished
    assert not desk.store.waking(LATEST, 1)[0].unfinished


def test_a_change_answers_with_the_schedule_as_it_is_then(desk: Desk) -> None:
    schedule = put(desk)
    desk.store.advance([onward(desk, schedule, desk.now)], desk.now)
    changed = put_schedule(
        desk.store, seen(desk), replace(seen(desk), owner="x", unfinished=False), desk.now
    )
    assert changed == seen(desk)
    assert changed.unfinished


def test_a_withdrawn_job_is_gone_and_recorded_as_such(desk: Desk) -> None:
    schedule = put(desk)
    desk.store.advance([onward(desk, schedule, desk.now + 10_000)], desk.now)
    [ahead] = desk.store.outcomes("s")
    gone = replace(ahead, fate=Fate.WITHDRAWN)
    missed = replace(gone, fate=Fate.MISSED, job_id=None)
    now = seen(desk)
    stored = put_schedule(desk.store, now, now, desk.now, withdrawn=[gone], outcomes=[missed])
    assert stored is not None
    assert desk.listed() == []
    assert list(desk.store.outcomes("s")) == [gone, missed]
    assert desk.claimed_ids() == []


def as_many_as_fit(desk: Desk) -> tuple[Schedule, list[Moment]]:
    """A schedule whose last advance made as many jobs as the store takes at once."""
    schedule = put(desk, every_seconds=1)
    moments = [desk.now + 1000 * n for n in range(1, desk.store.traits.advance_fits + 1)]
    jobs = [occurrence_job(schedule, at, desk.now) for at in moments]
    outcomes = [created("s", at, desk.now) for at in moments]
    following = moments[-1] + 1000
    progress = Progress(following, following - 15_000, moments[-1], jobs[-1].id)
    assert not desk.store.advance(
        [Advance(schedule, schedule, jobs, outcomes, (), progress)], desk.now
    )
    return seen(desk), moments


def test_one_advance_makes_as_many_jobs_as_fit(desk: Desk) -> None:
    schedule, moments = as_many_as_fit(desk)
    assert desk.listed(queue="q") == [occurrence_id("s", at) for at in moments]
    assert [one.at for one in desk.store.outcomes("s")] == list(map(to_datetime, moments))
    assert schedule.progress.last_at == moments[-1]


def test_as_many_jobs_are_withdrawn_in_one_go_and_made_again(desk: Desk) -> None:
    schedule, moments = as_many_as_fit(desk)
    gone = [replace(created("s", at, desk.now), fate=Fate.WITHDRAWN) for at in moments]
    back = Progress(moments[0], moments[0], None, None)
    unmade = Advance(schedule, schedule, withdrawn=gone, progress=back)
    assert not desk.store.advance([unmade], desk.now)
    assert desk.listed(queue="q") == []
    assert {one.fate for one in desk.store.outcomes("s")} == {Fate.WITHDRAWN}
    again = seen(desk)
    assert (again.revision, again.progress) == (schedule.revision, back)
    assert desk.store.advance([unmade], desk.now), "it is no longer as it was seen"
    assert not desk.store.advance([onward(desk, again, moments[0])], desk.now)
    assert desk.listed(queue="q") == [occurrence_id("s", moments[0])]


@pytest.mark.parametrize("touch", ["claim", "amend", "cancel", "range"])
def test_a_job_that_somebody_touched_is_not_withdrawn_and_nothing_changes(
    desk: Desk, touch: str
) -> None:
    queue = DELIVERY if touch == "range" else Queue("q")
    schedule = put(desk, queue=queue.name)
    due = desk.now + 10_000
    desk.store.advance([onward(desk, schedule, due)], desk.now)
    [ahead] = desk.store.outcomes("s")
    if touch == "cancel":
        desk.cancel(occurrence_id("s", due))
    elif touch == "amend":
        desk.amend(occurrence_id("s", due), Amendment(due + 1))
    else:
        desk.clock.advance(10)
        assert desk.claim(queue) if touch == "claim" else desk.claim_range(queue).jobs
    before = seen(desk)
    gone = replace(ahead, fate=Fate.WITHDRAWN)
    other = replace(before, owner="x")
    assert put_schedule(desk.store, before, other, desk.now, withdrawn=[gone]) is None
    assert not delete_schedule(desk.store, before, desk.now, withdrawn=[gone])
    assert seen(desk) == before
    assert list(desk.store.outcomes("s")) == [ahead]
    assert desk.listed() == [occurrence_id("s", due)]


def test_deleting_leaves_the_jobs_and_forgets_the_record(desk: Desk) -> None:
    schedule = put(desk)
    desk.store.advance([onward(desk, schedule, desk.now)], desk.now)
    assert delete_schedule(desk.store, seen(desk), desk.now)
    assert desk.listed() == [occurrence_id("s", desk.now)]
    assert list(desk.store.outcomes("s")) == []


def test_the_record_keeps_the_last_hundred(desk: Desk) -> None:
    schedule = put(desk)
    several = [created("s", desk.now + n, desk.now) for n in range(OUTCOMES_KEPT + 30)]
    for n in range(0, len(several), 10):
        now = seen(desk)
        step = replace(now, progress=Progress(desk.now + n + HOUR, desk.now + n))
        assert list(desk.store.advance([Advance(now, step, [], several[n : n + 10])], 0)) == []
    assert list(desk.store.outcomes("s")) == several[-OUTCOMES_KEPT:]
    other = replace(seen(desk), owner="x")
    changed = put_schedule(desk.store, seen(desk), other, desk.now, outcomes=several[:1])
    assert changed is not None
    assert list(desk.store.outcomes("s")) == [*several[1 - OUTCOMES_KEPT :], several[0]]
    assert schedule.revision != changed.revision


def test_schedules_are_listed_by_name_page_by_page(desk: Desk) -> None:
    for name in ("b", "a", "c.d"):
        put(desk, name)
    assert [one.name for one in desk.store.schedules(None, 2)] == ["a", "b"]
    assert [one.name for one in desk.store.schedules("b", 2)] == ["c.d"]
    assert list(desk.store.schedules("c.d", 2)) == []


def test_schedules_are_found_by_the_rules_of_their_time_zone(desk: Desk) -> None:
    paris = [put(desk, name, cron="0 9 * * *", timezone="Europe/Paris") for name in ("a", "b")]
    london = put(desk, "c", cron="0 9 * * *", timezone="Europe/London")
    put(desk, "d")
    now = {"Europe/Paris": paris[0].zone_digest, "Europe/London": london.zone_digest}
    assert list(desk.store.timed_otherwise(now.get, 10)) == []
    now["Europe/Paris"] = "of a newer database"
    assert {one.name for one in desk.store.timed_otherwise(now.get, 10)} == {"a", "b"}
    assert len(desk.store.timed_otherwise(now.get, 1)) == 1
    del now["Europe/Paris"]  # it has gone from the database
    assert list(desk.store.timed_otherwise(now.get, 10)) == []


def test_whoever_listens_is_told_of_schedules_and_of_their_jobs(desk: Desk) -> None:
    listening = Listening(desk.store)
    schedule = put(desk)
    assert listening.has_heard_of_settings()
    desk.store.advance([onward(desk, schedule, desk.now + 5)], desk.now)
    assert listening.has_heard_of("q", desk.now + 5)
    listening.told.clear()
    delete_schedule(desk.store, seen(desk), desk.now)
    assert listening.has_heard_of_settings()


def test_the_schedule_of_a_job_moves_house_with_it(desk: Desk, open_store: Any) -> None:
    schedule = put(desk)
    desk.store.advance([onward(desk, schedule, desk.now)], desk.now)
    other = open_store(desk.clock)
    assert other.admit(every(desk.store.export)) == 1
    assert other.get(occurrence_id("s", desk.now)) == desk.job(occurrence_id("s", desk.now))
