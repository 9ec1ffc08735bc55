"""`oncue jobs` as scripts and people use it; `load` has its own file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncue.core.cursor import MOST_ITEMS
from tests.cli.terminal import Terminal, run, scheduler, see, shell

PARIS = {"TZ": "Europe/Paris"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder whose store holds a few jobs: waiting, later, failed, at work."""
    with scheduler(tmp_path) as cue:
        cue.schedule({"to": "ada"}, queue="mail", id="due", owner="ada")
        cue.schedule({"to": "bob"}, queue="mail", id="later", delay=7200, key="weekly")
        cue.schedule(queue="video", id="broken")
        cue.schedule(queue="video", id="busy")
        broken, busy = cue.claim("video", "host-a:1", limit=2)
        cue.fail("broken", cue.token(broken), "bad \x1b[2J file", retryable=False)
        token = cue.token(busy)
        cue.operation("busy", token, "download", "succeeded", result={"bytes": 1})
        cue.operation("busy", token, "encode", "executing", percent=25)
        cue.heartbeat("busy", token, message="half\x1b[31m way", percent=50)
    return tmp_path


# -- add -----------------------------------------------------------------------------------------


def test_add_prints_id_queue_and_due_time(tmp_path: Path) -> None:
    ended = run("jobs", "add", "--queue", "mail", "--delay", "2h30m", '{"to": 1}', cwd=tmp_path)
    assert ended.code == 0
    assert re.search(
        r"^id +\w+\nqueue +mail\ndue +\S+ \S+ UTC \(in 2\.5 h\)$", ended.out.strip(), re.MULTILINE
    )
    assert ended.err == "Created oncue.db, a new and empty store.\n"


@pytest.mark.parametrize("place_of_json", ["before", "after"])
def test_json_is_accepted_before_and_after_the_command(tmp_path: Path, place_of_json: str) -> None:
    command = ["jobs", "add", '{"a": 1}', "--priority", "3", "--owner", "ada"]
    arguments = ["--json", *command] if place_of_json == "before" else [*command, "--json"]
    job = run(*arguments, cwd=tmp_path).json
    assert job["payload"] == {"a": 1}
    assert (job["priority"], job["owner"], job["state"]) == (3, "ada", "scheduled")


def test_store_is_accepted_after_the_command(tmp_path: Path) -> None:
    run("jobs", "add", "1", "--store", "sqlite:///other.db", cwd=tmp_path)
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "oncue.db").exists()


@pytest.mark.parametrize("arguments", [["-"], []])
def test_the_payload_may_be_piped_in(tmp_path: Path, arguments: list[str]) -> None:
    ended = run("jobs", "add", "--json", *arguments, cwd=tmp_path, stdin='{"piped": true}\n')
    assert ended.json["payload"] == {"piped": True}


def test_nothing_piped_in_is_no_payload_but_a_dash_demands_one(tmp_path: Path) -> None:
    assert run("jobs", "add", "--json", cwd=tmp_path).json["payload"] is None
    assert "PAYLOAD: is not JSON" in run("jobs", "add", "-", cwd=tmp_path).err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["hello"], "PAYLOAD: is not JSON"),
        (["1", "--delay", "soon"], "--delay: 'soon' is not a length of time"),
        (["1", "--at", "tomorrow"], "--at: 'tomorrow' is not a time"),
        (["1", "--at", "2026-13-01 00:00"], "--at: '2026-13-01 00:00' is not a moment"),
        (["1", "--at", "2027-01-01T00:00:00Z", "--delay", "1"], "--delay: give either"),
        (["1", "--priority", "12"], "--priority: must be a whole number from 0 to 9"),
        (["1", "--priority", "x"], "'--priority'"),
        (["1", "--max-attempts", "50"], "--max-attempts: must be a whole number from 1 to 20"),
        (["1", "--timeout", "0"], "--timeout: must be more than 0"),
        (["1", "--queue", "a b"], "--queue: a queue name is"),
        (["1", "--id", "batch"], "--id: 'batch' is a word of the API"),
        (["1", "--if-exists", "merge"], "'--if-exists'"),
        (["1", "2"], "unexpected extra argument"),
        (["1", "--dealy", "1"], "--delay"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    ended = run("jobs", "add", *arguments, cwd=tmp_path)
    assert ended.code == 2
    assert told in ended.err
    assert ended.out == ""
    with scheduler(tmp_path) as cue:
        assert list(cue.jobs()) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90", 90), ("1.5", 1.5), ("90s", 90), ("15m", 900), ("2h", 7200), ("3d", 259_200)],
        *[("1w", 604_800), ("2h30m", 9000), ("250ms", 0.25), ("PT15M", 900), ("pt1h", 3600)],
    ],
)
def test_lengths_are_read_in_every_form(text: str, seconds: float) -> None:
    from oncue.cli.times import read_length

    assert read_length(text, "--delay") == seconds


