"""The recurrer: jobs ahead of their time, trouble with one schedule, and changed time zones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import OncueError, StoreUnavailable
from oncue.core.job import Job, JobFilter
from oncue.core.moment import Moment, parse, render, to_datetime
from oncue.core.recurrence import AHEAD_MS, Fate
from oncue.core.schedule import Emission, Schedule, check_schedule
from oncue.engine.node import Node
from oncue.engine.recurrer import LONGEST_REST_SECONDS, Recurrer
from oncue.ports.clock import Clock
from oncue.ports.schedules import Advance
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from tests.contract.changing import CANCEL, Amendment, amend
from tests.contract.promises import listed
from tests.contract.recurring import put_schedule
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan
from tests.stores.kinds import open_kind

START = parse("2026-05-04T12:00:00Z")


class NarrowStore(MemoryStore):
    """Takes no more than three jobs of an advance. It can be killed at one of them, before or after
    it is applied."""

    fits = 3
    dies_at: int | None = None
    after = False
    count = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.traits = self.traits._replace(advance_fits=self.fits)

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        for one in advances:
            assert len(one.jobs) <= self.fits
            assert len(one.withdrawn) <= self.fits
        self.count += 1
        if self.count == self.dies_at and not self.after:
            raise Killed
        answer = super().advance(advances, now)
        if self.count == self.dies_at:
            raise Killed
        return answer


class Killed(BaseException):
    """The process ends here."""


class Desk:
    def __init__(self, kind: str | type[MemoryStore] = "memory") -> None:
        self.clock = FakeClock(START)
        self.store: Store = (
            open_kind(kind, Path(), self.clock) if isinstance(kind, str) else kind(self.clock)
        )
        self.recurrer = Recurrer(Node.of(self.store, self.clock))

    def put(self, name: str = "s", **fields: Any) -> Schedule:
        timing = {} if "every_seconds" in fields else {"cron": "0 * * * *"}
        wanted = check_schedule(Schedule(name, **{**timing, **fields}))
        return self.recurrer.change(name, lambda _: wanted)

    def go(self, seconds: float = 0) -> float:
        """Let time pass and do all that is to be done; how long it may rest."""
        self.clock.advance(seconds)
        while (rest := self.recurrer.step()) == 0:
            continue
        return rest

    def jobs(self) -> list[Job]:
        return listed(self.store, JobFilter(), 500)

    def dues(self) -> list[str]:
        return [job.due_at.strftime("%H:%M:%S") for job in self.jobs()]

    def fates(self, name: str = "s") -> list[str]:
        return [str(one.fate) for one in self.store.outcomes(name)]


@pytest.fixture(params=["memory", "hostile"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(request.param)


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
    assert len(desk.jobs()) == 6000
    last = [one.at for one in desk.store.outcomes("s") if one.fate is Fate.CREATED][-1]
    assert last == to_datetime(desk.clock.now())


@pytest.fixture
def narrow() -> Desk:
    return Desk(NarrowStore)


def test_all_that_was_missed_is_made_page_by_page(narrow: Desk) -> None:
    narrow.put(catch_up="all")
    narrow.go(100 * 3600 + 60)
    dues = [job.due_at for job in narrow.jobs()]
    assert dues == [to_datetime(START + hour * 3_600_000) for hour in range(1, 101)]


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_between_the_pages_of_what_was_missed_loses_and_repeats_nothing(
    after: bool,
) -> None:
    """Wherever it comes: before a page is stored or after."""
    for dies_at in range(2, 9):
        desk = Desk(NarrowStore)
        store = desk.store
        assert isinstance(store, NarrowStore)
        desk.put(catch_up="all")
        store.dies_at, store.after = dies_at, after
        with pytest.raises(Killed):
            desk.go(20 * 3600 + 60)
        desk.recurrer = Recurrer(Node.of(store, desk.clock))
        desk.go()
        dues = [job.due_at for job in desk.jobs()]
        assert dues == [to_datetime(START + hour * 3_600_000) for hour in range(1, 21)]


def test_a_dense_schedule_is_never_out_of_jobs_although_few_are_made_at_once(narrow: Desk) -> None:
    narrow.put(every_seconds=1)
    for second in range(1, 60):
        narrow.go(1)
        ahead = {job.due_at for job in narrow.jobs()}
        assert to_datetime(narrow.clock.now() + 1000) in ahead, second


def test_a_change_withdraws_page_by_page_what_was_made_ahead_of_time(narrow: Desk) -> None:
    narrow.put(every_seconds=1, catch_up="all", payload_json=b'"old"')
    narrow.go(60)
    due = [job.id for job in narrow.jobs() if job.due_at <= to_datetime(narrow.clock.now())]
    assert len(narrow.jobs()) - len(due) > 10
    narrow.put(every_seconds=1, catch_up="all", payload_json=b'"new"')
    assert [job.id for job in narrow.jobs()] == due
    narrow.go()
    ahead = [job for job in narrow.jobs() if job.id not in due]
    assert {job.payload for job in ahead} == {"new"}
    seconds = [job.due_at for job in narrow.jobs()]
    assert seconds == [to_datetime(START + 1000 * n) for n in range(1, len(seconds) + 1)]


def test_deleting_withdraws_page_by_page(narrow: Desk) -> None:
    narrow.put(every_seconds=1, catch_up="all")
    narrow.go(60)
    assert narrow.recurrer.delete("s")
    assert narrow.dues()[-1] == "12:01:00"
    assert len(narrow.jobs()) == 60


def test_what_a_change_withdrew_before_its_process_died_is_made_again_in_time() -> None:
    for dies_at in range(1, 8):
        desk = Desk(NarrowStore)
        store = desk.store
        assert isinstance(store, NarrowStore)
        desk.put(every_seconds=1, catch_up="all")
        desk.go(60)
        store.count, store.dies_at, store.after = 0, dies_at, True
        with suppress(Killed):
            desk.recurrer.delete("s")
        if store.schedule("s") is None:
            continue
        store.dies_at = None
        desk.recurrer = Recurrer(Node.of(store, desk.clock))
        desk.go()
        for _ in range(40):
            desk.go(1)
        dues = [job.due_at for job in desk.jobs()]
        assert dues == [to_datetime(START + 1000 * n) for n in range(1, len(dues) + 1)]
        assert len(dues) > 100


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
    desk.store.change([job.id], amend(Amendment(desk.clock.now())), desk.clock.now())
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
    desk.store.change([desk.jobs()[0].id], CANCEL, desk.clock.now())
    desk.go(3600)
    assert desk.fates() == ["created", "overlapped", "created"]


def test_overlap_queue_makes_the_job_once_the_one_before_has_ended(desk: Desk) -> None:
    desk.put(overlap="queue")
    desk.go(3600)
    assert 0 < desk.go(3600) <= 1
    assert len(desk.jobs()) == 1
    desk.store.change([desk.jobs()[0].id], CANCEL, desk.clock.now())
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


class Publisher:
    """Publishes events, except the first `troubles` times, and counts the tries."""

    def __init__(self, troubles: int) -> None:
        self.troubles = troubles
        self.tries = 0
        self.published: list[tuple[str, Moment]] = []

    def __call__(self, schedule: Schedule, moments: Sequence[Moment]) -> None:
        self.tries += 1
        if self.tries <= self.troubles:
            raise StoreUnavailable("locked for a moment")
        self.published.extend((schedule.name, at) for at in moments)


def test_a_passing_store_error_delays_an_event_by_seconds(desk: Desk) -> None:
    desk.recurrer.publish = publisher = Publisher(troubles=3)
    desk.put(emits=Emission("TIME_BASED", "cron"))
    desk.go(3600)
    for seconds in (1, 2):
        desk.go(seconds)
        assert publisher.published == []
    desk.go(4)
    assert publisher.published == [("s", START + 3_600_000)]
    assert desk.fates() == ["emitted"]


@pytest.mark.parametrize("catch_up", ["skip", "once", "all"])
def test_an_occurrence_first_tried_in_time_is_not_missed_however_long_the_trouble_lasts(
    desk: Desk, catch_up: str
) -> None:
    desk.recurrer.publish = publisher = Publisher(troubles=12)
    desk.put(emits=Emission("TIME_BASED", "cron"), catch_up=catch_up)
    desk.go(3600)
    for _ in range(900):
        desk.go(1)
    assert publisher.published == [("s", START + 3_600_000)]
    assert desk.fates() == ["emitted"]
    desk.go(2700)
    assert desk.fates() == ["emitted", "emitted"]


def test_passing_trouble_is_tried_less_and_less_often_but_every_minute(desk: Desk) -> None:
    desk.recurrer.publish = publisher = Publisher(troubles=1000)
    desk.put(emits=Emission("TIME_BASED", "cron"))
    desk.clock.advance(3599)
    for _ in range(600):
        desk.go(1)
    assert 10 <= publisher.tries <= 16


def test_while_the_store_does_not_answer_one_publication_is_tried_and_not_all(desk: Desk) -> None:
    desk.recurrer.publish = publisher = Publisher(troubles=1)
    for name in ("a", "b", "c"):
        desk.put(name, emits=Emission("TIME_BASED", name))
    desk.put("job")
    desk.go(3600)
    assert publisher.tries == 1
    assert [job.schedule for job in desk.jobs()] == ["job"]
    desk.go(1)
    assert sorted(publisher.published) == [(name, START + 3_600_000) for name in ("a", "b", "c")]


def test_what_could_not_be_stored_in_time_is_judged_by_the_first_try(desk: Desk) -> None:
    """The jobs of a schedule are stored together with its progress; here that fails for long."""
    plan = Plan(1, {Fault.FAIL: 1.0}, only={"advance"}, first_n=3)
    store = FaultyStore(desk.store, plan)
    desk.put(catch_up="skip", overlap="skip")
    desk.recurrer = Recurrer(Node.of(store, desk.clock))
    desk.clock.advance(3600)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            desk.recurrer.step()
        desk.clock.advance(30)
    desk.go()
    assert desk.dues() == ["13:00:00"]
    assert desk.fates() == ["created"]


def test_lasting_trouble_is_looked_at_every_minute_and_judged_as_it_is_then(desk: Desk) -> None:
    desk.put(emits=Emission("TIME_BASED", "cron"), catch_up="skip")
    desk.go(3600)
    desk.recurrer.publish = publisher = Publisher(troubles=0)
    desk.go(59)
    assert publisher.tries == 0
    desk.go(2)
    assert desk.fates() == ["missed"]


def test_where_nobody_publishes_an_emitting_schedule_waits_and_says_so(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put(emits=Emission("TIME_BASED", "cron"))
    with caplog.at_level(logging.ERROR, "oncue.engine"):
        desk.go(3600)
    assert "this process does not publish them" in caplog.text
    assert desk.fates() == []
    assert desk.recurrer.publish is None


def test_a_time_zone_that_has_gone_stops_its_schedules_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put("good")
    gone = desk.put("bad")
    lost = replace(gone, timezone="Mars/Olympus", zone_digest="?")
    assert put_schedule(desk.store, gone, lost, desk.clock.now()) is not None
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
    assert put_schedule(desk.store, right, old, desk.clock.now()) is not None
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        Recurrer(Node.of(desk.store, desk.clock)).step()
    found = desk.store.schedule("s")
    assert found is not None
    assert found.zone_digest == right.zone_digest
    assert found.progress == right.progress
    assert "the rules of their time zones have changed" in caplog.text
    assert Recurrer(Node.of(desk.store, desk.clock)).compare_zones() == 0


def test_what_is_due_when_changed_rules_are_noticed_is_made_first(desk: Desk) -> None:
    right = desk.put(timezone="Europe/Paris")
    old = replace(right, zone_digest="of an older database")
    assert put_schedule(desk.store, right, old, desk.clock.now()) is not None
    desk.clock.advance(3700)
    assert Recurrer(Node.of(desk.store, desk.clock)).compare_zones() == 1
    assert desk.dues() == ["13:00:00"]
    assert desk.fates() == [Fate.CREATED]


def test_a_schedule_that_cannot_be_timed_keeps_no_other_from_changed_rules(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    for name, zone in (("a", "Europe/Paris"), ("b", "Europe/Paris"), ("c", "Europe/Rome")):
        right = desk.put(name, timezone=zone)
        cron = "no cron at all" if name == "a" else right.cron
        old = replace(right, zone_digest="of an older database", cron=cron)
        assert put_schedule(desk.store, right, old, desk.clock.now()) is not None
    with caplog.at_level(logging.ERROR, "oncue.engine"):
        assert Recurrer(Node.of(desk.store, desk.clock)).compare_zones() == 2
    assert "schedule a waits" in caplog.text
