"""The password in the URL of a store is shown by no command, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer

from .on_postgresql import CANARY, do, unused_url, with_password
from .terminal import Ended, run, see

AWAY = f"postgresql://oncue:{CANARY}@127.0.0.1:1/jobs"
"""Nobody listens there."""
MALFORMED = [
    f"postgresql://oncue:{CANARY}",
    f"postgresql://oncue:{CANARY}/x@127.0.0.1:1/jobs",
    f"postgresql://oncue:x@{CANARY}@127.0.0.1:1/jobs",
    f"postgresql://oncue:{CANARY}%zz@127.0.0.1:1/jobs",
    f"postgresql://oncue:{CANARY}@[::1/jobs",
    f"postgresql://oncue:{CANARY}@127.0.0.1:1/jobs?no_such_option=1",
    f"postgresql://oncue@127.0.0.1:1/jobs?password={CANARY}&schema=No",
    f"postgresql://oncue@127.0.0.1:1/jobs?password=x&{CANARY}",
    f"postgres:oncue:{CANARY}@127.0.0.1:1/jobs",
    f"postgressql://oncue:{CANARY}@127.0.0.1:1/jobs",
    f"mysql://oncue:{CANARY}@127.0.0.1:1/jobs",
    f"host=127.0.0.1 user=oncue password={CANARY}",
]
COMMANDS = [
    ("config", "show"),
    ("jobs", "list"),
    ("jobs", "add", "1"),
    ("jobs", "cancel", "--queue", "mail", "--yes"),
    ("queues", "list"),
    ("queues", "set", "mail"),
    ("rules", "list"),
    ("events", "list"),
    ("schedules", "list"),
    ("tasks", "list", "ada"),
    ("inbox", "list"),
    ("top",),
    ("nodes",),
    ("forecast",),
    ("reclaim", "--yes"),
    ("migrate",),
    ("migrate", "--dry-run"),
    ("dump",),
    ("restore", "-"),
    ("token", "list"),
    ("doctor",),
]
WITHOUT_JSON = {"dump"}


def silent(ended: Ended) -> Ended:
    """It has not shown the password."""
    assert CANARY not in ended.out
    assert CANARY not in ended.err
    assert "Traceback" not in ended.err
    return ended


def told(command: tuple[str, ...], url: str, folder: Path) -> list[Ended]:
    """By an option, in the environment, in the file; with the whole log; and as JSON."""
    verbose: dict[str, str | None] = {"ONCUE_LOG_LEVEL": "DEBUG"}
    ended = [
        run(*command, "--store", url, cwd=folder, env=verbose),
        run(*command, cwd=folder, env={"ONCUE_STORE": url, "ONCUE_LOG_FORMAT": "json", **verbose}),
    ]
    if command[0] not in WITHOUT_JSON:
        ended.append(run(*command, "--json", "--store", url, cwd=folder))
    return [silent(one) for one in ended]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_that_is_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    ended = told(command, AWAY, tmp_path)
    if command[0] == "config":
        assert all("postgresql://oncue:***@127.0.0.1:1/jobs" in one.out for one in ended)
    else:
        assert all(one.code != 0 for one in ended)


@pytest.mark.parametrize("url", MALFORMED)
def test_a_url_that_is_malformed(url: str, tmp_path: Path) -> None:
    for command in (("config", "show"), ("jobs", "add", "1"), ("migrate",), ("doctor",), ("top",)):
        told(command, url, tmp_path)


def test_a_url_in_the_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text(f"store = '{AWAY}'\n")
    for command in (("config", "show"), ("doctor",), ("queues", "list")):
        silent(run(*command, cwd=tmp_path))
    (tmp_path / "oncue.toml").write_text(f"store = '{AWAY}\n")
    assert silent(run("config", "show", cwd=tmp_path)).code == 2


def test_a_url_that_stands_where_none_belongs(tmp_path: Path) -> None:
    for arguments in (
        ("doctor", AWAY),
        (AWAY,),
        ("migrate", "--url", AWAY),
        ("doctor", "--url", AWAY),
        ("doctor", "--url", f"http://oncue:{CANARY}@127.0.0.1:1"),
        ("config", "show", "--url", f"http://oncue:{CANARY}@127.0.0.1:1"),
        ("jobs", "show", AWAY, "--store", "memory:"),
        ("jobs", "list", "--limit", AWAY),
    ):
        silent(run(*arguments, cwd=tmp_path))


def test_a_store_that_works(tmp_path: Path) -> None:
    url = with_password(unused_url())
    for command in (
        *(("migrate", "--dry-run"), ("migrate",), ("migrate",), ("config", "show")),
        *(("jobs", "add", "1"), ("queues", "set", "mail"), ("jobs", "add", "not JSON")),
    ):
        told(command, url, tmp_path)
    shown = see("config", "show", "--store", url, cwd=tmp_path, columns=300)
    assert "postgres:***@" in shown.out
    silent(shown)


def test_a_password_that_the_server_refuses(tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "server", durable=False) as server:
        do("CREATE ROLE oncue LOGIN PASSWORD 'another'", server.url)
        rules = tmp_path / "server" / "data" / "pg_hba.conf"
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all all scram-sha-256\n")
        do("SELECT pg_reload_conf()", server.url)
        url = server.url.replace("postgres@", f"oncue:{CANARY}@")
        for command in (("jobs", "add", "1"), ("doctor",), ("migrate",)):
            for ended in told(command, url, tmp_path):
                assert ended.code in (1, 5)
                assert "password authentication failed for user" in ended.out + ended.err


def test_a_password_on_the_command_line_is_said_to_be_visible(tmp_path: Path) -> None:
    note = "Note: the list of processes shows the password in --store to all users of this machine."
    for arguments in (("config", "show", "--store", AWAY), ("--store", AWAY, "config", "show")):
        ended = silent(run(*arguments, cwd=tmp_path))
        assert ended.err.startswith(note)
        assert ended.err.count("\n") == 1
    for env in ({"ONCUE_STORE": AWAY}, {"ONCUE_STORE": "postgresql://oncue@127.0.0.1:1/jobs"}):
        assert run("config", "show", cwd=tmp_path, env=env).err == ""
    ended = run("config", "show", "--store", "postgresql://oncue@127.0.0.1:1/jobs", cwd=tmp_path)
    assert ended.err == ""
