"""Schedules as users hold them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import InvalidInput, NotFound, Scheduler, TooLarge
from oncue.core.cron import Mark
from oncue.core.moment import parse
from oncue.testing import FakeClock, HandDriven

START = parse("2026-03-27T12:00:00Z")


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HandDriven]:
    place = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    with HandDriven(place, clock=FakeClock(START)) as cue:
        yield cue


def handled(cue: HandDriven, queue: str = "q") -> list[str]:
    """When jobs of the queue are handled from now on."""
    times: list[str] = []

    @cue.handler(queue)
    def handle(job: Any) -> None:
        times.append(datetime.fromtimestamp(cue.clock.now() / 1000, UTC).strftime("%d %H:%M:%S"))

    return times


def test_a_cron_expression_makes_jobs_at_its_times_exactly(cue: HandDriven) -> None:
    times = handled(cue)
    cue.every("30 2 * * *", name="nightly", timezone="Europe/Paris", queue="q")
    cue.advance(3 * 86_400)
    assert times == ["28 01:30:00", "29 01:00:00", "30 00:30:00"]


@pytest.mark.parametrize("rhythm", [900, 900.0, timedelta(minutes=15), "PT15M"])
def test_an_interval_counts_from_its_creation(cue: HandDriven, rhythm: Any) -> None:
    times = handled(cue)
    cue.advance(7)
    schedule = cue.every(rhythm, name="often", queue="q")
    assert schedule.every_seconds == 900
    cue.advance(3000)
    assert times == ["27 12:15:07", "27 12:30:07", "27 12:45:07"]


def test_calling_it_at_every_start_changes_nothing(cue: HandDriven) -> None:
    first = cue.every(900, name="often", queue="q", payload={"a": 1})
    cue.advance(600)
    again = cue.every(900, name="often", queue="q", payload={"a": 1})
    assert again == first
    assert cue.schedule_named("often") == first


def test_a_job_knows_its_schedule_and_has_its_fields(cue: HandDriven) -> None:
    cue.every(60, name="s", queue="q", payload={"a": 1}, owner="ada")
    cue.advance(60)
    job = next(cue.jobs(queue="q"))
    assert (job.schedule, job.payload, job.owner) == ("s", {"a": 1}, "ada")
    assert cue.schedule().schedule is None


def test_a_pause_holds_until_it_is_resumed_also_through_another_put(cue: HandDriven) -> None:
    times = handled(cue)
    cue.every(60, name="s", queue="q")
    assert cue.pause_schedule("s").paused
    assert cue.every(60, name="s", queue="q", payload=1).paused
    cue.advance(600)
    assert times == []
    assert not cue.resume_schedule("s").paused
    cue.advance(60)
    assert times == ["27 12:11:00"]
    [outcome, _] = [one for one in cue.schedule_outcomes("s") if one.fate != "withdrawn"][:2]
    assert (outcome.fate, outcome.count) == ("paused", 10)


def test_put_may_pause_and_resume(cue: HandDriven) -> None:
    assert cue.put_schedule("s", every_seconds=60, paused=True).paused
    assert not cue.put_schedule("s", every_seconds=60, paused=False).paused


def test_next_runs_show_both_times_and_mark_gaps_and_overlaps(cue: HandDriven) -> None:
    cue.every("30 2 * * *", name="s", timezone="Europe/Paris")
    runs = cue.next_runs("s", 3)
    assert [f"{run.at:%d %H:%M} {run.local:%d %H:%M} {run.mark}" for run in runs] == [
        "28 01:30 28 02:30 normal",
        "29 01:00 29 03:00 gap",
        "30 00:30 30 02:30 normal",
    ]
    assert runs[1].note == "02:30 does not exist on this day: at the end of the gap"
    assert len(cue.next_runs("s")) == 20
    autumn = [run for run in cue.next_runs("s", 365) if run.mark is Mark.OVERLAP]
    assert [f"{run.local:%d.%m.}" for run in autumn] == ["25.10."]


def test_a_preview_tells_what_a_change_would_change_and_changes_nothing(cue: HandDriven) -> None:
    before = cue.every("0 9,17 * * *", name="s")
    seen = cue.preview_schedule("s", cron="0 9,18 * * *", count=4)
    assert [f"{run.at:%d %H}" for run in seen.removed] == ["27 17", "28 17"]
    assert [f"{run.at:%d %H}" for run in seen.added] == ["27 18", "28 18"]
    assert [f"{run.at:%d %H}" for run in seen.kept] == ["28 09", "29 09"]
    assert cue.schedule_named("s") == before
    same = cue.preview_schedule("s", cron="0 9,17 * * *")
    assert (same.removed, same.added, len(same.kept)) == ([], [], 20)
    new = cue.preview_schedule("new", every_seconds=60, count=2)
    assert (len(new.removed), len(new.added)) == (0, 2)


def test_schedules_are_listed_by_name(cue: HandDriven) -> None:
    for name in ("b", "a"):
        cue.every(60, name=name)
    assert [one.name for one in cue.schedules()] == ["a", "b"]


def test_a_deleted_schedule_makes_no_more_jobs(cue: HandDriven) -> None:
    times = handled(cue)
    cue.every(60, name="s", queue="q")
    cue.advance(60)
    cue.delete_schedule("s")
    cue.advance(600)
    assert len(times) == 1
    assert list(cue.schedules()) == []


def test_after_an_outage_the_last_missed_occurrence_is_made_up_for(cue: HandDriven) -> None:
    times = handled(cue)
    cue.every("0 * * * *", name="s", queue="q")
    cue.clock.advance(5 * 3600 + 600)
    cue.run_due()
    assert times == ["27 17:10:00"]
    assert [(one.fate, one.count) for one in cue.schedule_outcomes("s")] == [
        ("missed", 4),
        ("created", 1),
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda cue: cue.schedule_named("none"),
        lambda cue: cue.next_runs("none"),
        lambda cue: cue.pause_schedule("none"),
        lambda cue: cue.resume_schedule("none"),
        lambda cue: cue.delete_schedule("none"),
        lambda cue: cue.schedule_outcomes("none"),
        lambda cue: cue.schedule_named("not a name"),
        lambda cue: cue.schedule_named("\ud800"),
    ],
)
def test_a_schedule_that_there_is_not_is_not_found(cue: HandDriven, call: Any) -> None:
    with pytest.raises(NotFound, match="there is no schedule"):
        call(cue)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "a b", "every_seconds": 60}, "/name"),
        ({"name": "s"}, "/cron"),
        ({"name": "s", "cron": "x"}, "/cron"),
        ({"name": "s", "every_seconds": 60, "timezone": None}, "/timezone"),
        ({"name": "s", "every_seconds": 60, "owner": ""}, "/owner"),
        ({"name": "s", "every_seconds": 60, "payload": {1j}}, "/payload"),
        ({"name": "s", "every_seconds": 60, "emits": {}}, "/emits"),
        ({"name": "s", "every_seconds": 60, "paused": "yes"}, "/paused"),
    ],
)
def test_bad_members_are_refused_with_their_place_and_store_nothing(
    cue: HandDriven, fields: Any, pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        cue.put_schedule(**fields)
    assert refused.value.pointer == pointer
    assert list(cue.schedules()) == []


def test_an_expression_that_never_comes_is_refused(cue: HandDriven) -> None:
    with pytest.raises(InvalidInput, match="never happens"):
        cue.every("0 0 */31 * 1#2", name="s")


def test_a_payload_that_is_too_large_is_refused(cue: HandDriven) -> None:
    with pytest.raises(TooLarge):
        cue.every(60, name="s", payload="x" * 300_000)


@pytest.mark.parametrize("count", [0, 1001, "5", True])
def test_a_count_of_runs_has_bounds(cue: HandDriven, count: Any) -> None:
    cue.every(60, name="s")
    with pytest.raises(InvalidInput) as refused:
        cue.next_runs("s", count)
    assert refused.value.pointer == "/count"


@pytest.mark.parametrize("name", ["crom", "revision", "anchor_at", "unfinished"])
def test_a_field_that_there_is_not_is_refused_by_its_name(cue: HandDriven, name: str) -> None:
    for put in (cue.put_schedule, cue.preview_schedule):
        with pytest.raises(InvalidInput, match="there is no such field") as refused:
            put("s", **{"cron": "* * * * *", name: 1})  # type: ignore[arg-type]
        assert refused.value.pointer == f"/{name}"
    assert list(cue.schedules()) == []


def test_schedules_outlive_the_process(tmp_path: Path) -> None:
    place, clock = f"sqlite:///{tmp_path / 'jobs.db'}", FakeClock(START)
    with Scheduler(place, clock=clock) as first:
        stored = first.every("0 * * * *", name="s", queue="q", emits=None)
    with HandDriven(place, clock=clock) as second:
        times = handled(second)
        assert second.schedule_named("s") == stored
        second.advance(3600)
        assert times == ["27 13:00:00"]


def test_an_occurrence_that_somebody_had_is_not_made_again_by_an_edit(cue: HandDriven) -> None:
    cue.set_queue("q", retention_seconds=0)
    cue.every(10, name="often", queue="q", payload=1)
    cue.run_due()
    _, second, *_ = sorted(cue.jobs(queue="q"), key=lambda job: job.due_at)
    cue.run(second.id)
    [claim] = cue.claim("q", "ada")
    cue.complete(claim.id, cue.token(claim))
    cue.every(10, name="often", queue="q", payload=2)
    cue.run_due()
    assert second.due_at not in [job.due_at for job in cue.jobs(queue="q")]


def test_an_edit_makes_what_is_due_by_the_old_settings(cue: HandDriven) -> None:
    cue.every(100, name="seldom", queue="old")
    cue.clock.advance(101)
    cue.every(100, name="seldom", queue="new")
    assert [job.queue for job in cue.jobs()] == ["old"]
