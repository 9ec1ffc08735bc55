"""The recurrer: jobs ahead of their time, trouble with one schedule, and changed time zones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import OncueError
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import State
from oncue.core.moment import Moment, parse, render, to_datetime
from oncue.core.recurrence import AHEAD_MS, Fate
from oncue.core.schedule import Emission, Schedule, check_schedule
from oncue.engine.recurrer import LONGEST_REST_SECONDS, Recurrer
from oncue.ports.jobs import Amendment
from oncue.stores.memory import MemoryStore

START = parse("2026-05-04T12:00:00Z")


class Desk:
    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.store = MemoryStore(self.clock)
        self.recurrer = Recurrer(self.store, self.clock)

    def put(self, name: str = "s", **members: Any) -> Schedule:
        timing = {} if "every_seconds" in members else {"cron": "0 * * * *"}
        wanted = check_schedule(Schedule(name, **{**timing, **members}))
        return self.recurrer.change(name, lambda _: wanted)

    def go(self, seconds: float = 0) -> float:
        """Let time pass and do all that is to be done; how long it may rest."""
        self.clock.advance(seconds)
        while (rest := self.recurrer.step()) == 0:
            continue
        return rest

    def jobs(self) -> list[Job]:
        return self.store.page(JobFilter(), None, 500).items

    def dues(self) -> list[str]:
        return [job.due_at.strftime("%H:%M:%S") for job in self.jobs()]

    def fates(self, name: str = "s") -> list[str]:
        return [str(one.fate) for one in self.store.outcomes(name)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_without_schedules_it_rests_long(desk: Desk) -> None:
    assert desk.go() == LONGEST_REST_SECONDS


def test_a_job_is_made_before_it_is_due_and_it_rests_until_then(desk: Desk) -> None:
    desk.put()
    assert desk.go(3600 - AHEAD_MS / 1000 - 10) == pytest.approx(25)
    assert desk.jobs() == []
    desk.go(25)
    [job] = desk.jobs()
    assert job.due_at == to_datetime(START + 3_600_000)
    assert job.created_at == to_datetime(START + 3_585_000)
    assert job.schedule == "s"


def test_a_dense_schedule_is_never_out_of_jobs(desk: Desk) -> None:
    desk.put(every_seconds=1)
    for second in range(1, 200):
        desk.go(1)
        assert to_datetime(desk.clock.now() + 1000) in {job.due_at for job in desk.jobs()}, second
    dues = [job.due_at for job in desk.jobs()]
    assert len(dues) == len(set(dues))


def test_putting_the_same_again_changes_nothing(desk: Desk) -> None:
    first = desk.put(every_seconds=600)
    desk.go(300)
    assert desk.put(every_seconds=600) == first


def test_what_is_due_is_made_by_the_old_settings_before_a_change(desk: Desk) -> None:
    desk.put(payload_json=b'"old"')
    desk.clock.advance(3 * 3600 + 60)
    desk.put(payload_json=b'"new"', cron="30 * * * *")
    assert [(due, job.payload) for due, job in zip(desk.dues(), desk.jobs(), strict=True)] == [
        ("15:00:00", "old")
    ]
    assert desk.fates() == ["missed", "created"]
    desk.go(1800)
    assert desk.dues() == ["15:00:00", "15:30:00"]


def test_a_change_makes_all_that_is_due_however_much_it_is(desk: Desk) -> None:
    desk.put(every_seconds=1, catch_up="all")
    desk.clock.advance(6000)
    desk.put(every_seconds=86_400)
    assert desk.store.stats("default").counts[State.SCHEDULED] == 6000
    last = [one.at for one in desk.store.outcomes("s") if one.fate is Fate.CREATED][-1]
    assert last == to_datetime(desk.clock.now())


def test_a_change_replaces_what_was_made_ahead_of_time(desk: Desk) -> None:
    desk.put(payload_json=b'"old"')
    desk.go(3595)
    assert [job.payload for job in desk.jobs()] == ["old"]
    desk.put(payload_json=b'"new"')
    assert desk.jobs() == []
    desk.go()
    assert [(job.payload, render(START + 3_600_000)[11:19]) for job in desk.jobs()] == [
        ("new", "13:00:00")
    ]
    assert desk.fates() == ["withdrawn", "created"]


def test_a_job_that_was_run_early_by_hand_is_not_made_again_by_a_change(desk: Desk) -> None:
    desk.put()
    desk.go(3595)
    [job] = desk.jobs()
    desk.store.amend([job.id], Amendment(desk.clock.now()), desk.clock.now())
    desk.put(payload_json=b"1")
    desk.go(60)
    assert [one.id for one in desk.jobs()] == [job.id]


def test_deleting_takes_away_what_is_not_due(desk: Desk) -> None:
    desk.put()
    desk.go(3595)
    assert desk.recurrer.delete("s")
    assert desk.jobs() == []
    assert not desk.recurrer.delete("s")


def test_deleting_leaves_what_is_due(desk: Desk) -> None:
    desk.put()
    desk.go(3601)
    assert desk.recurrer.delete("s")
    assert desk.dues() == ["13:00:00"]


def test_a_pause_takes_away_what_is_not_due_and_resuming_records_what_was_left_out(
    desk: Desk,
) -> None:
    desk.put()
    desk.go(3595)
    desk.put(paused=True)
    desk.go(2 * 3600)
    assert desk.jobs() == []
    desk.put(paused=False)
    assert desk.fates() == ["withdrawn", "paused"]
    desk.go(10)
    assert desk.dues() == ["15:00:00"]


def test_overlap_skip_leaves_out_until_the_job_before_has_ended(desk: Desk) -> None:
    desk.put(overlap="skip")
    desk.go(3600)
    desk.go(3600)
    assert desk.fates() == ["created", "overlapped"]
    desk.store.cancel([desk.jobs()[0].id], desk.clock.now())
    desk.go(3600)
    assert desk.fates() == ["created", "overlapped", "created"]


def test_overlap_queue_makes_the_job_once_the_one_before_has_ended(desk: Desk) -> None:
    desk.put(overlap="queue")
    desk.go(3600)
    assert 0 < desk.go(3600) <= 1
    assert len(desk.jobs()) == 1
    desk.store.cancel([desk.jobs()[0].id], desk.clock.now())
    desk.go(1)
    assert desk.dues() == ["13:00:00", "14:00:00"]


def test_a_change_leaves_out_what_was_queued(desk: Desk) -> None:
    desk.put(overlap="queue")
    desk.go(3600)
    desk.go(3600)
    desk.put(overlap="queue", cron="45 * * * *")
    assert desk.fates() == ["created", "overlapped"]


def test_an_emitting_schedule_publishes_at_its_moment_and_makes_no_job(desk: Desk) -> None:
    published: list[tuple[str, Moment]] = []

    def publish(schedule: Schedule, moments: Sequence[Moment]) -> None:
        assert schedule.emits is not None
        published.extend((schedule.emits.resource_id, at) for at in moments)

    desk.recurrer.publish = publish
    desk.put(emits=Emission("TIME_BASED", "cron"))
    desk.go(3599)
    assert published == []
    desk.go(1)
    assert published == [("cron", START + 3_600_000)]
    assert desk.jobs() == []
    assert desk.fates() == ["emitted"]


def test_an_event_that_could_not_be_published_is_published_later(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    published: list[Moment] = []
    broken = True

    def publish(schedule: Schedule, moments: Sequence[Moment]) -> None:
        if broken:
            raise OncueError("a payload that must not be logged")
        published.extend(moments)

    desk.recurrer.publish = publish
    desk.put("good", emits=None)
    desk.put("bad", emits=Emission("TIME_BASED", "cron"))
    with caplog.at_level(logging.ERROR, "oncue.engine"):
        desk.go(3600)
        desk.go(60)
    assert caplog.messages == ["schedule bad waits: OncueError"]
    assert [job.schedule for job in desk.jobs()] == ["good"]
    broken = False
    desk.go(60)
    assert published == [START + 3_600_000]


def test_where_nobody_publishes_an_emitting_schedule_waits_and_says_so(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put(emits=Emission("TIME_BASED", "cron"))
    with caplog.at_level(logging.ERROR, "oncue.engine"):
        desk.go(3600)
    assert "nobody here publishes them" in caplog.text
    assert desk.fates() == []
    assert desk.recurrer.publish is None


def test_a_time_zone_that_has_gone_stops_its_schedules_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put("good")
    gone = desk.put("bad")
    lost = replace(gone, timezone="Mars/Olympus", zone_digest="?")
    assert desk.store.put_schedule(gone, lost, desk.clock.now()) is not None
    with caplog.at_level(logging.ERROR, "oncue.engine"):
        desk.go(3600)
    assert [job.schedule for job in desk.jobs()] == ["good"]
    assert "Mars/Olympus" in caplog.text


def test_changed_rules_of_a_time_zone_are_noticed_at_the_start(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    right = desk.put(cron="0 9 * * *", timezone="Europe/Paris")
    late = right.progress._replace(
        next_at=START + 22 * 3_600_000, wake_at=START + 22 * 3_600_000 - 15_000
    )
    old = replace(right, zone_digest="of an older database", progress=late)
    assert desk.store.put_schedule(right, old, desk.clock.now()) is not None
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        Recurrer(desk.store, desk.clock).step()
    found = desk.store.schedule("s")
    assert found is not None
    assert found.zone_digest == right.zone_digest
    assert found.progress == right.progress
    assert "the rules of their time zones have changed" in caplog.text
    assert Recurrer(desk.store, desk.clock).compare_zones() == 0


def test_what_is_due_when_changed_rules_are_noticed_is_made_first(desk: Desk) -> None:
    right = desk.put(timezone="Europe/Paris")
    old = replace(right, zone_digest="of an older database")
    assert desk.store.put_schedule(right, old, desk.clock.now()) is not None
    desk.clock.advance(3700)
    assert Recurrer(desk.store, desk.clock).compare_zones() == 1
    assert desk.dues() == ["13:00:00"]
    assert desk.fates() == [Fate.CREATED]
