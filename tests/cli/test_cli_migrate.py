"""`oncue migrate`: one command that makes every store ready."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from .on_dynamodb import CREDENTIALS, unused_url
from .terminal import Ended, run


def migrate(*arguments: str, cwd: Path) -> Ended:
    return run("migrate", *arguments, cwd=cwd, env=CREDENTIALS)


def test_a_table_is_created_and_can_be_used_and_the_second_time_nothing_is_done(
    tmp_path: Path,
) -> None:
    url = unused_url()
    planned = migrate("--store", url, "--dry-run", cwd=tmp_path)
    assert (planned.code, planned.err) == (0, "")
    assert planned.out.startswith("Would create table oncue-")
    assert planned.out.endswith("\nNothing was changed.\n")
    refused = run("jobs", "add", "1", "--store", url, cwd=tmp_path, env=CREDENTIALS)
    assert refused.code == 5
    assert "create it: oncue migrate, with the URL of this store" in refused.err
    done = migrate("--store", url, cwd=tmp_path)
    assert done.code == 0
    assert "Now: create table oncue-" in done.out
    assert "has schema 1.\n" in done.out
    assert run("jobs", "add", "1", "--store", url, cwd=tmp_path, env=CREDENTIALS).code == 0
    again = migrate("--store", url, cwd=tmp_path)
    assert again.out.endswith("has schema 1. Nothing was changed.\n")


def test_scripts_get_a_document(tmp_path: Path) -> None:
    url = unused_url()
    planned = migrate("--store", url, "--dry-run", "--json", cwd=tmp_path).json
    assert (planned["dry_run"], planned["schema"], len(planned["steps"])) == (True, 1, 3)
    done = migrate("--store", url, "--json", cwd=tmp_path).json
    assert done == {**planned, "dry_run": False}
    assert migrate("--store", url, "--json", cwd=tmp_path).json["steps"] == []


def test_an_emulator_has_no_recovery_and_all_else_is_done(tmp_path: Path) -> None:
    url = unused_url()
    ended = migrate("--store", url, "--point-in-time-recovery", cwd=tmp_path)
    assert ended.code == 5
    assert "Leave out --point-in-time-recovery" in ended.err
    assert migrate("--store", url, "--json", cwd=tmp_path).json["steps"] == []


def test_a_file_is_created_and_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    planned = migrate("--dry-run", cwd=tmp_path)
    assert planned.out.startswith("Would create oncue.db with schema ")
    assert not (tmp_path / "oncue.db").exists()
    assert "Now: create oncue.db" in migrate(cwd=tmp_path).out
    assert migrate(cwd=tmp_path).out.endswith("Nothing was changed.\n")


def test_a_file_of_an_older_version_is_migrated(tmp_path: Path) -> None:
    assert run("migrate", cwd=tmp_path).code == 0
    newest = _version(tmp_path)
    old = apsw.Connection(str(tmp_path / "old.db"))
    from oncue.stores.sqlite.connection import APPLICATION_ID
    from oncue.stores.sqlite.statements import migrations

    old.execute(migrations()[0])
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1")
    old.close()
    planned = migrate("--store", "sqlite:///old.db", "--dry-run", cwd=tmp_path)
    assert f"Would migrate old.db from schema 1 to {newest}.\n" in planned.out
    assert _version(tmp_path, "old.db") == 1
    assert migrate("--store", "sqlite:///old.db", cwd=tmp_path).code == 0
    assert _version(tmp_path, "old.db") == newest


def _version(folder: Path, name: str = "oncue.db") -> int:
    connection = apsw.Connection(str(folder / name))
    version = int(str(connection.execute("PRAGMA user_version").get))
    connection.close()
    return version


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--store", "memory:"], 2, "there is nothing to migrate"),
        (["--store", "sqlite:///"], 2, "names no file"),
        (["--store", "papyrus:x"], 2, "there is no store for"),
        (["--point-in-time-recovery"], 2, "only a DynamoDB table has it"),
        (["--store", "sqlite:///notes.txt"], 5, "not an SQLite database"),
        (["--url", "http://localhost:1"], 2, "needs the store itself"),
    ],
)
def test_what_cannot_be_migrated_is_refused(
    arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Nothing of a database. " * 100)
    ended = migrate(*arguments, cwd=tmp_path)
    assert ended.code == code
    assert text in ended.err
