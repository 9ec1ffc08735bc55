"""Rules, events, schedules and reclaim runs: a `Client` answers what a `Scheduler` of the same
store answers, and the command line prints what the server answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oncue import Client, Scheduler
from oncue.core.moment import EPOCH
from oncue.core.publication import EventFilter
from oncue.core.schedule import Progress, Schedule
from tests.cli.terminal import run
from tests.http.server import Server

FILE = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 60}
AT = "2021-01-01T12:00:30Z"


def cron(name: str) -> dict[str, Any]:
    return {"type": "TIME_BASED", "resourceId": f"cron-{name}", "lifeDuration": 0}


def event(resource: str, second: int, kind: str = "TIME_BASED") -> dict[str, str]:
    at = f"2021-01-01T12:00:{second:02}.000001Z"
    return {"eventType": kind, "eventResourceId": resource, "eventTimestamp": at}


def lived_through(cue: Scheduler, name: str, *, enabled: bool = True) -> None:
    """A rule that has fired, and has had a stale event and a repeated one."""
    folder = FILE | {"resourceId": f"/{name}/"}
    cue.put_rule(name, [folder, cron(name)], queue=name, payload={"a": [1]}, enabled=enabled)
    file = event(f"/{name}/a", 0, "FILE")
    clock = event(f"cron-{name}", 30)
    cue.publish([file, clock, clock, event(f"cron-{name}", 20)])


@pytest.mark.parametrize("enabled", [True, False])
def test_a_rule_and_how_it_stands(client: Client, cue: Scheduler, enabled: bool) -> None:
    name = f"p-rule-{enabled}"
    lived_through(cue, name, enabled=enabled)
    assert client.rule(name) == cue.rule(name)
    assert [rule for rule in client.rules() if rule.name == name] == [cue.rule(name)]
    for at in (AT, "2021-01-01T13:00:00Z", "2020-01-01T00:00:00Z"):
        assert client.explain_rule(name, at) == cue.explain_rule(name, at)


@pytest.mark.parametrize("enabled", [True, False])
def test_events_and_what_was_decided_on_them(client: Client, cue: Scheduler, enabled: bool) -> None:
    name = f"p-event-{enabled}"
    lived_through(cue, name, enabled=enabled)
    wanted = EventFilter(rule=name)
    assert client.event_page(wanted, None, 2) == cue.event_page(wanted, None, 2)
    assert list(client.events(rule=name)) == list(cue.events(rule=name))
    [here] = cue.publish(event(f"cron-{name}", 30))
    [there] = client.publish(event(f"cron-{name}", 30))
    # When and how often it was decided is told to those who look, not to those who publish.
    told = tuple(replace(one, decided_at=None, times=1) for one in here.decisions)
    assert there == replace(here, decisions=told)


def as_told(schedule: Schedule) -> Schedule:
    """Without the fields that the HTTP interface does not have."""
    interval = schedule.every_seconds is not None
    return replace(
        schedule,
        anchor_at=schedule.anchor_at if interval else EPOCH,
        zone_digest="",
        revision=0,
        unfinished=False,
        progress=schedule.progress._replace(wake_at=None),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"cron": "0 9 * * *", "timezone": "Europe/Paris", "payload": {"a": 1}, "owner": "ada"},
        {"every_seconds": 90.5, "overlap": "skip", "catch_up": "all", "paused": True},
        {"every_seconds": 60, "emits": {"eventType": "TABLE", "eventResourceId": "t"}},
    ],
    ids=["cron", "interval", "event"],
)
def test_a_schedule(client: Client, cue: Scheduler, settings: dict[str, Any]) -> None:
    name = f"p-schedule-{len(settings)}-{'cron' in settings}"
    there = client.put_schedule(name, **settings)
    assert there == as_told(cue.schedule_named(name))
    assert there.progress != Progress()
    assert client.schedule_named(name) == there
    assert [one for one in client.schedules() if one.name == name] == [there]
    assert client.schedule_outcomes(name) == list(cue.schedule_outcomes(name))
    changed = settings | {"timezone": "America/New_York"}
    changed.pop("paused", None)
    here = cue.preview_schedule(name, count=3, **changed)
    assert [len(runs) for runs in client.preview_schedule(name, count=3, **changed)] == [
        len(runs) for runs in here
    ]
    assert [(run.at, run.local, run.mark, run.note) for run in client.next_runs(name, 3)] == [
        (run.at, run.local, run.mark, run.note) for run in cue.next_runs(name, 3)
    ]


def test_a_reclaim_run(client: Client, cue: Scheduler) -> None:
    cue.schedule(queue="p-reclaim")
    cue.claim("p-reclaim", "ada")
    here = cue.reclaim(log_reclaim_only=True)
    there = client.reclaim(log_reclaim_only=True)
    assert there.would_reclaim is not None
    assert here.would_reclaim is not None
    assert [replace(one, age_seconds=0, why="") for one in there.would_reclaim] == [
        replace(one, age_seconds=0, why="") for one in here.would_reclaim
    ]
    assert replace(there, would_reclaim=[]) == replace(here, would_reclaim=[])
    assert client.reclaim(reclaim_age_minutes=9_999) == cue.reclaim(reclaim_age_minutes=9_999)


@pytest.mark.parametrize("at", ["store", "server"])
def test_the_command_line_prints_what_the_server_answers(
    server: Server, cue: Scheduler, at: str
) -> None:
    name = f"p-cli-rule-{at}"
    lived_through(cue, name)
    cue.put_schedule(name, every_seconds=60, paused=True)
    place = {"ONCUE_URL": server.url} if at == "server" else {"ONCUE_STORE": server.store}

    def printed(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json", cwd=server.folder, env=place).out)

    assert printed("rules", "show", name) == server.get(f"/rules/{name}").json
    explained = server.get(f"/rules/{name}/explain?at={AT}").json
    assert printed("rules", "explain", name, "--at", AT) == explained
    logged = server.get(f"/events?rule={name}").json
    assert printed("events", "list", "--rule", name) == logged
    shown = printed("schedules", "show", name)
    assert shown.pop("outcomes") == server.get(f"/schedules/{name}/outcomes").json["items"]
    assert shown == server.get(f"/schedules/{name}").json
