"""The PostgreSQL of the tests is there, is shared, and survives what a test does to it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.servers import emulators, postgres
from tests.servers.postgres import Mode, PostgresServer, debian_postgres, postgres_url
from tests.servers.session import VARIABLE, NotStarted, begin
from tests.servers.standby import PostgresPair
from tests.servers.test_session import PATIENCE, ROOT, eventually

VERSIONS = ["18", "15"] if debian_postgres() else ["18"]
ASK = """
from tests.servers.postgres import postgres_url
from tests.servers.session import begin
print(postgres_url(), begin().folder, flush=True)
input()
"""
OF_ALL = "SELECT pid FROM pg_stat_activity"


def ask(url: str, query: str) -> list[str]:
    """The first column of the answer."""
    with psycopg.connect(url) as connection:
        return [str(row[0]) for row in connection.execute(query)]


def remember(url: str, word: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS words (word text)")
        connection.execute("INSERT INTO words VALUES (%s)", [word])


def exists(pid: str) -> bool:
    """Whether the process runs; one that has ended may be waited for by nobody."""
    try:
        return "\nState:\tZ" not in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("version", VERSIONS)
def test_postgresql_answers_in_the_version_that_was_asked_for(version: str) -> None:
    assert ask(postgres_url(version), "SELECT version()")[0].startswith(f"PostgreSQL {version}.")


def test_everybody_in_a_session_is_given_the_same_server() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(begin().folder)}
    told = subprocess.run(
        [sys.executable, "-c", ASK], env=env, input="\n", capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [postgres_url(), str(begin().folder)]


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop(VARIABLE)
    pipe = subprocess.PIPE
    owner = subprocess.Popen(
        [sys.executable, "-c", ASK], env=env, stdin=pipe, stdout=pipe, text=True
    )
    assert owner.stdout
    url, folder = owner.stdout.readline().split()
    with closing(psycopg.connect(url)) as connection:
        pids = [str(pid) for (pid,) in connection.execute(OF_ALL)]
        pids += Path(folder, "postgresql-18/postmaster.pid").read_text().splitlines()[:1]
        assert all(exists(pid) for pid in pids)
        owner.kill()
        owner.communicate(timeout=PATIENCE)
        assert eventually(lambda: not any(exists(pid) for pid in pids))
    assert eventually(lambda: not Path(folder).exists())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_was_killed_still_has_what_was_committed(
    version: str, tmp_path: Path
) -> None:
    with PostgresServer(tmp_path, version) as server:
        remember(server.url, "kept")
        with closing(psycopg.connect(server.url)) as connection:
            connection.execute("INSERT INTO words VALUES ('not committed')")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        server.start()
        assert ask(server.url, "SELECT word FROM words") == ["kept"]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_is_restarted_under_its_clients(server: PostgresServer, mode: Mode) -> None:
    remember(server.url, "kept")
    with closing(psycopg.connect(server.url)) as connection:
        connection.execute("INSERT INTO words VALUES ('not committed')")
        server.restart(mode)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert ask(server.url, "SELECT word FROM words") == ["kept"]


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
def test_nothing_is_left_of_a_server_that_has_ended(server: PostgresServer, end) -> None:
    with closing(psycopg.connect(server.url)) as connection:
        pids = [str(pid) for (pid,) in connection.execute(OF_ALL)]
        assert {int(pid) for pid in pids} < set(server.processes())
        end(server)
        assert not any(exists(pid) for pid in pids)
        assert not server.processes()
    with pytest.raises(psycopg.OperationalError):
        ask(server.url, "SELECT 1")


def test_a_standby_that_takes_over_has_what_the_primary_acknowledged(tmp_path: Path) -> None:
    with PostgresPair(tmp_path) as pair:
        remember(pair.url, "kept")
        for kill in (False, True):
            pair.crash(kill=kill)
            remember(pair.url, f"kept, {kill}")
        assert ask(pair.url, "SELECT word FROM words") == ["kept", "kept, False", "kept, True"]


def test_settings_are_those_of_the_next_start(server: PostgresServer) -> None:
    assert ask(server.url, "SHOW fsync") == ["on"]
    server.settings |= {"fsync": "off", "max_connections": "20"}
    server.restart()
    assert ask(server.url, "SHOW fsync") + ask(server.url, "SHOW max_connections") == ["off", "20"]


def test_the_server_of_the_session_does_not_wait_for_the_disk() -> None:
    assert ask(postgres_url(), "SHOW fsync") == ["off"]
    assert ask(postgres_url(), "SHOW synchronous_commit") == ["off"]


def test_a_server_that_does_not_start_is_told_with_what_it_printed(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path)
    server.settings["shared_buffers"] = "plenty"
    with pytest.raises(NotStarted, match='"plenty"'):
        server.start()


def test_what_is_not_installed_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres, "ROOT", tmp_path)
    with pytest.raises(emulators.NotInstalled, match="PostgreSQL 18 .* `make .servers/installed`"):
        PostgresServer(tmp_path).start()
