"""Schedules through `oncue.Client`: as a `Scheduler` has them, and the same refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from oncue import Client, InvalidInput, NotFound, Run, Scheduler, TooLarge
from oncue.core.schedule import Emission, Schedule
from tests.http.meddler import LOSE, Meddler, meddling
from tests.http.patience import until
from tests.http.server import Server

EVERYTHING: dict[str, Any] = {
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"a": [1, None]},
    "owner": "ada",
    "catch_up": "all",
    "overlap": "queue",
    "paused": True,
}


def seen(schedule: Schedule) -> tuple[object, ...]:
    """What people see of a schedule, wherever it comes from."""
    times = (schedule.next_at, schedule.last_at, schedule.created_at, schedule.updated_at)
    return (schedule.settings, *times, schedule.progress.last_job_id)


def shown(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """As texts: a time that comes twice is equal to nothing in another zone, not even to itself."""
    return [(run.at.isoformat(), run.local.isoformat(), run.mark, run.note) for run in runs]


def test_a_schedule_is_stored_and_read_as_from_nearby(client: Client, cue: Scheduler) -> None:
    made = client.every("30 2 * * *", name="all", **EVERYTHING)
    assert seen(made) == seen(cue.schedule_named("all")) == seen(client.schedule_named("all"))
    assert made.payload == EVERYTHING["payload"]


@pytest.mark.parametrize("rhythm", [900, 900.0, timedelta(minutes=15), "PT15M"])
def test_an_interval_may_be_said_in_every_way(
    client: Client, cue: Scheduler, rhythm: object
) -> None:
    made = client.every(rhythm, name="interval")  # type: ignore[arg-type]
    here = cue.schedule_named("interval")
    assert made.every_seconds == here.every_seconds == 900
    assert made.anchor_at == here.anchor_at


@pytest.mark.parametrize(
    "emits",
    [Emission("FILE", "/in/"), {"eventType": "FILE", "eventResourceId": "/in"}],
    ids=["object", "mapping"],
)
def test_an_emission_travels(client: Client, emits: Any) -> None:
    made = client.put_schedule("emits", cron="0 0 1 * *", emits=emits)
    assert made.emits == Emission("FILE", "/in")


def test_all_schedules_are_listed(client: Client, cue: Scheduler) -> None:
    for number in range(3):
        client.every("0 0 1 * *", name=f"listed-{number}")
    assert [seen(one) for one in client.schedules()] == [seen(one) for one in cue.schedules()]


def test_pausing_stays_until_resumed(client: Client) -> None:
    client.every("0 0 1 * *", name="halted")
    assert client.pause_schedule("halted").paused
    assert client.every("0 0 2 * *", name="halted").paused
    assert not client.resume_schedule("halted").paused


def test_the_coming_runs_are_the_same_from_afar(client: Client, cue: Scheduler) -> None:
    client.every("30 2 * * *", name="runs", timezone="Europe/Paris", paused=True)
    there, here = client.next_runs("runs", 400), cue.next_runs("runs", 400)
    assert shown(there) == shown(here)
    assert {str(run.mark) for run in there} == {"normal", "gap", "overlap"}
    edit: dict[str, Any] = {"cron": "30 3 * * *", "timezone": "Europe/Paris", "count": 5}
    far, near = client.preview_schedule("runs", **edit), cue.preview_schedule("runs", **edit)
    assert [shown(runs) for runs in far] == [shown(runs) for runs in near]
    assert far.added


def test_outcomes_are_told_and_a_worker_knows_the_schedule(client: Client, cue: Scheduler) -> None:
    client.every(1, name="often", queue="often")
    [claim] = until(lambda: client.claim("often", "me"))
    assert claim.schedule == "often"
    assert client.job(claim.id).schedule == "often"
    client.pause_schedule("often")
    assert client.schedule_outcomes("often") == cue.schedule_outcomes("often")
    assert claim.id in {one.job_id for one in client.schedule_outcomes("often")}
    client.delete_schedule("often")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"cron": "nonsense"}, "/cron"),
        ({"cron": "0 0 1 * *", "timezone": "Mars"}, "/timezone"),
        ({"every_seconds": 0}, "/every_seconds"),
        ({"every_seconds": 60, "emits": {"eventType": "FILE"}}, "/emits"),
        ({"every_seconds": 60, "catch_up": "twice"}, "/catch_up"),
        ({"every_seconds": 60, "payload": object()}, "/payload"),
        ({"every_seconds": 60, "paused": "no"}, "/paused"),
    ],
)
def test_what_is_wrong_is_raised_with_the_same_place(
    client: Client, cue: Scheduler, fields: Any, pointer: str
) -> None:
    for one in (client, cue):
        with pytest.raises(InvalidInput) as refused:
            one.put_schedule("wrong", **fields)
        assert refused.value.pointer == pointer


def test_what_is_too_large_or_unknown_is_raised_as_such(client: Client) -> None:
    with pytest.raises(TooLarge):
        client.every(60, name="large", payload="x" * 300_000)
    for ask in (
        client.schedule_named,
        client.delete_schedule,
        client.pause_schedule,
        client.schedule_outcomes,
        client.next_runs,
    ):
        with pytest.raises(NotFound, match="nowhere"):
            ask("nowhere")


@pytest.fixture
def proxy(server: Server) -> Iterator[Meddler]:
    with meddling(server.url) as proxy:
        yield proxy


def test_lost_answers_do_no_harm(proxy: Meddler, cue: Scheduler) -> None:
    with Client(proxy.url) as client:
        proxy.plan.extend([LOSE, LOSE])
        client.every("0 0 1 * *", name="lossy")
        proxy.plan.append(LOSE)
        assert client.pause_schedule("lossy").paused
        proxy.plan.append(LOSE)
        client.delete_schedule("lossy")
        assert "lossy" not in [one.name for one in cue.schedules()]
        with pytest.raises(NotFound):
            client.delete_schedule("lossy")


@pytest.mark.parametrize("name", ["", "\ud800", "a/b", 5])
def test_a_name_that_no_schedule_can_have_is_not_found(
    client: Client, cue: Scheduler, name: Any
) -> None:
    asked = ["schedule_named", "pause_schedule", "next_runs", "schedule_outcomes"]
    for verb in [*asked, "delete_schedule"]:
        told = []
        for one in (cue, client):
            with pytest.raises(NotFound) as refused:
                getattr(one, verb)(name)
            told.append(str(refused.value))
        assert told[0] == told[1]
    for one in (cue, client):
        with pytest.raises(InvalidInput) as refusal:
            one.put_schedule(name, every_seconds=60)
        assert refusal.value.pointer == "/name"
