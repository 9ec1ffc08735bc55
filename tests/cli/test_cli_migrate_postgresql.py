"""`oncue migrate` on PostgreSQL: SQL that can be read before it is run, by whom it may be run."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from oncue import Scheduler
from oncue.stores import open_store
from oncue.stores.postgresql import health
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import PgDatabase
from tests.acceptance.documents import Block, blocks

from .on_postgresql import do, new_role, psql, schema_of, unused_url, url_of
from .terminal import Ended, run


def migrate(url: str, *arguments: str, cwd: Path) -> Ended:
    return run("migrate", "--store", url, *arguments, cwd=cwd)


def tables(schema: str) -> int:
    return int(do(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'")[0][0])


def secrets(schema: str) -> list[bytes]:
    return [row[0] for row in do(f"SELECT value FROM {schema}.meta WHERE name = 'secret'")]


def test_a_schema_is_created_and_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    url = unused_url()
    schema = schema_of(url)
    done = migrate(url, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Now: create the tables of version 3 in schema {schema} …\n")
    assert re.search(rf"127\S+/postgres \({schema}\) has schema 3\.", done.out)
    assert tables(schema) > 10
    open_store(url).close()
    again = migrate(url, cwd=tmp_path)
    assert again.out.endswith("Nothing was changed.\n")
    planned = migrate(url, "--dry-run", cwd=tmp_path)
    assert (planned.code, planned.out) == (0, "")
    assert planned.err.endswith("has schema 3. Nothing was changed.\n")


def test_a_dry_run_prints_sql_that_psql_can_run(tmp_path: Path) -> None:
    url = unused_url()
    schema = schema_of(url)
    planned = migrate(url, "--dry-run", cwd=tmp_path)
    assert planned.code == 0
    assert planned.err == (
        f"Would create the tables of version 3 in schema {schema}.\nNothing was changed.\n"
    )
    assert do(f"SELECT to_regnamespace('{schema}')") == [(None,)]
    ran = psql(planned.out)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    [secret] = secrets(schema)
    assert len(secret) == 32
    assert migrate(url, "--json", cwd=tmp_path).json["steps"] == []
    open_store(f"{url}&migrate=no").close()


def test_sql_that_fails_leaves_nothing(tmp_path: Path) -> None:
    url = unused_url()
    schema = schema_of(url)
    script = migrate(url, "--dry-run", cwd=tmp_path).out
    ran = psql(script.replace("COMMIT;", f"SELECT 1 FROM {schema}.no_such_table;\nCOMMIT;"))
    assert ran.returncode != 0
    assert do(f"SELECT to_regnamespace('{schema}')") == [(None,)]


def test_scripts_get_a_document_with_the_sql(tmp_path: Path) -> None:
    url = unused_url()
    planned = migrate(url, "--dry-run", "--json", cwd=tmp_path)
    assert planned.err == ""
    told = planned.json
    assert (told["dry_run"], told["schema"], len(told["steps"])) == (True, 3, 1)
    assert told["sql"] == migrate(url, "--dry-run", cwd=tmp_path).out
    assert migrate(url, "--json", cwd=tmp_path).json == {**told, "dry_run": False}
    assert migrate(url, "--json", cwd=tmp_path).json == {
        **told,
        "dry_run": False,
        "steps": [],
        "sql": "",
    }


def test_a_schema_that_is_there_and_empty_is_used(tmp_path: Path) -> None:
    """By a role that may create tables in it, and nothing else."""
    schema = schema_of(unused_url())
    do(f"CREATE SCHEMA {schema}")
    with new_role(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {{role}}") as role:
        url = url_of(schema, role)
        assert "CREATE SCHEMA" not in migrate(url, "--dry-run", cwd=tmp_path).out
        assert migrate(url, cwd=tmp_path).code == 0
        assert tables(schema) > 10


def test_several_that_migrate_at_once_do_it_once(tmp_path: Path) -> None:
    url = unused_url()
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(lambda _: migrate(url, cwd=tmp_path), range(4)))
    assert [(one.code, one.err) for one in ended] == [(0, "")] * 4
    assert len(secrets(schema_of(url))) == 1


def test_several_that_open_a_new_store_at_once_share_its_secret() -> None:
    url = unused_url()

    def secret(_: int) -> bytes:
        store = open_store(url)
        store.close()
        return store.secret

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(secret, range(4)))) == 1


def test_a_role_that_may_not_create_is_told_the_next_step(tmp_path: Path) -> None:
    with new_role() as role:
        url = url_of(schema_of(unused_url()), role)
        ended = migrate(url, cwd=tmp_path)
        assert ended.code == 5
        assert "the role of the store lacks a right (permission denied for database" in ended.err
        assert "GRANT CREATE ON DATABASE …), or another role run 'oncue migrate'" in ended.err
        assert "'oncue migrate --dry-run' prints." in ended.err
        assert migrate(url, "--dry-run", cwd=tmp_path).code == 0


def run_script(block: Block, words: dict[str, str]) -> None:
    """As the administrator, with other words for those of the documents."""
    script = block.text
    for word, meant in words.items():
        assert word in script
        script = script.replace(word, meant)
    assert psql(script).returncode == 0


def store_in_transaction(store: str, own: str) -> None:
    """A job, on a connection of another role than that of the store."""
    with Scheduler(store) as cue, psycopg.connect(own.partition("?")[0]) as connection:
        job = cue.schedule(1, queue="mail", key="ada", connection=connection)
        connection.commit()
        assert cue.job(job.id).queue == "mail"


def test_the_role_of_the_first_steps_can_make_the_tables(tmp_path: Path) -> None:
    first, *_ = blocks("docs/postgresql.md", "sql")
    name = schema_of(unused_url())
    made = {"DATABASE jobs OWNER oncue;": f"DATABASE {name} OWNER {name};"}
    run_script(first, {"ROLE oncue ": f"ROLE {name} "} | made)
    try:
        url = f"{url_of('oncue', name).rpartition('/')[0]}/{name}"
        assert migrate(url, cwd=tmp_path).code == 0
    finally:
        do(f"DROP DATABASE {name} WITH (FORCE)")
        do(f"DROP ROLE {name}")


def test_the_roles_of_the_documents_have_the_rights_they_need(tmp_path: Path) -> None:
    _, statements, of_app, _ = blocks("docs/postgresql.md", "sql")
    schema = schema_of(unused_url())
    owner, user, app = f"{schema}_owner", f"{schema}_user", f"{schema}_app"
    words = {"oncue_owner": owner, "SCHEMA oncue": f"SCHEMA {schema}"}
    of_user = {"ROLE oncue ": f"ROLE {user} ", "TO oncue;": f"TO {user};"}
    run_script(statements, words | of_user)
    do(f"CREATE ROLE {app} LOGIN")
    try:
        assert migrate(url_of(schema, owner), cwd=tmp_path).code == 0
        daily = url_of(schema, user, migrate="no")
        ended = run("jobs", "add", "1", "--store", daily, cwd=tmp_path)
        assert (ended.code, ended.err) == (0, "")
        with closing(PgDatabase(PgAddress.read(daily))) as db:
            assert health.rights(db) == (user, [], False)
        with closing(PgDatabase(PgAddress.read(url_of(schema, owner)))) as db:
            assert health.rights(db) == (owner, [], True)
        run_script(of_app, words | {"TO app;": f"TO {app};"})
        store_in_transaction(daily, url_of(schema, app))
        do(f"CREATE TABLE {schema}.later (n int)", url_of(schema, owner))
        assert do(f"SELECT * FROM {schema}.later", url_of(schema, app)) == []
    finally:
        for role in (owner, user, app):
            do(f"DROP OWNED BY {role} CASCADE")
            do(f"DROP ROLE {role}")


def test_a_role_can_use_tables_that_an_administrator_made_of_the_sql(tmp_path: Path) -> None:
    *_, grants = blocks("docs/postgresql.md", "sql")
    schema = schema_of(unused_url())
    with new_role() as role:
        url = url_of(schema, role)
        assert psql(migrate(url, "--dry-run", cwd=tmp_path).out).returncode == 0
        run_script(grants, {"TO oncue;": f"TO {role};", "SCHEMA oncue": f"SCHEMA {schema}"})
        ended = run("jobs", "add", "1", "--store", url, cwd=tmp_path)
        assert (ended.code, ended.err) == (0, "")


def test_a_store_that_is_not_to_be_migrated_is_left_alone(tmp_path: Path) -> None:
    url = unused_url(migrate="no")
    refused = run("jobs", "add", "1", "--store", url, cwd=tmp_path)
    assert refused.code == 5
    assert "the tables of the store are missing or of an earlier version" in refused.err
    assert "Run 'oncue migrate' with a role that may" in refused.err
    assert do(f"SELECT to_regnamespace('{schema_of(url)}')") == [(None,)]
    assert migrate(url, cwd=tmp_path).code == 0  # who says it is obeyed


def test_a_schema_of_a_later_version_is_refused(tmp_path: Path) -> None:
    url = unused_url()
    migrate(url, cwd=tmp_path)
    do(f"UPDATE {schema_of(url)}.meta SET value = '999' WHERE name IN ('schema', 'least')")
    ended = migrate(url, cwd=tmp_path)
    assert ended.code == 5
    assert "its schema is version 999, but this oncue knows only up to 3" in ended.err


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--dry-run"], ["jobs", "add", "1"]])
def test_a_server_that_is_not_there_is_told_at_once(command: list[str], tmp_path: Path) -> None:
    ended = run(*command, "--store", "postgresql://oncue@127.0.0.1:1/jobs", cwd=tmp_path)
    assert (ended.code, ended.out) == (5, "")
    assert ended.err.startswith("Error: 127.0.0.1:1/jobs: ")
    assert "Connection refused" in ended.err


def test_point_in_time_recovery_is_refused(tmp_path: Path) -> None:
    ended = migrate(unused_url(), "--point-in-time-recovery", cwd=tmp_path)
    assert (ended.code, "only a DynamoDB table has it" in ended.err) == (2, True)


def test_a_later_schema_that_can_be_used_is_named_beside_the_one_that_is_known(
    tmp_path: Path,
) -> None:
    url = unused_url()
    migrate(url, cwd=tmp_path)
    known = json.loads(migrate(url, "--json", cwd=tmp_path).out)["schema"]
    later = known + 1
    do(f"UPDATE {schema_of(url)}.meta SET value = '{later}' WHERE name = 'schema'")
    ended = migrate(url, cwd=tmp_path)
    assert ended.code == 0
    assert f"has schema {later}. This oncue" in ended.out
    assert f"knows schema {known}, and can use it as it is;" in ended.out
    assert ended.out.endswith("upgrade oncue here. Nothing was changed.\n")
    answer = json.loads(migrate(url, "--json", cwd=tmp_path).out)
    assert (answer["schema"], answer["known_schema"]) == (later, known)
