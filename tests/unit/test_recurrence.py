"""What becomes of occurrences: catching up, overlap, pauses and changes. Needs no store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment, parse, render, to_datetime
from oncue.core.recurrence import AHEAD_MS, FITS, Fate, Outcome, begun, latest, plan, revised
from oncue.core.schedule import (
    Emission,
    Every,
    Schedule,
    check_schedule,
    occurrence_id,
    read_emission,
    timing,
)

START = parse("2026-05-04T12:00:00Z")
MINUTE, HOUR = 60_000, 3_600_000


def hourly(**fields: Any) -> Schedule:
    """At every full hour, begun at noon."""
    return begun(check_schedule(Schedule("s", cron="0 * * * *", **fields)), START)


def clock(moments: Any) -> list[str]:
    return [render(at)[11:16] for at in moments]


def left_out(outcomes: Any) -> list[tuple[str, int | None]]:
    return [(str(one.fate), one.count) for one in outcomes]


def made(at: Moment, decided_at: Moment = START) -> Outcome:
    moment = to_datetime(at)
    return Outcome(
        Fate.CREATED, moment, moment, to_datetime(decided_at), job_id=occurrence_id("s", at)
    )


def test_a_new_schedule_looks_forward() -> None:
    schedule = hourly()
    assert schedule.progress.next_at == START + HOUR
    assert schedule.created_at == to_datetime(START)


def test_an_occurrence_is_made_ahead_of_its_time() -> None:
    schedule = hourly()
    assert schedule.progress.wake_at is not None
    assert START + HOUR - AHEAD_MS <= schedule.progress.wake_at < START + HOUR
    planned = plan(schedule, schedule.progress.wake_at)
    assert clock(planned.made) == ["13:00"]
    assert planned.next_at == START + 2 * HOUR


def test_dense_occurrences_are_made_many_at_a_time() -> None:
    schedule = begun(check_schedule(Schedule("s", every_seconds=1)), START)
    planned = plan(schedule, START)
    assert len(planned.made) == AHEAD_MS // 1000
    assert planned.wake_at is not None
    assert planned.wake_at >= START + 10_000


@pytest.mark.parametrize(
    "fields", [{"overlap": "skip"}, {"overlap": "queue"}, {"emits": Emission("FILE", "/a")}]
)
def test_what_depends_on_the_moment_itself_is_decided_then(fields: Any) -> None:
    schedule = hourly(**fields)
    assert schedule.progress.wake_at == schedule.progress.next_at
    assert plan(schedule, START + HOUR - 1).made == []
    assert clock(plan(schedule, START + HOUR).made) == ["13:00"]


def test_after_an_outage_once_makes_the_last_and_records_the_others() -> None:
    planned = plan(hourly(), START + 5 * HOUR + 20 * MINUTE)
    assert clock(planned.made) == ["17:00"]
    assert left_out(planned.left_out) == [("missed", 4)]
    assert planned.next_at == START + 6 * HOUR


def test_after_an_outage_all_makes_each() -> None:
    planned = plan(hourly(catch_up="all"), START + 3 * HOUR + 20 * MINUTE)
    assert clock(planned.made) == ["13:00", "14:00", "15:00"]
    assert planned.left_out == []


def test_all_goes_on_page_by_page_after_a_long_outage() -> None:
    schedule, now, found = hourly(catch_up="all"), START + 250 * HOUR, list[Moment]()
    for _ in range(3):
        planned = plan(schedule, now)
        assert len(planned.made) <= FITS
        found += planned.made
        progress = schedule.progress._replace(next_at=planned.next_at)
        schedule = replace(schedule, progress=progress)
    assert found == [START + n * HOUR for n in range(1, 251)]


def test_after_an_outage_skip_makes_none_and_records_all() -> None:
    planned = plan(hourly(catch_up="skip"), START + 3 * HOUR + 20 * MINUTE)
    assert planned.made == []
    assert left_out(planned.left_out) == [("missed", 3)]
    assert planned.next_at == START + 4 * HOUR


def test_a_restart_is_not_an_outage() -> None:
    planned = plan(hourly(catch_up="skip"), START + HOUR + 20_000)
    assert clock(planned.made) == ["13:00"]
    assert planned.left_out == []


def test_many_missed_occurrences_are_not_counted_one_by_one() -> None:
    every_second = begun(check_schedule(Schedule("s", cron="* * * * * *")), START)
    now = START + 365 * 24 * HOUR
    planned = plan(every_second, now)
    assert planned.made[0] == now
    [missed] = planned.left_out
    assert missed.count is None
    assert missed.until == to_datetime(now - 1000)


def test_overlap_skip_leaves_out_what_comes_while_the_job_before_goes_on() -> None:
    schedule = replace(hourly(overlap="skip"), unfinished=True)
    planned = plan(schedule, START + HOUR)
    assert planned.made == []
    assert left_out(planned.left_out) == [("overlapped", 1)]
    assert planned.next_at == START + 2 * HOUR


def test_overlap_queue_waits_for_the_job_before_and_then_catches_up() -> None:
    schedule = replace(hourly(overlap="queue"), unfinished=True)
    planned = plan(schedule, START + HOUR)
    assert (planned.made, planned.left_out, planned.next_at) == ((), (), START + HOUR)
    assert planned.wake_at == START + HOUR + 1000
    later = plan(replace(schedule, unfinished=False), START + HOUR + 5 * MINUTE)
    assert clock(later.made) == ["13:00"]


def test_with_overlap_control_all_makes_one_at_a_time() -> None:
    planned = plan(hourly(overlap="queue", catch_up="all"), START + 5 * HOUR)
    assert clock(planned.made) == ["13:00"]
    assert planned.next_at == START + 2 * HOUR


def test_overlap_allow_does_not_look_at_the_job_before() -> None:
    assert clock(plan(replace(hourly(), unfinished=True), START + HOUR).made) == ["13:00"]


def test_another_rhythm_withdraws_what_was_made_ahead_and_counts_from_now() -> None:
    now = START + HOUR - 10_000
    seen = hourly()
    ahead = made(START + HOUR)
    progress = seen.progress._replace(next_at=START + 2 * HOUR, last_at=START + HOUR)
    seen = replace(seen, progress=progress)
    wanted = check_schedule(Schedule("s", cron="30 * * * *"))
    revision = revised(seen, wanted, [ahead], now)
    assert [one.fate for one in revision.withdrawn] == [Fate.WITHDRAWN]
    assert revision.schedule.progress.next_at == START + HOUR + 30 * MINUTE
    assert revision.schedule.progress.last_at is None


def test_another_payload_withdraws_what_was_made_ahead_and_makes_it_again() -> None:
    seen = hourly()
    progress = seen.progress._replace(next_at=START + 2 * HOUR, last_at=START + HOUR)
    seen = replace(seen, progress=progress)
    wanted = replace(seen, payload_json=b"1")
    revision = revised(seen, wanted, [made(START), made(START + HOUR)], START + HOUR - 10_000)
    assert len(revision.withdrawn) == 1
    assert revision.schedule.progress[:3:2] == (START + HOUR, START)


def test_a_job_that_somebody_took_or_moved_is_not_withdrawn() -> None:
    seen = hourly()
    progress = seen.progress._replace(next_at=START + 2 * HOUR, last_at=START + HOUR)
    seen = replace(seen, progress=progress)
    ahead = made(START + HOUR)
    wanted = check_schedule(Schedule("s", cron="0 */1 * * *"))
    revision = revised(seen, wanted, [ahead], START + HOUR - 10_000, {ahead.job_id})
    assert revision.withdrawn == []
    assert revision.schedule.progress.next_at == START + 2 * HOUR, "not made a second time"


def test_what_is_due_survives_a_change_that_does_not_touch_the_rhythm() -> None:
    revision = revised(hourly(), replace(hourly(), payload_json=b"1"), [], START + HOUR + MINUTE)
    assert revision.schedule.progress.next_at == START + HOUR


def test_resuming_records_what_the_pause_left_out() -> None:
    paused = replace(hourly(), paused=True)
    revision = revised(paused, hourly(), [], START + 3 * HOUR + MINUTE)
    assert left_out(revision.left_out) == [("paused", 3)]
    assert revision.schedule.progress.next_at == START + 4 * HOUR


def test_what_a_pause_left_out_is_recorded_once_whatever_changes_meanwhile() -> None:
    paused = replace(hourly(), paused=True)
    during = revised(paused, replace(paused, payload_json=b"1"), [], START + 2 * HOUR)
    assert during.left_out == []
    resumed = revised(
        during.schedule, replace(during.schedule, paused=False), [], START + 3 * HOUR + MINUTE
    )
    assert left_out(resumed.left_out) == [("paused", 3)]


def test_another_rhythm_during_a_pause_ends_the_count_of_the_old_one() -> None:
    paused = replace(hourly(), paused=True)
    other = check_schedule(Schedule("s", cron="30 * * * *", paused=True))
    during = revised(paused, other, [], START + 2 * HOUR + MINUTE)
    assert left_out(during.left_out) == [("paused", 2)]
    assert during.schedule.progress.next_at == START + 2 * HOUR + 30 * MINUTE


def test_an_interval_counts_on_when_other_members_change_and_anew_when_it_changes() -> None:
    seen = begun(check_schedule(Schedule("s", every_seconds=600)), START)
    now = START + 15 * MINUTE
    same = revised(seen, replace(seen, queue="other"), [], now).schedule
    other = revised(seen, replace(seen, every_seconds=300.0), [], now).schedule
    assert timing(same) == Every(START, 600_000)
    assert timing(other) == Every(now, 300_000)
    assert other.progress.next_at == now + 300_000


@pytest.mark.parametrize("every_ms", [1000, 1500, 86_400_000])
def test_intervals_come_strictly_after_and_never_at_the_anchor(every_ms: int) -> None:
    rhythm = Every(START, every_ms)
    for asked in (0, START - 1, START, START + 1, START + every_ms - 1):
        found = rhythm.after(asked)
        assert found is not None
        assert found.at == START + every_ms
    later = rhythm.after(START + every_ms)
    assert later is not None
    assert later.at == START + 2 * every_ms


def test_the_latest_occurrence_is_found_without_walking_through_all() -> None:
    when = timing(hourly())
    first = START + HOUR
    for until in (first, first + 1, first + HOUR - 1, first + HOUR, first + 10**9, 4 * 10**12):
        assert latest(when, first, until) == until // HOUR * HOUR


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"cron": "* * * * *", "every_seconds": 5}, "/cron"),
        ({}, "/cron"),
        ({"cron": "bad"}, "/cron"),
        ({"cron": "* * * * *", "timezone": "Mars"}, "/timezone"),
        ({"every_seconds": 0.5}, "/every_seconds"),
        ({"every_seconds": "PT"}, "/every_seconds"),
        ({"every_seconds": True}, "/every_seconds"),
        ({"every_seconds": 10**12}, "/every_seconds"),
        ({"every_seconds": 60, "catch_up": "twice"}, "/catch_up"),
        ({"every_seconds": 60, "overlap": None}, "/overlap"),
        ({"every_seconds": 60, "overlap": "skip", "emits": Emission("FILE", "/a")}, "/overlap"),
        ({"every_seconds": 60, "queue": "a b"}, "/queue"),
        ({"every_seconds": 60, "paused": "no"}, "/paused"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said_with_the_place(fields: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_schedule(Schedule("s", **fields))
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"eventType": "NEWS", "eventResourceId": "/a"}, "/emits/eventType"),
        ({"eventType": "FILE", "eventResourceId": ""}, "/emits/eventResourceId"),
        ({"eventType": "FILE", "eventResourceId": "a\nb"}, "/emits/eventResourceId"),
        ({"eventType": "FILE"}, "/emits"),
        ("FILE", "/emits"),
    ],
)
def test_what_is_wrong_with_an_emission_is_said_with_the_place(value: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_emission(value)
    assert refused.value.pointer == pointer


def test_an_interval_may_be_written_as_a_duration_and_is_rounded_up_to_milliseconds() -> None:
    assert check_schedule(Schedule("s", every_seconds="PT15M")).every_seconds == 900  # type: ignore[arg-type]
    assert check_schedule(Schedule("s", every_seconds=1.0001)).every_seconds == 1.001


def test_the_id_of_an_occurrence_is_its_own_and_sorts_by_time() -> None:
    first, second = occurrence_id("a", START), occurrence_id("a", START + 1000)
    assert len({first, second, occurrence_id("b", START)}) == 3
    assert first < second
    assert first == occurrence_id("a", START)