def test_local_times_carry_the_zone_in_the_answer(tmp_path: Path) -> None:
    ended = run("jobs", "add", "--at", "2050-07-01 09:30", "1", cwd=tmp_path, env=PARIS)
    assert "2050-07-01 09:30:00.000 CEST" in ended.out
    ended = run("jobs", "add", "--at", "2050-07-01 09:30", "1", "--json", cwd=tmp_path, env=PARIS)
    assert ended.json["due_at"] == "2050-07-01T07:30:00.000Z"


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("2027-03-28 02:30", "does not exist in local time"),
        ("2027-10-31 02:30", "happens twice in local time"),
    ],
)
def test_local_times_around_a_change_of_clocks_are_refused(
    tmp_path: Path, when: str, told: str
) -> None:
    ended = run("jobs", "add", "--at", when, "1", cwd=tmp_path, env=PARIS)
    assert ended.code == 2
    assert told in ended.err


def test_a_key_that_is_taken_is_told(tmp_path: Path) -> None:
    first = run("jobs", "add", "1", "--key", "k", "--json", cwd=tmp_path).json
    kept = run("jobs", "add", "2", "--key", "k", cwd=tmp_path)
    assert first["id"] in kept.out
    assert "nothing was stored" in kept.err
    replaced = run("jobs", "add", "3", "--key", "k", "--if-exists", "replace", cwd=tmp_path)
    assert "got the new time and payload" in replaced.err
    assert run("jobs", "show", first["id"], "--json", cwd=tmp_path).json["payload"] == 3


def test_an_id_that_is_taken_is_a_conflict_unless_it_is_the_same_job(tmp_path: Path) -> None:
    run("jobs", "add", "1", "--id", "x", cwd=tmp_path)
    assert run("jobs", "add", "1", "--id", "x", cwd=tmp_path).code == 0
    ended = run("jobs", "add", "2", "--id", "x", cwd=tmp_path)
    assert ended.code == 4
    assert "created with other fields" in ended.err


def test_show_has_all_operations_also_if_one_answer_has_no_room_for_them(tmp_path: Path) -> None:
    names = [f"step-{number}" for number in range(MOST_ITEMS + 1)]
    with scheduler(tmp_path) as cue:
        cue.schedule(id="long")
        [claim] = cue.claim("default", "host-a:1")
        for name in names:
            cue.operation("long", cue.token(claim), name, "succeeded")
    shown = run("jobs", "show", "long", "--json", cwd=tmp_path).json
    assert [one["name"] for one in shown["operations"]] == names
    assert "operations_cursor" not in shown
    assert f"  {names[-1]} " in run("jobs", "show", "long", cwd=tmp_path).out


# -- list ----------------------------------------------------------------------------------------


def test_list_shows_every_job_in_the_order_of_due_time(place: Path) -> None:
    ended = run("jobs", "list", cwd=place)
    lines = ended.out.splitlines()
    assert " ".join(lines[0].split()) == "id queue state due at attempt owner key note"
    assert {line.split()[0] for line in lines[1:]} == {"due", "later", "broken", "busy"}
    assert lines[-1].startswith("later")
    assert ended.err == ""


def test_text_from_jobs_cannot_steer_the_terminal(place: Path) -> None:
    for command in (["list"], ["show", "busy"], ["show", "broken"], ["explain", "broken"]):
        with Terminal("jobs", *command, cwd=place, env={"NO_COLOR": "1"}) as terminal:
            assert terminal.end() == 0
            assert "\x1b" not in terminal.output
            assert "\\x1b[" in terminal.output


def test_colours_appear_on_a_terminal_only_and_can_be_declined(place: Path) -> None:
    assert "\x1b" not in run("jobs", "list", cwd=place).out
    with Terminal("jobs", "list", cwd=place) as terminal:
        terminal.end()
        assert "\x1b[31mfailed" in terminal.output
    with Terminal("jobs", "list", cwd=place, env={"NO_COLOR": "1"}) as terminal:
        terminal.end()
        assert "\x1b" not in terminal.output


