"""`oncue config show`, and settings that are refused by every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from .terminal import run, see


def test_every_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text("concurrency = 3\n")
    ended = run("config", "show", cwd=tmp_path, env={"ONCUE_LOG_LEVEL": "info"})
    assert ended.code == 0
    lines = [line.split()[:3] for line in ended.out.splitlines()]
    assert lines[1:] == [
        ["store", "sqlite:///oncue.db", "default"],
        ["url", "–", "default"],
        ["token", "–", "default"],
        ["host", "127.0.0.1", "default"],
        ["port", "8420", "default"],
        ["max_connections", "10000", "default"],
        ["max_unread_mib", "256", "default"],
        ["rules", "–", "default"],
        ["gateway_scopes", "–", "default"],
        ["operations_per_job", "1000", "default"],
        ["operation_bytes_per_job", "1048576", "default"],
        ["events_ahead_seconds", "604800", "default"],
        ["events_late_seconds", "2592000", "default"],
        ["events_loose_seconds", "604800", "default"],
        ["concurrency", "3", "oncue.toml"],
        ["log_level", "INFO", "ONCUE_LOG_LEVEL"],
        ["log_format", "text", "default"],
    ]


def test_an_option_is_an_origin_too(tmp_path: Path) -> None:
    for arguments in (
        ("--store", "memory:", "config", "show"),
        ("config", "show", "--store=memory:"),
    ):
        settings = run(*arguments, "--json", cwd=tmp_path).json["settings"]
        assert settings[0]["value"] == "memory:"
        assert settings[0]["origin"] == "option"
        assert settings[0]["variable"] == "ONCUE_STORE"


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    for arguments in (("config", "show"), ("config", "show", "--json")):
        for more, env in (((), {"ONCUE_TOKEN": "oncue_secret"}), (("--token", "oncue_secret"), {})):
            ended = run(*arguments, *more, cwd=tmp_path, env=env)
            assert ended.code == 0
            assert "(hidden)" in ended.out
            assert "secret" not in ended.out + ended.err


def test_on_a_terminal_it_is_a_table(tmp_path: Path) -> None:
    assert "ONCUE_CONCURRENCY" in see("config", "show", cwd=tmp_path, columns=140).out


COMMANDS = [
    ("config", "show"),
    ("jobs", "list"),
    ("queues", "list"),
    ("top",),
    ("forecast",),
    ("serve",),
    ("worker", "tasks:cue"),
    ("dump",),
    ("restore", "-"),
    ("doctor",),
    ("bench",),
    ("completion", "bash"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_an_unknown_variable_stops_every_command(tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = run(*command, cwd=tmp_path, env={"ONCUE_STOER": "x"})
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "Error: ONCUE_STOER: there is no such variable; did you mean ONCUE_STORE?\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_in_the_file_stops_the_program(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text("stores = 'x'\n")
    ended = run("doctor", cwd=tmp_path)
    assert ended.code == 2
    assert "oncue.toml: stores: there is no such setting; did you mean store?" in ended.err
