"""`oncue rules`: rules from a file, what they wait for, and why they have not fired."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncue.wire.rules import Standing
from tests.cli.terminal import Terminal, run, scheduler, see

CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}
FILES = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}
HOURLY = {"name": "hourly load", "dependencies": [FILES, CRON]}


def event(kind: str, at: str, resource: str) -> dict[str, str]:
    return {"eventType": kind, "eventTimestamp": at, "eventResourceId": resource}


def written(folder: Path, rules: Any) -> str:
    (folder / "rules.json").write_text(json.dumps(rules), "utf-8")
    return "rules.json"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.put_rule("hourly load", [FILES, CRON], payload={"into": "warehouse"})
        cue.publish(event("FILE", "2021-01-01 12:14:50", "/in/a.csv"))
    return tmp_path


@pytest.mark.parametrize("form", [HOURLY, [HOURLY], {"rules": [HOURLY]}, {"items": [HOURLY]}])
def test_apply_takes_one_rule_or_a_list(tmp_path: Path, form: object) -> None:
    ended = run("rules", "apply", written(tmp_path, form), cwd=tmp_path)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "new        hourly load",
        "  + FILE /in/, valid for 60 min",
        "  + TIME_BASED cron, valid for an instant",
        "1 new",
    ]
    with scheduler(tmp_path) as cue:
        assert [one.resource for one in cue.rule("hourly load").dependencies] == ["/in/", "cron"]


def test_apply_reads_standard_input_and_takes_what_show_prints(place: Path) -> None:
    shown = run("rules", "show", "hourly load", "--json", cwd=place)
    ended = run("rules", "apply", "-", cwd=place, stdin=shown.out)
    assert ended.out.splitlines() == ["unchanged  hourly load", "1 unchanged"]
    listed = run("rules", "list", "--json", cwd=place)
    assert run("rules", "apply", "-", cwd=place, stdin=listed.out).out == ended.out


def test_apply_shows_what_differs_from_what_is_stored(place: Path) -> None:
    changed = {
        "name": "hourly load",
        "dependencies": [FILES | {"lifeDuration": 60}, CRON | {"resourceId": "tick"}],
        "enabled": False,
        "queue": "loads",
        "payload": {"into": "lake"},
    }
    ended = run("rules", "apply", written(place, changed), cwd=place)
    assert ended.out.splitlines() == [
        "changed    hourly load",
        "  ~ FILE /in/, valid for 60 min → 60 s",
        "  + TIME_BASED tick, valid for an instant",
        "  - TIME_BASED cron",
        "  ~ enabled true → false",
        '  ~ queue "rules" → "loads"',
        '  ~ payload {"into":"warehouse"} → {"into":"lake"}',
        "1 changed",
    ]


def test_apply_tells_when_only_the_order_of_dependencies_differs(place: Path) -> None:
    swapped = {**HOURLY, "dependencies": [CRON, FILES], "payload": {"into": "warehouse"}}
    ended = run("rules", "apply", written(place, swapped), cwd=place)
    assert "  ~ the order of the dependencies" in ended.out.splitlines()


def test_a_dry_run_changes_nothing(place: Path) -> None:
    rules = [{**HOURLY, "enabled": False}, {"name": "other", "dependencies": [CRON]}]
    ended = run("rules", "apply", written(place, rules), "--dry-run", cwd=place)
    assert ended.out.splitlines()[-1] == "1 new, 1 changed"
    assert "Nothing was changed" in ended.err
    with scheduler(place) as cue:
        assert [(rule.name, rule.enabled) for rule in cue.rules()] == [("hourly load", True)]


def test_a_dry_run_does_not_even_make_the_store(tmp_path: Path) -> None:
    ended = run("rules", "apply", written(tmp_path, HOURLY), "-n", cwd=tmp_path)
    assert ended.out.splitlines()[-1] == "1 new"
    assert os.listdir(tmp_path) == ["rules.json"]


def test_apply_as_json(place: Path) -> None:
    rules = [{**HOURLY, "queue": "loads"}, {"name": "other", "dependencies": [CRON]}]
    answer = run("rules", "apply", written(place, rules), "--json", cwd=place).json
    assert answer["dry_run"] is False
    first, other = answer["items"]
    assert (first["name"], first["change"]) == ("hourly load", "changed")
    assert first["changed"] == {
        "queue": {"from": "rules", "to": "loads"},
        "payload": {"from": {"into": "warehouse"}, "to": None},
    }
    assert (other["change"], other["changed"]["queue"]) == ("new", {"from": None, "to": "rules"})


def test_nothing_is_stored_if_one_rule_is_wrong_and_each_wrong_one_is_named(
    tmp_path: Path,
) -> None:
    rules = [
        HOURLY,
        {"name": "bad life", "dependencies": [CRON | {"lifeDuration": -1}]},
        {"dependencies": [CRON]},
        HOURLY,
        {"name": "odd", "dependencies": [CRON], "cue": 1},
        "text",
    ]
    ended = run("rules", "apply", written(tmp_path, rules), cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    head, *wrong = ended.err.splitlines()
    assert head == "Error: rules.json: 5 of 6 rules are wrong; nothing was stored."
    assert [line.split(": ")[:2] for line in wrong] == [
        ["  rule 2 'bad life'", "/dependencies/0/lifeDuration"],
        ["  rule 3", "/name"],
        ["  rule 4 'hourly load'", "/name"],
        ["  rule 5 'odd'", "/cue"],
        ["  rule 6", "must be an object with name, dependencies, enabled, queue, payload."],
    ]
    assert os.listdir(tmp_path) == ["rules.json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("[", "rules.json: is not JSON"), ("[]", "holds no rule"), ("3", "holds no rule")],
)
def test_a_file_without_rules_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rules.json").write_text(text, "utf-8")
    ended = run("rules", "apply", "rules.json", cwd=tmp_path)
    assert ended.code == 2
    assert said in ended.err


def test_list_tells_what_rules_wait_for_and_when_they_fired(place: Path) -> None:
    with scheduler(place) as cue:
        cue.put_rule("asleep", [CRON], enabled=False, queue="nights")
        cue.publish(event("TIME_BASED", "2021-01-01 12:30:00", "cron"))
    head, asleep, hourly = run("rules", "list", cwd=place).out.splitlines()
    assert head.split("  ")[0] == "rule"
    assert asleep.split() == ["asleep", "(disabled)", "nights", "–", "TIME_BASED", "cron"]
    assert "2021-01-01 12:30:00 UTC  FILE /in/, TIME_BASED cron" in hourly
    items = run("rules", "list", "--json", cwd=place).json["items"]
    assert [item["lastInstant"] for item in items] == [None, "2021-01-01T12:30:00.000000Z"]


def test_without_rules_the_list_says_how_to_make_one(tmp_path: Path) -> None:
    scheduler(tmp_path).close()
    ended = run("rules", "list", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "oncue rules apply FILE" in ended.err


def test_show_tells_everything_of_a_rule(place: Path) -> None:
    shown = run("rules", "show", "hourly load", cwd=place).out
    assert 'payload   {"into":"warehouse"}' in shown
    assert "last job  none yet" in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [
        ["FILE", "/in/", "60", "min"],
        ["TIME_BASED", "cron", "an", "instant"],
    ]


@pytest.mark.parametrize("command", [["show"], ["explain"], ["delete", "--yes"]])
def test_an_unknown_rule_is_answered_with_the_nearest(place: Path, command: list[str]) -> None:
    ended = run("rules", *command, "hourly lode", cwd=place)
    assert (ended.code, ended.out) == (3, "")
    assert "there is no rule 'hourly lode'. Did you mean 'hourly load'?" in ended.err


def test_explain_draws_when_each_dependency_is_valid_and_says_what_would_fire_it(
    place: Path,
) -> None:
    ended = run("rules", "explain", "hourly load", "--at", "2021-01-01 13:30", cwd=place)
    lines = ended.out.splitlines()
    assert "\x1b" not in ended.out
    assert lines[:4] == [
        "rule      hourly load",
        "at        2021-01-01 13:30:00 UTC",
        "met       no",
        "last job  none yet",
    ]
    files, cron, scale, times = lines[6:10]
    assert files.split()[:4] == ["FILE", "/in/", "EXPIRED", "13:14:50"]
    assert cron.split()[:3] == ["TIME_BASED", "cron", "NEVER_SEEN"]
    assert files.endswith("█" * 32 + "·" * 8)
    assert cron.endswith("░" * 32 + "·" * 8)
    assert scale.strip() == "├" + "─" * 38 + "▲"
    assert times.split() == ["12:14:50", "13:30"]
    assert files.index("█") == cron.index("░") == scale.index("├") == times.index("1")
    assert lines[-1] == (
        "A TIME_BASED event `cron` stamped between 2021-01-01 12:14:50 UTC and "
        "2021-01-01 13:14:50 UTC would fire it."
    )


def test_explain_tells_times_where_the_user_is(place: Path) -> None:
    env = {"TZ": "America/New_York"}
    ended = run("rules", "explain", "hourly load", "--at", "2021-01-01 08:30", cwd=place, env=env)
    assert "at        2021-01-01 08:30:00 EST" in ended.out
    assert "07:14:50" in ended.out
    assert "between 2021-01-01 07:14:50 EST and 2021-01-01 08:14:50 EST" in ended.out


def test_explain_is_about_now_unless_told_otherwise_and_says_that_it_is_far_off(
    place: Path,
) -> None:
    ended = run("rules", "explain", "hourly load", cwd=place)
    scale = next(line for line in ended.out.splitlines() if "├" in line)
    assert scale.endswith("─▶")
    assert "▶ 20" in ended.out
    assert "2021-01-01 12:14:50  2021-01-01 13:14:50" in ended.out


def test_explain_as_json_is_what_the_http_interface_answers(place: Path) -> None:
    at = "2021-01-01T13:30:00Z"
    told = run("rules", "explain", "hourly load", "--at", at, "--json", cwd=place).json
    with scheduler(place) as cue:
        assert told == msgspec.to_builtins(Standing.of(cue.explain_rule("hourly load", at=at)))


def test_explain_refuses_what_is_not_a_time(place: Path) -> None:
    ended = run("rules", "explain", "hourly load", "--at", "noon", cwd=place)
    assert ended.code == 2
    assert "--at: 'noon' is not a time" in ended.err


@pytest.mark.parametrize(
    ("columns", "head"),
    [
        (100, "dependency       validity    until     life"),
        (60, "dependency       validity    until"),
        (52, "dependency       validity"),
    ],
)
def test_a_narrower_terminal_shows_the_bars_rather_than_the_words(
    place: Path, columns: int, head: str
) -> None:
    arguments = ("rules", "explain", "hourly load", "--at", "2021-01-01 13:30")
    shown = see(*arguments, cwd=place, columns=columns).out.splitlines()
    assert head in shown
    assert any("█████" in line and "EXPIRED" in line for line in shown)
    assert all(len(line) <= columns for line in shown)


def test_without_room_for_bars_words_are_left(place: Path) -> None:
    arguments = ("rules", "explain", "hourly load", "--at", "2021-01-01 13:30")
    shown = see(*arguments, cwd=place, columns=40).out
    assert "EXPIRED" in shown
    assert "█" not in shown


def test_validity_has_a_colour_on_a_terminal_and_none_if_declined(place: Path) -> None:
    arguments = ("rules", "explain", "hourly load", "--at", "2021-01-01 13:00")
    with Terminal(*arguments, cwd=place) as terminal:
        assert terminal.end() == 0
    assert "\x1b[32mMET\x1b[0m" in terminal.output
    with Terminal(*arguments, cwd=place, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert "\x1b" not in terminal.output


def test_deleting_asks_first(place: Path) -> None:
    arguments = ("rules", "delete", "hourly load")
    kept = see(*arguments, cwd=place, keys="n\n")
    assert (kept.code, "Nothing was changed." in kept.out) == (1, True)
    ended = run(*arguments, cwd=place)
    assert ended.code == 2
    assert "add --yes" in ended.err
    assert see(*arguments, cwd=place, keys="y\n").code == 0
    with scheduler(place) as cue:
        assert list(cue.rules()) == []


def test_a_rule_can_be_deleted_without_being_asked(place: Path) -> None:
    ended = run("rules", "delete", "hourly load", "--yes", "--json", cwd=place)
    assert ended.json == {"name": "hourly load", "deleted": True}
    assert run("rules", "show", "hourly load", cwd=place).code == 3