def test_list_pages_with_a_cursor(place: Path) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        more: list[str] = ["--cursor", cursor] if cursor else []
        page = run("jobs", "list", "--limit", "2", "--json", *more, cwd=place).json
        seen += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 4
    assert "--cursor" in run("jobs", "list", "--limit", "1", cwd=place).err


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["--queue", "mail"], ["due", "later"]),
        (["--state", "failed"], ["broken"]),
        (["--owner", "ada"], ["due"]),
        (["--owner", "ada", "--state", "failed"], []),
        (["--key", "weekly"], ["later"]),
        (["--due-before", "2020-01-01 00:00"], []),
        (["--queue", "mail", "--due-after", "2020-01-01T00:00:00Z"], ["due", "later"]),
    ],
)
def test_list_filters(place: Path, filters: list[str], ids: list[str]) -> None:
    page = run("jobs", "list", "--json", *filters, cwd=place).json
    assert [job["id"] for job in page["items"]] == ids


def test_an_empty_list_says_so_beside_the_answer(place: Path) -> None:
    ended = run("jobs", "list", "--queue", "nope", cwd=place)
    assert (ended.code, ended.out) == (0, "")
    assert "There are no such jobs" in ended.err


@pytest.mark.parametrize(
    "arguments", [["--state", "done"], ["--cursor", "x"], ["--limit", "0"], ["--due-after", "x"]]
)
def test_wrong_filters_are_refused(place: Path, arguments: list[str]) -> None:
    ended = run("jobs", "list", *arguments, cwd=place)
    assert ended.code == 2
    assert arguments[0] in ended.err


def test_a_narrow_terminal_gets_lines_that_fit(place: Path) -> None:
    shown = see("jobs", "list", cwd=place, columns=66).out
    assert "broken  video" in shown
    assert len(shown.splitlines()) == 5


def test_a_closed_pipe_is_no_failure(place: Path) -> None:
    with scheduler(place) as cue:
        cue.schedule_many({"queue": "mail"} for _ in range(3000))
    for command in ("jobs list --limit 3000 | head -1", "jobs list --json --limit 3000 | head -1"):
        ended = shell(f"oncue {command}", cwd=place)
        assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("jobs add --priority 10 1", "--priority"),
        ("jobs add --delay 5 --at 2126-01-01T00:00:00Z 1", "--delay"),
        ("queues set mail --rate 0", "--rate"),
        ("events send WRONG x", "TYPE"),
        ("events send FILE ../x", "RESOURCE"),
    ],
)
def test_what_is_refused_leaves_no_empty_store(tmp_path: Path, command: str, named: str) -> None:
    ended = run(*command.split(), cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith(f"Error: {named}: ")
    assert list(tmp_path.iterdir()) == []


def test_reading_does_not_make_a_store(tmp_path: Path) -> None:
    for command in (["list"], ["show", "x"], ["explain", "x"], ["cancel", "x"]):
        ended = run("jobs", *command, cwd=tmp_path)
        assert ended.code == 5
        assert "there is no such file (the default)." in ended.err
    ended = run("jobs", "list", "--store", "sqlite:///x.db", cwd=tmp_path)
    assert "there is no such file (named by --store)." in ended.err
    assert list(tmp_path.iterdir()) == []


# -- watch ---------------------------------------------------------------------------------------


def test_watch_follows_the_jobs_and_gives_the_terminal_back(place: Path) -> None:
    with Terminal("jobs", "list", "--watch", cwd=place) as terminal:
        assert "busy" in terminal.expect("q quits")
        run("jobs", "add", "1", "--id", "newcomer", cwd=place)
        terminal.expect("newcomer")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.screen == ""
        assert "\x1b[?1049l" in terminal.output
        assert terminal.attributes == terminal.attributes_before


def test_watch_ends_with_ctrl_c_too(place: Path) -> None:
    with Terminal("jobs", "list", "--watch", cwd=place) as terminal:
        terminal.expect("q quits")
        terminal.interrupt()
        assert terminal.end() == 0
        assert terminal.screen == ""
        assert terminal.attributes == terminal.attributes_before


def test_watch_needs_a_terminal(place: Path) -> None:
    ended = run("jobs", "list", "--watch", cwd=place)
    assert ended.code == 2
    assert "needs a terminal" in ended.err
    assert see("jobs", "list", "--watch", "--json", cwd=place).code == 2
