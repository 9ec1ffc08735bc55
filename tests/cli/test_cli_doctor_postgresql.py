"""`oncue doctor` on PostgreSQL: every finding on a server that has the trouble."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from oncue import Scheduler
from oncue.cli import postgresql_findings as findings
from oncue.cli.findings import DoctorFinding
from oncue.clock import FakeClock, SystemClock
from oncue.stores.postgresql import health, schema
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.clock import DatabaseClock
from oncue.stores.postgresql.database import PgDatabase
from tests.servers.postgres import PostgresServer

from .on_postgresql import do, new_role, schema_of, unused_url, url_of
from .terminal import run, wait_until

ROOT = Path(__file__).parents[2]
EVENT_AT = "2021-01-01 12:30:00"


def database(url: str) -> PgDatabase:
    return PgDatabase(PgAddress.read(url))


@pytest.fixture
def db() -> Iterator[PgDatabase]:
    """A schema of its own, with the tables of a store, on the session's server."""
    with closing(database(unused_url())) as made:
        schema.migrate(made)
        yield made
        do(f"DROP SCHEMA {made.address.schema} CASCADE")


def levels(found: Iterator[DoctorFinding]) -> list[str]:
    return [one.level for one in found]


def test_the_version(db: PgDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = findings._version(db)
    assert (found.level, found.text.startswith("18.")) == ("ok", True)
    monkeypatch.setattr(schema, "LEAST_VERSION", 990_000)
    [found] = findings._version(db)
    assert (found.level, found.todo) == ("bad", "Upgrade the server.")


def test_a_role_whose_transactions_are_read_only_is_an_error(db: PgDatabase) -> None:
    with new_role() as role, closing(database(url_of(db.address.schema, role))) as theirs:
        do(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        _, found = findings._version(theirs)
    assert (found.level, "default_transaction_read_only is on" in found.text) == ("bad", True)
    assert found.todo.startswith(f"ALTER ROLE {role} RESET default_transaction_read_only")


def test_a_server_that_may_lose_acknowledged_jobs_is_an_error(db: PgDatabase) -> None:
    """The session's server does not wait for the disk."""
    flushing, committing = findings._durability(db)
    assert (flushing.level, committing.level) == ("bad", "bad")
    assert flushing.text.startswith("fsync and full_page_writes off: jobs that were acknowledged")
    assert flushing.todo == "In postgresql.conf: fsync = on, full_page_writes = on"
    assert committing.text.startswith("synchronous_commit off: jobs that were acknowledged may be")
    assert "ALTER ROLE postgres SET synchronous_commit = on" in committing.todo


def test_a_durable_server_and_one_that_a_role_makes_less_durable(tmp_path: Path) -> None:
    with PostgresServer(tmp_path) as server:
        with closing(database(server.url)) as db:
            [found] = findings._durability(db)
            assert found.level == "ok"
            assert found.text.startswith("fsync on, synchronous_commit on: what is acknowledged")
            assert "With no synchronous standby" in found.text
        do("ALTER ROLE postgres SET synchronous_commit = off", server.url)
        with closing(database(server.url)) as db:
            assert levels(findings._durability(db)) == ["bad"]


def test_a_schema_that_lacks_tables_is_an_error() -> None:
    with closing(database(unused_url())) as db:
        [found] = findings._schema(db)
        assert (found.level, found.todo) == ("bad", "Run: oncue migrate")
        schema.migrate(db)
        assert levels(findings._schema(db)) == ["ok"]


def test_a_role_that_may_do_everything(db: PgDatabase) -> None:
    [found] = findings._rights(db)
    assert found.text == "role postgres may read and write every table, and migrate them."


def test_a_role_with_the_least_rights_may_not_migrate_and_that_is_no_error(db: PgDatabase) -> None:
    name = db.address.schema
    grant = (
        f"GRANT USAGE ON SCHEMA {name} TO {{role}}; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {{role}}; "
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {{role}}"
    )
    with new_role(grant) as role, closing(database(url_of(name, role))) as theirs:
        [found] = findings._rights(theirs)
        assert found.level == "ok"
        assert f"role {role} may read and write every table, but not change them" in found.text
        do(f"REVOKE USAGE ON SEQUENCE {name}.events_n_seq FROM {role}")
        [found] = findings._rights(theirs)
        assert f"role {role} lacks USAGE on sequence events_n_seq: calls that" in found.text
        do(f"REVOKE DELETE, UPDATE ON {name}.jobs FROM {role}")
        [found] = findings._rights(theirs)
        assert found.level == "bad"
        assert f"role {role} lacks UPDATE, DELETE on jobs" in found.text
        assert "docs/postgresql.md" in found.todo


def test_with_the_rights_of_the_page_a_role_can_store_everything(db: PgDatabase) -> None:
    name = db.address.schema
    page = (ROOT / "docs" / "postgresql.md").read_text("utf-8")
    first = "GRANT USAGE ON SCHEMA oncue TO oncue;"
    grants = first + page.rpartition(first)[2].partition("```")[0]
    rights = grants.replace("SCHEMA oncue TO oncue", f"SCHEMA {name} TO {{role}}")
    with new_role(rights) as role, Scheduler(url_of(name, role, migrate="no")) as cue:
        its = {"type": "TABLE", "resourceId": "orders", "lifeDuration": 60}
        event = {"eventType": "TABLE", "eventResourceId": "orders", "eventTimestamp": EVENT_AT}
        cue.put_rule("load", [its])
        cue.every(600, name="often", queue="beats")
        [published] = cue.publish(event)
        assert [job.job_id for job in published.jobs] == [job.id for job in cue.jobs()]


def mend(found: DoctorFinding) -> None:
    """Do what it says, while others work: nobody waits for an index that is made."""
    before, _, sql = found.todo.partition(": ")
    assert before == "As the owner of the tables, outside a transaction"
    assert "INDEX CONCURRENTLY" in sql
    for statement in sql.removesuffix(";").split(";"):
        do(statement)


def test_an_index_that_is_missing_is_told_with_the_statement_that_makes_it(db: PgDatabase) -> None:
    [found] = findings._indexes(db)
    assert found.level == "ok", found
    name = db.address.schema
    do(f"DROP INDEX {name}.jobs_ready; ALTER TABLE {name}.queues DROP CONSTRAINT queues_pkey")
    first, second = sorted(findings._indexes(db), key=lambda one: one.text)
    assert {first.level, second.level} == {"bad"}
    assert first.text.startswith("jobs_ready is missing")
    assert second.text.startswith("the primary key of queues is missing")
    mend(first)
    mend(second)
    assert levels(findings._indexes(db)) == ["ok"]


def test_an_index_that_is_not_valid_is_told_with_the_statement_that_mends_it(
    db: PgDatabase,
) -> None:
    name = db.address.schema
    do(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}.jobs_owner'::regclass")
    [found] = findings._indexes(db)
    assert (found.level, found.text.startswith("jobs_owner is not valid")) == ("bad", True)
    mend(found)
    assert levels(findings._indexes(db)) == ["ok"]


def test_every_index_of_the_migrations_is_looked_for(db: PgDatabase) -> None:
    made = do(
        "SELECT count(*) FROM pg_index JOIN pg_class ON oid = indrelid "
        f"WHERE relnamespace = '{db.address.schema}'::regnamespace"
    )
    assert [(len(health.wanted_indexes(db)),)] == made


def test_dead_rows(db: PgDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"{db.address.schema}.jobs"
    do(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    [found] = findings._dead_rows(db)
    assert (found.level, "autovacuum is off" in found.text) == ("warn", True)
    do(f"ALTER TABLE {table} SET (autovacuum_vacuum_threshold = 1000000)")
    do(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    assert levels(findings._dead_rows(db)) == ["ok"]
    do(
        f"INSERT INTO {table} (id, queue, due_at, created_at, updated_at, shard, payload) "
        "SELECT n::text, 'mail', 0, 0, 0, 0, '' FROM generate_series(1, 300) AS n; "
        f"DELETE FROM {table} WHERE id <> '1'"
    )
    monkeypatch.setattr(findings, "MANY_DEAD", 200)
    wait_until(lambda: levels(findings._dead_rows(db)) == ["warn"])
    [found] = findings._dead_rows(db)
    assert found.text.startswith(f"about 299 dead and 1 live rows in {table}, never vacuumed")
    assert f"VACUUM (ANALYZE) {table}" in found.todo
    do(f"VACUUM {table}")
    wait_until(lambda: levels(findings._dead_rows(db)) == ["ok"])
    monkeypatch.setattr(findings, "MANY_DEAD", -1)
    assert levels(findings._dead_rows(db)) == ["ok"]  # it was vacuumed a moment ago


def test_a_long_transaction_is_told_with_the_way_to_end_it(
    db: PgDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    [found] = findings._long_transactions(db)
    assert (found.level, found.text) == ("ok", "none is older than 5 min.")
    monkeypatch.setattr(health, "LONG_SECONDS", 0)
    place = db.address.conninfo
    with closing(psycopg.connect(place, application_name="report \x07")) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        pid = other.info.backend_pid
        [found] = [one for one in findings._long_transactions(db) if f" {pid}," in one.text]
        assert found.level == "warn"
        assert "a transaction of postgres (report" in found.text
        assert "idle in transaction" in found.text
        assert "\x07" not in found.text
        assert f"SELECT pg_terminate_backend({pid});" in found.todo
        do(f"SELECT pg_terminate_backend({pid})")


def test_a_transaction_for_which_others_wait_is_told_however_short_it_is(db: PgDatabase) -> None:
    assert levels(findings._locks(db)) == ["ok"]
    table, place = f"{db.address.schema}.revision", db.address.conninfo
    with closing(psycopg.connect(place)) as one, closing(psycopg.connect(place)) as another:
        one.execute(f"LOCK TABLE {table}".encode())
        wait_until(lambda: levels(findings._locks(db)) == ["bad"])
        [found] = findings._locks(db)
        assert f"process {one.info.backend_pid}, idle in transaction" in found.text
        assert "has locked revision of the store" in found.text
        assert f"SELECT pg_terminate_backend({one.info.backend_pid});" in found.todo
        one.execute("ROLLBACK")
        change = f"UPDATE {table} SET settings = settings".encode()
        one.execute(change)
        wait_until(lambda: levels(findings._locks(db)) == ["warn"])
        [found] = findings._locks(db)
        assert f"process {one.info.backend_pid}, idle in transaction" in found.text
        assert "has written to the store" in found.text
        waiting = threading.Thread(target=another.execute, args=[change])
        waiting.start()
        wait_until(lambda: levels(findings._locks(db)) == ["bad"])
        [found] = findings._locks(db)
        assert f"process {one.info.backend_pid}," in found.text
        assert "has locked rows" in found.text
        one.execute("ROLLBACK")
        waiting.join()


def test_a_role_that_is_not_shown_the_sessions_of_others_is_told_so(db: PgDatabase) -> None:
    with new_role() as role, closing(database(url_of(db.address.schema, role))) as theirs:
        [found] = findings._long_transactions(theirs)
        assert "of those that this role is shown" in found.text


def test_slots_without_a_reader_and_prepared_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgresServer(tmp_path, durable=False)
    server.settings |= {"wal_level": "logical", "max_prepared_transactions": "2"}
    with server, closing(database(server.url)) as db:
        assert levels(findings._slots(db)) == ["ok"]
        do("SELECT pg_create_physical_replication_slot('unused')", server.url)
        assert levels(findings._slots(db)) == ["ok"]  # it keeps nothing yet
        do("SELECT pg_create_physical_replication_slot('standby', true)", server.url)
        do("SELECT pg_create_logical_replication_slot('feed', 'pgoutput')", server.url)
        feed, standby = findings._slots(db)
        assert (feed.level, standby.level) == ("warn", "warn")
        assert feed.text.startswith("logical slot feed has no reader: vacuum cannot remove")
        assert standby.text.startswith("physical slot standby has no reader: the write-ahead log")
        assert standby.todo.endswith("SELECT pg_drop_replication_slot('standby');")
        monkeypatch.setattr(health, "LONG_SECONDS", 0)
        with psycopg.connect(server.url) as other:
            other.execute("CREATE TABLE t (n int)")
            other.execute("PREPARE TRANSACTION 'left'")
        [found] = [one for one in findings._long_transactions(db) if "left" in one.text]
        assert found.text.startswith("the prepared transaction left of postgres has been open for")
        assert found.todo == "COMMIT PREPARED or ROLLBACK PREPARED 'left'"


def test_more_processes_than_the_server_has_connections_for(db: PgDatabase) -> None:
    [found] = findings._connections(db, lambda: 2)
    assert found.level == "ok"
    assert "are in use, of 297 that the role may open (max_connections without the" in found.text
    assert found.text.endswith(
        "; 2 processes of oncue run on this store; each may open 12 (pool_size and 2), together 24."
    )
    [found] = findings._connections(db, lambda: 0)
    assert found.text.endswith(
        "; no process of oncue runs on this store; each may open 12 (pool_size and 2)."
    )
    [found] = findings._connections(db, lambda: 25)
    assert (found.level, "together 300: more than there are" in found.text) == ("warn", True)
    assert "Lower pool_size" in found.todo


def few(url: str) -> list[DoctorFinding]:
    with closing(database(url)) as theirs:
        return list(findings._connections(theirs, lambda: 2))


def test_a_role_that_may_have_a_few_connections_only(db: PgDatabase) -> None:
    with new_role("ALTER ROLE {role} CONNECTION LIMIT 5") as role:
        [found] = few(url_of(db.address.schema, role, pool_size="2"))
        assert found.level == "warn"
        assert "are in use, of 5 that the role may open" in found.text
        assert "2 processes of oncue run on this store; each may open 4" in found.text


@pytest.mark.parametrize(
    ("ahead_ms", "level", "text"),
    [
        (0, "ok", "agrees with this machine's"),
        (-5000, "warn", "is 5 s ahead of this machine's: the server's is used"),
        (5000, "warn", "behind this machine's: the server's is used"),
    ],
)
def test_skew(db: PgDatabase, ahead_ms: int, level: str, text: str) -> None:
    class Turned(SystemClock):
        def now(self) -> int:
            return super().now() + ahead_ms

    [found] = findings._skew(DatabaseClock(db, Turned()))
    assert found.level == level
    assert text in found.text
    assert list(findings._skew(FakeClock())) == []


def test_a_server_that_is_not_there_is_told_with_the_reason(tmp_path: Path) -> None:
    ended = run("doctor", "--store", "postgresql://oncue@127.0.0.1:1/jobs", cwd=tmp_path)
    assert ended.code == 1
    assert "✗ store: 127.0.0.1:1/jobs: connection failed" in ended.out
    assert "Connection refused" in ended.out


def test_tables_that_are_not_there_are_told_and_stay_missing(tmp_path: Path) -> None:
    url = unused_url()
    for command in (["doctor"], ["queues", "list"], ["jobs", "list"], ["top"]):
        ended = run(*command, "--store", url, cwd=tmp_path)
        assert ended.code in (1, 5)
        assert (
            f": there are no tables of oncue in schema {schema_of(url)} of this database. The URL "
            "is from --store: correct it, or run 'oncue migrate' with it."
        ) in ended.out + ended.err
    assert do(f"SELECT to_regnamespace('{schema_of(url)}')") == [(None,)]
