"""`oncue schedules`: what people see of schedules, and how they change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Terminal, run, scheduler, shell
from tests.http.server import running_server

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"report": "nightly"},
}
TICK = {
    "name": "tick",
    "every_seconds": "PT15M",
    "emits": {"eventType": "TIME_BASED", "eventResourceId": "tick"},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.put_schedule(**NIGHTLY)
        cue.put_schedule(**TICK)  # type: ignore[arg-type]
    return tmp_path


def stored(place: Path, name: str) -> Any:
    with scheduler(place) as cue:
        return cue.schedule_named(name)


# -- apply -----------------------------------------------------------------------------------------


def test_apply_stores_what_a_file_says_and_tells_what_changed(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps([NIGHTLY, TICK]))
    ended = run("schedules", "apply", "s.json", cwd=tmp_path)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "new        nightly",
        '  + cron "30 2 * * *"',
        '  + timezone "Europe/Paris"',
        '  + queue "reports"',
        '  + payload {"report":"nightly"}',
        "new        tick",
        "  + every_seconds 900.0",
        '  + emits {"eventType":"TIME_BASED","eventResourceId":"tick"}',
        "2 new",
    ]
    again = run("schedules", "apply", "s.json", cwd=tmp_path)
    assert again.out.splitlines() == ["unchanged  nightly", "unchanged  tick", "2 unchanged"]


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: [s], lambda s: {"schedules": [s]}])
def test_apply_takes_one_schedule_or_many(tmp_path: Path, wrap: Any) -> None:
    ended = run("schedules", "apply", "-", "--json", cwd=tmp_path, stdin=json.dumps(wrap(TICK)))
    [item] = ended.json["items"]
    assert (item["name"], item["change"]) == ("tick", "new")
    assert item["changed"]["every_seconds"] == {"from": None, "to": 900.0}
    assert stored(tmp_path, "tick").every_seconds == 900


def test_a_dry_run_tells_which_runs_would_change_and_changes_nothing(place: Path) -> None:
    edit = json.dumps({**NIGHTLY, "cron": "30 2 1 * *"})
    ended = run("schedules", "apply", "-", "--dry-run", "--count=40", cwd=place, stdin=edit)
    assert ended.code == 0
    assert "Nothing was changed" in ended.err
    lines = ended.out.splitlines()
    assert lines[:2] == ["changed    nightly", '  ~ cron "30 2 * * *" → "30 2 1 * *"']
    assert lines[2].split() == ["Europe/Paris", "UTC"]
    runs = [line.split() for line in lines[3:-1]]
    assert len([one for one in runs if one[0] == "-"]) >= 37
    assert [one[1].endswith("-01") for one in runs if one[0] != "-"] == [True]
    assert stored(place, "nightly").cron == "30 2 * * *"
    told = run("schedules", "apply", "-", "-n", "--json", cwd=place, stdin=edit).json
    assert told["dry_run"] is True
    assert len(told["items"][0]["runs"]["removed"]) >= 8


def test_what_is_shown_can_be_applied_again(place: Path) -> None:
    line = "oncue schedules show nightly --json | oncue schedules apply -"
    assert shell(line, cwd=place).out.splitlines() == ["unchanged  nightly", "1 unchanged"]
    line = "oncue schedules list --json | oncue schedules apply -"
    assert shell(line, cwd=place).out.splitlines()[-1] == "2 unchanged"


def test_a_paused_schedule_stays_so_unless_the_file_says_otherwise(place: Path) -> None:
    run("schedules", "pause", "nightly", cwd=place)
    again = run("schedules", "apply", "-", cwd=place, stdin=json.dumps(NIGHTLY))
    assert again.out.splitlines()[0] == "unchanged  nightly"
    loud = {**NIGHTLY, "paused": False}
    changed = run("schedules", "apply", "-", cwd=place, stdin=json.dumps(loud))
    assert "  ~ paused true → false" in changed.out
    assert stored(place, "nightly").paused is False


def test_all_that_is_wrong_with_a_file_is_told_and_nothing_is_stored(tmp_path: Path) -> None:
    wrong = [
        NIGHTLY,
        {"name": "a"},
        {"name": "b", "cron": "x"},
        {"name": "nightly", "cron": "0 0 * * *"},
        {"name": "c", "every_seconds": 60, "colour": 1},
        {"every_seconds": 60},
        7,
    ]
    (tmp_path / "s.json").write_text(json.dumps(wrong))
    ended = run("schedules", "apply", "s.json", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    told = ended.err.splitlines()
    assert told[0] == "Error: s.json: 6 of 7 schedules are wrong; nothing was stored."
    for line, start in zip(
        told[1:],
        [
            "  schedule 2 'a': /cron: ",
            "  schedule 3 'b': /cron: ",
            "  schedule 4 'nightly': /name: ",
            "  schedule 5 'c': /colour: ",
            "  schedule 6: /name: ",
            "  schedule 7: must be an object",
        ],
        strict=True,
    ):
        assert line.startswith(start)
    assert not (tmp_path / "oncue.db").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"', '{"schedules": []}'])
def test_what_holds_no_schedule_is_refused(tmp_path: Path, text: str) -> None:
    ended = run("schedules", "apply", "-", cwd=tmp_path, stdin=text)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: standard input: ")


# -- looking ---------------------------------------------------------------------------------------


def test_list_tells_when_and_what(place: Path) -> None:
    run("schedules", "pause", "tick", cwd=place)
    head, nightly, tick = run("schedules", "list", cwd=place).out.splitlines()
    assert head.split() == ["schedule", "when", "next", "makes"]
    assert "30 2 * * * Europe/Paris" in nightly
    assert nightly.endswith("job in reports")
    assert tick.split() == [
        *("tick", "every", "15", "min", "paused"),
        *("event", "TIME_BASED", "tick"),
    ]
    items = run("schedules", "list", "--json", cwd=place).json["items"]
    assert [(one["name"], one["paused"]) for one in items] == [("nightly", False), ("tick", True)]


def test_an_empty_store_has_a_hint(tmp_path: Path) -> None:
    with scheduler(tmp_path):
        ended = run("schedules", "list", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "oncue schedules apply" in ended.err


def test_show_tells_settings_and_what_became_of_occurrences(place: Path) -> None:
    with scheduler(place) as cue:
        cue.every(10, name="often", queue="q", owner="ada")
        cue.engine.recurrer.step()
        cue.pause_schedule("often")
    shown = run("schedules", "show", "often", cwd=place).out
    settings, outcomes = shown.split("\n\n")
    told = dict(line.split(maxsplit=1) for line in settings.splitlines())
    assert (told["schedule"], told["when"], told["owner"]) == ("often", "every 10 s", "ada")
    assert (told["makes"], told["next"]) == ("job in q", "paused")
    assert "withdrawn" in outcomes
    fields = run("schedules", "show", "often", "--json", cwd=place).json
    assert {one["fate"] for one in fields["outcomes"]} == {"withdrawn"}
    assert fields["every_seconds"] == 10


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(place: Path) -> None:
    for command in ("show", "next", "pause", "resume"):
        ended = run("schedules", command, "nihgtly", cwd=place)
        assert (ended.code, ended.out) == (3, "")
        assert "Did you mean 'nightly'?" in ended.err
    assert run("schedules", "delete", "nihgtly", "--yes", cwd=place).code == 3


# -- next ------------------------------------------------------------------------------------------


def test_next_shows_both_times_and_marks_gaps_and_overlaps(place: Path) -> None:
    ended = run("schedules", "next", "nightly", "--count=400", cwd=place)
    head, *lines = ended.out.splitlines()
    assert head.split() == ["Europe/Paris", "UTC"]
    assert len(lines) == 400
    gap = next(line for line in lines if "gap" in line)
    assert "03:00:00+02:00" in gap
    assert "01:00:00  gap: 02:30 does not exist on this day: at the end of the gap" in gap
    overlap = next(line for line in lines if "overlap" in line)
    assert "00:30:00  overlap: 02:30 comes twice on this day: the first time only" in overlap
    marks = [
        one["mark"]
        for one in run("schedules", "next", "nightly", "--count=400", "--json", cwd=place).json[
            "items"
        ]
    ]
    assert set(marks) == {"normal", "gap", "overlap"}


def test_next_of_an_expression_asks_neither_a_store_nor_a_server(tmp_path: Path) -> None:
    ended = run(
        *("schedules", "next", "--cron", "0 9 1 1 *", "--timezone", "Asia/Tokyo", "--count=2"),
        cwd=tmp_path,
        env={"ONCUE_URL": "http://127.0.0.1:1"},
    )
    head, *lines = ended.out.splitlines()
    assert (ended.code, head.split()) == (0, ["Asia/Tokyo", "UTC"])
    assert [line.split()[2:] for line in lines] == [
        ["09:00:00+09:00", lines[0].split()[3], "00:00:00"],
        ["09:00:00+09:00", lines[1].split()[3], "00:00:00"],
    ]
    assert len(run("schedules", "next", "--every=90s", cwd=tmp_path).out.splitlines()) == 21
    assert list(tmp_path.iterdir()) == []


def test_next_with_an_edit_shows_what_it_would_change(place: Path) -> None:
    ended = run("schedules", "next", "nightly", "--cron=30 3 * * *", "--count=3", cwd=place)
    signs = [line.split()[0] for line in ended.out.splitlines()[1:]]
    assert {"+", "-"} == set(signs)
    moved = run("schedules", "next", "nightly", "--timezone=UTC", "--count=3", "--json", cwd=place)
    assert {one["at"][11:16] for one in moved.json["added"]} == {"02:30"}
    assert stored(place, "nightly").timezone == "Europe/Paris"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name a schedule, or give --cron or --every"),
        (("--timezone=UTC",), "name a schedule, or give --cron or --every"),
        (("--cron=* * * * *", "--every=5"), "either --cron or --every"),
        (("--cron=61 * * * *",), "--cron: "),
        (("--cron=* * * * *", "--timezone=Mars"), "--timezone: "),
        (("--every=soon",), "--every: "),
        (("--every=0.1",), "--every: "),
        (("--cron=* * * * *", "--count=0"), "--count"),
    ],
)
def test_what_next_cannot_read_is_named(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ended = run("schedules", "next", *arguments, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err


# -- changing --------------------------------------------------------------------------------------


def test_pause_and_resume(place: Path) -> None:
    ended = run("schedules", "pause", "nightly", cwd=place)
    assert ended.out == "Schedule nightly is paused.\n"
    shown = run("schedules", "next", "nightly", cwd=place)
    assert "is paused" in shown.err
    assert run("schedules", "resume", "nightly", "--json", cwd=place).json["paused"] is False


def test_delete_asks_first(place: Path) -> None:
    ended = run("schedules", "delete", "nightly", cwd=place)
    assert ended.code == 2
    assert "--yes" in ended.err
    with Terminal("schedules", "delete", "nightly", cwd=place) as terminal:
        terminal.expect("Delete nightly?")
        terminal.type("n\r")
        assert terminal.end() == 1
    assert stored(place, "nightly").cron == "30 2 * * *"
    ended = run("schedules", "delete", "nightly", "--yes", cwd=place)
    assert ended.out.startswith("Deleted nightly.")
    assert run("schedules", "show", "nightly", cwd=place).code == 3


def test_nothing_but_apply_makes_a_store(tmp_path: Path) -> None:
    for command in (
        *(("list",), ("show", "a"), ("next", "a"), ("pause", "a"), ("resume", "a")),
        ("delete", "a", "--yes"),
    ):
        assert run("schedules", *command, cwd=tmp_path).code == 5
    file = json.dumps(TICK)
    assert run("schedules", "apply", "-", "--dry-run", cwd=tmp_path, stdin=file).code == 5
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_asked_alike(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with running_server(there, "--no-engine") as server:
        for arguments, stdin in [
            (("apply", "-"), json.dumps([NIGHTLY, {**TICK, "paused": True}])),
            (("apply", "-", "-n"), json.dumps({**NIGHTLY, "cron": "0 3 * * *"})),
            (("apply", "-"), "{"),
            (("next", "nightly", "--json"), ""),
            (("next", "nightly", "--cron", "0 3 * * *"), ""),
            (("pause", "nightly"), ""),
            (("list",), ""),
            (("show", "nihgtly"), ""),
            (("next", "nightly"), ""),
            (("delete", "nightly", "--yes"), ""),
            (("delete", "nightly", "--yes"), ""),
        ]:
            near = run("schedules", *arguments, cwd=here, stdin=stdin)
            far = run("schedules", *arguments, "--url", server.url, cwd=there, stdin=stdin)
            created = "Created oncue.db, a new and empty store.\n"
            expected = (near.code, near.out, near.err.replace(created, ""))
            assert (far.code, far.out, far.err) == expected, arguments
