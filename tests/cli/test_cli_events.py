"""`oncue events`: one from the command line, many from a file, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncue.wire.rules import LoggedEvent
from tests.cli.terminal import run, scheduler, see

SCENARIO = Path(__file__).parents[1] / "fixtures" / "seed_001" / "scenario.json"
CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}
FILES = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}
TABLE = {"type": "TABLE", "resourceId": "ORDERS", "lifeDuration": 10}


def event(kind: str, at: str, resource: str) -> dict[str, str]:
    return {"eventType": kind, "eventTimestamp": at, "eventResourceId": resource}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.put_rule("hourly load", [FILES, CRON])
        cue.put_rule("orders", [TABLE])
    return tmp_path


def test_an_event_is_sent_and_its_decisions_are_told(place: Path) -> None:
    run("events", "send", "FILE", "/in/a.csv", "--at", "2021-01-01T12:14:50Z", cwd=place)
    ended = run("events", "send", "TIME_BASED", "cron", "--at", "2021-01-01 12:30", cwd=place)
    with scheduler(place) as cue:
        [job] = cue.jobs(queue="rules")
    head, line, summary = ended.out.splitlines()
    assert head.split() == ["event", "time", "event", "decision", "rule", "job"]
    assert line == f"2021-01-01 12:30:00 UTC  TIME_BASED cron  ACCEPTED  hourly load  {job.id}"
    assert summary == "1 event, 1 ACCEPTED, 1 job created"


def test_an_event_without_a_time_happened_now(place: Path) -> None:
    [sent] = run("events", "send", "TABLE", "ORDERS", "--json", cwd=place).json["events"]
    with scheduler(place) as cue:
        [logged] = cue.events()
        assert cue.clock.now() - logged.event.stamp // 1000 < 60_000
    assert [job["rule"] for job in sent["jobs"]] == ["orders"]


def test_a_time_without_an_offset_is_local_and_fine(place: Path) -> None:
    at = "2021-01-01 07:30:00.000001"
    run("events", "send", "TABLE", "T", "--at", at, cwd=place, env={"TZ": "America/New_York"})
    with scheduler(place) as cue:
        [logged] = cue.events()
    assert LoggedEvent.of(logged).stamp == "2021-01-01T12:30:00.000001Z"


def test_an_event_that_no_rule_waits_for_is_kept_and_told(place: Path) -> None:
    ended = run("events", "send", "TABLE", "ELSEWHERE", cwd=place)
    assert ended.out == "1 event, 1 that no rule waits for, 0 jobs created\n"


def test_an_id_of_ones_own_belongs_to_one_event(place: Path) -> None:
    arguments = ("events", "send", "TABLE", "ORDERS", "--id", "42", "--at")
    assert run(*arguments, "2021-01-01 12:00", cwd=place).code == 0
    again = run(*arguments, "2021-01-01 12:00", cwd=place)
    assert again.out.endswith("1 event, 1 known already, 1 DUPLICATE, 0 jobs created\n")
    taken = run(*arguments, "2021-01-01 13:00", cwd=place)
    assert taken.code == 4
    assert "the event id '42' belongs to another event" in taken.err


@pytest.mark.parametrize("form", ["list", "lines", "object", "one at a time"])
def test_the_scenario_fires_twice_from_a_file_in_any_form(tmp_path: Path, form: str) -> None:
    folder = SCENARIO.parent
    run("rules", "apply", str(folder / "configurations.json"), cwd=tmp_path)
    sent = [row["event"] for row in json.loads(SCENARIO.read_text("utf-8"))]
    texts = {
        "list": [json.dumps(sent, indent=2)],
        "lines": ["\n\n".join(map(json.dumps, sent)) + "\n"],
        "object": [json.dumps({"events": sent})],
        "one at a time": [json.dumps(one) for one in sent],
    }[form]
    answers = [run("events", "send", "-", cwd=tmp_path, stdin=text).out for text in texts]
    created = [int(answer.split()[-3]) for answer in answers]
    assert sum(created) == 2
    with scheduler(tmp_path) as cue:
        instants = [job.payload["instant"] for job in cue.jobs(queue="rules")]
    assert instants == ["2021-01-01T12:30:00.000000Z", "2021-01-01T13:10:00.000000Z"]


def test_of_many_events_the_jobs_are_told(place: Path) -> None:
    lines = [json.dumps(event("TABLE", f"2021-01-01 12:00:{n:02}", "ORDERS")) for n in range(30)]
    (place / "events.ndjson").write_text("\n".join(lines), "utf-8")
    ended = run("events", "send", "events.ndjson", cwd=place)
    first, head, *jobs = ended.out.splitlines()
    assert first == "30 events, 30 ACCEPTED, 30 jobs created"
    assert head.split() == ["rule", "instant", "job"]
    assert len(jobs) == 20
    assert "and 10 more jobs" in ended.err


def test_more_events_than_fit_one_request_are_sent_in_several(place: Path) -> None:
    lines = [
        json.dumps(event("TABLE", f"2021-01-01 12:{n // 60:02}:{n % 60:02}", "ORDERS"))
        for n in range(2001)
    ]
    ended = run("events", "send", "-", cwd=place, stdin="\n".join(lines))
    assert ended.out.startswith("2,001 events, 2,001 ACCEPTED, 2,001 jobs created\n")


def test_nothing_is_sent_if_one_event_is_wrong_and_each_wrong_one_is_named(place: Path) -> None:
    lines = [
        event("TABLE", "2021-01-01 12:00:00", "ORDERS"),
        event("TABEL", "2021-01-01 12:00:00", "ORDERS"),
        event("FILE", "2021-01-01 12:00:00", "/in/../out"),
        event("FILE", "noon", "/in/a"),
    ]
    (place / "events.ndjson").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    ended = run("events", "send", "events.ndjson", cwd=place)
    assert (ended.code, ended.out) == (2, "")
    head, *wrong = ended.err.splitlines()
    assert head == "Error: events.ndjson: 3 of 4 events are wrong; nothing was sent."
    assert [line.split(": ")[:2] for line in wrong] == [
        ["  line 2", "/eventType"],
        ["  line 3", "/eventResourceId"],
        ["  line 4", "/eventTimestamp"],
    ]
    with scheduler(place) as cue:
        assert list(cue.events()) == []


def test_an_event_from_too_far_ahead_is_named_by_its_line(place: Path) -> None:
    good = event("TABLE", "2021-01-01 12:00:00", "ORDERS")
    text = "\n".join(map(json.dumps, [good, event("TABLE", "2999-01-01 00:00:00", "ORDERS")]))
    ended = run("events", "send", "-", cwd=place, stdin=text)
    assert ended.code == 2
    assert "line 2: /eventTimestamp: lies after" in ended.err
    assert ended.err.endswith("Nothing was sent.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("TABLE",), "which TABLE? Give the RESOURCE too."),
        (("TABLE", "A", "B"), "give TYPE and RESOURCE of one event"),
        (("nothing.json",), "No such file"),
        (("-", "--at", "2021-01-01 12:00"), "a file tells its own"),
        (("TABEL", "A"), "TYPE: must be one of FILE, TABLE, TIME_BASED."),
        (("FILE", "/a/../b"), "RESOURCE: must not contain '..'"),
        (("FILE", "/a", "--at", "noon"), "--at: 'noon' is not a time"),
        (("FILE", "/a", "--at", "2999-01-01 00:00"), "--at: lies after"),
        (("-",), "standard input: holds no event."),
    ],
)
def test_wrong_arguments_are_named(place: Path, arguments: tuple[str, ...], said: str) -> None:
    ended = run("events", "send", *arguments, cwd=place)
    assert ended.code in (1, 2)
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_text_that_is_not_json_is_refused_by_its_line(place: Path) -> None:
    text = json.dumps(event("TABLE", "2021-01-01 12:00:00", "ORDERS")) + "\nnope\n"
    ended = run("events", "send", "-", cwd=place, stdin=text)
    assert ended.code == 2
    assert "standard input: line 2 is not JSON" in ended.err


@pytest.fixture
def busy(place: Path) -> Path:
    with scheduler(place) as cue:
        cue.publish(event("TABLE", "2021-01-01 12:00:00", "ORDERS"))
        cue.publish(event("TABLE", "2021-01-01 11:00:00", "ORDERS"))
        cue.publish(event("FILE", "2021-01-01 12:00:00", "/in/a.csv"))
        cue.publish([event("TABLE", "2021-01-01 12:00:00", "ELSEWHERE")] * 2)
        cue.publish([event("TABLE", "2021-01-01 12:00:00", "ORDERS")] * 2)
    return place


def test_events_are_listed_with_what_was_decided_the_last_first(busy: Path) -> None:
    head, *lines = run("events", "list", cwd=busy).out.splitlines()
    assert head.split()[:2] == ["received", "event"]
    for line, told in zip(lines, ["ELSEWHERE", "/in/a.csv", "11:00:00", "12:00:00"], strict=False):
        assert told in line
    assert "DUPLICATE × 2" in lines[-1]


def test_events_are_listed_by_decision_and_by_rule(busy: Path) -> None:
    [_, stale] = run("events", "list", "--decision", "stale", cwd=busy).out.splitlines()
    assert stale.split()[-2:] == ["STALE", "orders"]
    [_, file] = run("events", "list", "--rule", "hourly load", cwd=busy).out.splitlines()
    assert "FILE /in/a.csv  ACCEPTED  hourly load" in file
    none = run("events", "list", "--rule", "orders", "--decision", "TOO_LATE", cwd=busy)
    assert (none.code, none.out, none.err) == (0, "", "There are no such events.\n")
    assert run("events", "list", "--rule", "nobody", cwd=busy).code == 3


def test_a_list_goes_on_where_the_last_one_ended(busy: Path) -> None:
    first = run("events", "list", "--limit", "3", cwd=busy)
    cursor = first.err.split("--cursor ")[1].strip()
    rest = run("events", "list", "--cursor", cursor, "--json", cwd=busy).json
    assert [item["eventTimestamp"][11:16] for item in rest["items"]] == ["12:00"]
    assert rest["next_cursor"] is None
    page = run("events", "list", "--limit", "3", "--json", cwd=busy).json
    assert (len(page["items"]), page["next_cursor"]) == (3, cursor)


def test_a_narrow_terminal_leaves_out_when_events_were_received(busy: Path) -> None:
    assert "received" in see("events", "list", cwd=busy, columns=140).out
    shown = see("events", "list", cwd=busy, columns=90).out
    assert "received" not in shown
    assert all(len(line) <= 90 for line in shown.splitlines())
