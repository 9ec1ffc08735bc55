"""The program as a whole: help, wrong arguments, closed pipes, full disks, how fast it starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

import oncue
from oncue.cli.app import COMMANDS, cli
from oncue.cli.completion import INSTALL
from oncue.core.event import EventType
from oncue.transfer.declared import RULES, SCHEDULES
from oncue.usecases import intake
from tests.acceptance import cli_page

from .terminal import environment, run, see, shell

IMPORTED = """
import sys
sys.argv = ["oncue", *{arguments!r}]
from oncue.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(*sorted({unwanted!r} & set(sys.modules)))
"""
STORE = {"apsw", "msgspec", "oncue.scheduler", "oncue.stores"}
HEAVY = {
    *("asyncio", "ssl", "http.client", "importlib.resources", "zipfile", "tempfile", "termios"),
    *("boto3", "psycopg", "prometheus_client", "oncue.boto", "oncue.sinks", "oncue.engine.engine"),
    *("oncue.core.reclaim", "oncue.worker.worker", "oncue.wire.jobs", "oncue.stores.postgresql"),
    *("oncue.stores.dynamodb", "oncue.stores.memory", "oncue.cli.live", "oncue.cli.one_job"),
}
"""What only some commands need, and takes long to import."""


ALL = {
    ctx.command_path: ctx.command
    for ctx in cli_page.contexts()
    if not isinstance(ctx.command, click.Group)
}


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    ended = run("--version", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, f"oncue, version {oncue.__version__}\n")


@pytest.mark.parametrize("path", ALL)
def test_help_starts_with_examples_of_the_command(path: str) -> None:
    help_text = ALL[path].help or ""
    examples = [line for line in help_text.splitlines() if "$ " in line]
    assert examples
    assert any(path in line for line in examples)
    assert help_text.index("$ ") < 80


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("oncue completion", INSTALL.values()),
        ("oncue events send", EventType),
        ("oncue jobs load", intake.FIELDS),
        ("oncue rules apply", RULES.fields),
        ("oncue schedules apply", SCHEDULES.fields),
    ],
)
def test_help_names_everything_that_is_accepted(path: str, names: Iterable[str]) -> None:
    help_text = ALL[path].help or ""
    assert [name for name in names if name not in help_text] == []


@pytest.mark.parametrize("path", ALL)
def test_help_shows_no_bound_where_there_is_none(path: str) -> None:
    command = ALL[path]
    ctx = click.Context(command, **cli.context_settings)
    assert "None" not in command.get_help(ctx)


@pytest.mark.parametrize("path", ALL)
def test_the_list_of_commands_says_what_each_is_for(path: str) -> None:
    told = ALL[path].short_help or ""
    assert 0 < len(told) <= 80
    assert "$" not in told


def test_every_command_shows_its_help(tmp_path: Path) -> None:
    for name in COMMANDS:
        ended = run(name, "--help", cwd=tmp_path)
        assert ended.code == 0, ended.err
        assert ended.out.startswith(f"Usage: oncue {name}")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_answered_with_the_nearest(tmp_path: Path) -> None:
    ended = run("doktor", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "there is no command 'doktor'. Did you mean 'doctor'?" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nonsense",), "No such option"),
        (("forecast", "--hourz", "3"), "--hours"),
        (("forecast", "--hours", "0"), "--hours"),
        (("forecast", "--hours", "-1"), "--hours"),
        (("forecast", "--rate", "0"), "--rate"),
        (("forecast", "--step", "day"), "'minute', 'hour'"),
        (("bench", "--n", "0"), "--n"),
        (("bench", "--only", "W99"), "--only"),
        (("bench", "--store", "memory:"), "only SQLite"),
        (("worker",), "MODULE:SCHEDULER"),
        (("worker", "x:y", "--concurrency", "0"), "--concurrency"),
        (("restore",), "FILE"),
        (("restore", "nothing.ndjson"), "does not exist"),
        (("dump", "--resume"), "--resume needs a FILE"),
        (("dump", "--json"), "--json needs a FILE"),
        (("dump", "x", "--queue", "no/queue"), "a queue name"),
        (("--json", "serve"), "--json does not apply"),
        (("completion", "tcsh"), "tcsh"),
        (("config", "shew"), "Did you mean 'show'"),
        (("schedules", "add", "nightly"), "there is no command 'add'. Did you mean 'apply'?"),
        (("queues", "create", "mail"), "Did you mean 'set'?"),
        (("--store", "redis://x", "doctor"), "there is no store for 'redis://x'"),
        (("--store", "sqlite:jobs.db", "dump"), "sqlite:///jobs.db"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ended = run(*arguments, cwd=tmp_path)
    assert ended.code == (1 if "doctor" in arguments else 2)
    assert said in ended.err + ended.out
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["oncue --help", "oncue config show", "oncue doctor"])
def test_whoever_reads_may_stop_reading(tmp_path: Path, line: str) -> None:
    ended = shell(f"({line}; echo $? >&2) | true", cwd=tmp_path)
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err


@pytest.mark.parametrize("line", ["oncue --help", "oncue config show", "oncue --json config show"])
def test_a_full_disk_behind_standard_output_is_told(tmp_path: Path, line: str) -> None:
    ended = shell(f"{line} > /dev/full", cwd=tmp_path)
    assert (ended.code, ended.err) == (1, "Error: No space left on device.\n")


def test_on_a_terminal_errors_and_help_are_the_same(tmp_path: Path) -> None:
    assert "Did you mean 'dump'?" in see("dumb", cwd=tmp_path).out
    assert "Durable scheduling of deferred work." in see("-h", cwd=tmp_path).out


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["jobs", "list", "--help"]])
def test_the_program_starts_without_what_it_does_not_need(
    tmp_path: Path, arguments: list[str]
) -> None:
    """What makes it start at once: neither the store nor the engine is imported."""
    unwanted = STORE | {"asyncio", "oncue.engine.engine"}
    assert imported(arguments, unwanted, tmp_path) in ([], ["msgspec"])


def test_a_list_of_jobs_comes_without_loops_sinks_and_other_stores(tmp_path: Path) -> None:
    run("jobs", "add", "{}", cwd=tmp_path)
    assert imported(["jobs", "list"], STORE | HEAVY, tmp_path) == sorted(STORE)


def imported(arguments: list[str], unwanted: set[str], folder: Path) -> list[str]:
    """Which of these modules a command imports."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(arguments=arguments, unwanted=unwanted)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.splitlines()[-1].split()


def test_every_public_name_can_be_imported() -> None:
    for name in oncue.__all__:
        assert getattr(oncue, name).__name__ == name
        assert name in dir(oncue)
    with pytest.raises(AttributeError, match="Skeduler"):
        oncue.Skeduler  # noqa: B018
