"""What the doctor looks at in a PostgreSQL server and the schema of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oncue.cli import output
from oncue.cli.findings import Checks, DoctorFinding, bad, ok, size, warn
from oncue.scheduler import Scheduler
from oncue.stores.postgresql import health, schema
from oncue.stores.postgresql.clock import DatabaseClock
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.health import IdleSlot, LongTransaction
from oncue.stores.postgresql.store import PgStore

SKEW_SECONDS = 1.0
MANY_DEAD = 100_000
VACUUM_SECONDS = 600
BESIDE_POOL = 2
"""Connections of a process outside its pool: one that listens, one that tells others."""
MOST_USED = 0.9
RIGHTS = "docs/postgresql.md has the GRANT statements"


def checks(cue: Scheduler) -> Checks:
    store = cue.store
    assert isinstance(store, PgStore)
    db = store.db
    return {
        "locks": _locks(db),  # first: other checks may wait for them
        "PostgreSQL": _version(db),
        "durability": _durability(db),
        "schema": _schema(db),
        "rights": _rights(db),
        "indexes": _indexes(db),
        "dead rows": _dead_rows(db),
        "long transactions": _long_transactions(db),
        "replication slots": _slots(db),
        "connections": _connections(db, lambda: len(cue.nodes())),
        "notices": _notices(store),
        "server's clock": _skew(store.clock),
    }


def _locks(db: PgDatabase) -> Iterator[DoctorFinding]:
    found = health.blockers(db)
    for one, tables, blocks in found:
        held = f"has locked {', '.join(tables)} of the store" if tables else "has locked rows"
        who, began = _told(one), f"It began {output.length(one.seconds)} ago."
        if blocks:
            yield bad(f"{who} {held}, and others wait. {began}", _remedy(one))
        else:
            text = "has written to the store: calls that need the same jobs, keys or queues wait."
            yield warn(f"{who} {text} {began}", _remedy(one))
    if not found:
        yield ok("nobody waits for a transaction.")


def _version(db: PgDatabase) -> Iterator[DoctorFinding]:
    server = health.server(db)
    if server.number < schema.LEAST_VERSION:
        yield bad(f"{server.version}: oncue needs 14 or later.", "Upgrade the server.")
    else:
        yield ok(f"{server.version}.")
    if server.is_standby:
        yield bad(
            "this server is a standby: it takes no jobs.",
            "Name the primary; with several hosts in the URL: target_session_attrs=read-write",
        )
    if server.is_read_only:
        yield bad(
            "default_transaction_read_only is on: no job can be stored or changed.",
            f"ALTER ROLE {server.role} RESET default_transaction_read_only; or change it for the "
            "database or the server.",
        )


def _durability(db: PgDatabase) -> Iterator[DoctorFinding]:
    server = health.server(db)
    lost = "jobs that were acknowledged may be lost"
    if server.fsync != "on" or server.full_page_writes != "on":
        switched_off = [n for n in ("fsync", "full_page_writes") if getattr(server, n) != "on"]
        yield bad(
            f"{' and '.join(switched_off)} off: {lost} in a crash of the server's machine, and the "
            "whole database with them.",
            "In postgresql.conf: " + ", ".join(f"{name} = on" for name in switched_off),
        )
    if server.synchronous_commit == "off":
        yield bad(
            f"synchronous_commit off: {lost} in a crash of the server.",
            f"ALTER ROLE {server.role} SET synchronous_commit = on; then restart the processes.",
        )
    elif server.fsync == server.full_page_writes == "on":
        standbys = server.synchronous_standbys
        waits = f"; commits wait for {standbys}" if standbys else ""
        alone = (
            "" if standbys else " With no synchronous standby, a fail-over may lose the last jobs."
        )
        yield ok(
            f"fsync on, synchronous_commit {server.synchronous_commit}{waits}: what is "
            f"acknowledged survives a crash.{alone}"
        )


def _schema(db: PgDatabase) -> Iterator[DoctorFinding]:
    text, sql, _ = schema.missing(db)
    if sql:
        yield bad(f"is not that of this version: {text}.", "Run: oncue migrate")
    else:
        yield ok(f"{db.address.schema} has all that version {schema.wanted_schema(db)} needs.")


def _rights(db: PgDatabase) -> Iterator[DoctorFinding]:
    found = health.rights(db)
    if found.lacking:
        some = "; ".join(found.lacking[:5]) + ("; …" if len(found.lacking) > 5 else "")
        yield bad(
            f"role {found.role} lacks {some}: calls that need it fail.", f"Grant it: {RIGHTS}."
        )
        return
    may = "may read and write every table"
    if found.may_migrate:
        yield ok(f"role {found.role} {may}, and migrate them.")
    else:
        yield ok(
            f"role {found.role} {may}, but not change them: another role runs 'oncue migrate' "
            "before a new version of oncue is used here."
        )


def _indexes(db: PgDatabase) -> Iterator[DoctorFinding]:
    lacking = health.lacking_indexes(db)
    for one in lacking:
        what = (
            f"{one.name} is not valid, as its creation failed"
            if one.is_there
            else (f"{one.name} is missing")
        )
        yield bad(
            f"{what}: calls that need it read the whole table, or store what must not be twice.",
            f"As the owner of the tables, outside a transaction: {one.remedy}",
        )
    if not lacking:
        yield ok(f"all {len(health.wanted_indexes(db))} are there and valid.")


def _dead_rows(db: PgDatabase) -> Iterator[DoctorFinding]:
    found = health.dead_rows(db)
    table, ago = f"{db.address.schema}.jobs", found.vacuumed_seconds_ago
    vacuumed = "never vacuumed" if ago is None else f"vacuumed {output.length(ago)} ago"
    text = f"about {found.dead:,} dead and {found.live:,} live rows in {table}, {vacuumed}"
    is_behind = ago is None or ago > VACUUM_SECONDS
    if not found.is_vacuumed:
        yield warn(
            f"{text}; autovacuum is off: the table grows, and claims get slower.",
            f"Turn it on (autovacuum, track_counts; ALTER TABLE {table} RESET "
            "(autovacuum_enabled)), or run VACUUM every few minutes.",
        )
    elif found.dead > max(MANY_DEAD, found.live // 2) and is_behind:
        yield warn(
            f"{text}: the table grows, and claims get slower.",
            f"See what holds vacuum back (long transactions, replication slots), then: VACUUM "
            f"(ANALYZE) {table}; If it comes back: more workers for autovacuum, and a higher "
            "autovacuum_vacuum_cost_limit.",
        )
    else:
        yield ok(f"{text}.")


def _long_transactions(db: PgDatabase) -> Iterator[DoctorFinding]:
    found = health.long_transactions(db, health.LONG_SECONDS)
    for one in found:
        yield warn(
            f"{_told(one)} has been open for {output.length(one.seconds)}: rows that were deleted "
            "since then stay, and claims get slower.",
            _remedy(one),
        )
    if not found:
        all_are_seen = health.sees_all(db)
        seen = "" if all_are_seen else ", of those that this role is shown (pg_read_all_stats: all)"
        yield ok(f"none is older than {output.length(health.LONG_SECONDS)}{seen}.")


def _told(one: LongTransaction) -> str:
    if one.state == "prepared":
        return output.clean(f"the prepared transaction {one.pid} of {one.role}")
    by = f" ({one.application})" if one.application else ""
    return output.clean(f"a transaction of {one.role}{by}, process {one.pid}, {one.state},")


def _remedy(one: LongTransaction) -> str:
    if one.state == "prepared":
        return output.clean(f"COMMIT PREPARED or ROLLBACK PREPARED '{one.pid}'")
    limit = "set idle_in_transaction_session_timeout for its role"
    return f"End it, if nobody needs it: SELECT pg_terminate_backend({one.pid}); and {limit}."


def _slots(db: PgDatabase) -> Iterator[DoctorFinding]:
    found = health.idle_slots(db)
    for one in found:
        yield warn(
            output.clean(f"{one.kind} slot {one.name} has no reader: {_kept(one)}."),
            output.clean(
                "Start its reader, or, if there is none any more: SELECT "
                f"pg_drop_replication_slot('{one.name}');"
            ),
        )
    if not found:
        yield ok("none is without a reader.")


def _kept(one: IdleSlot) -> str:
    log = "" if one.kept_bytes is None else f" ({size(one.kept_bytes)} now)"
    kept = [f"the write-ahead log is kept until the disk is full{log}"]
    if one.holds_rows:
        kept.insert(0, "vacuum cannot remove what was deleted since")
    return ", and ".join(kept)


def _connections(db: PgDatabase, nodes: Callable[[], int]) -> Iterator[DoctorFinding]:
    """`nodes`: how many processes work on the store. That they have the pool of this one is all
    that is known of theirs."""
    found, each = health.connections(db), db.address.pool_size + BESIDE_POOL
    count = nodes()
    need = count * each
    runs = "processes of oncue run" if count > 1 else "process of oncue runs"
    together = f", together {need}" if count > 1 else ""
    text = (
        f"{found.used} are in use, of {found.allowed} that the role may open (max_connections "
        "without the reserved ones, or a lower limit of the role or the database); "
        f"{count or 'no'} {runs} on this store; each may open {each} (pool_size and "
        f"{BESIDE_POOL}){together}"
    )
    more = "raise max_connections (or the limit of the role or the database)"
    if need > found.allowed:
        todo = f"Lower pool_size in the URL of the store, or {more}."
        yield warn(f"{text}: more than there are, and then calls wait and fail.", todo)
    elif found.used > found.allowed * MOST_USED:
        todo = f"See who has them (pg_stat_activity), or {more}."
        yield warn(f"{text}. Soon none is left.", todo)
    else:
        yield ok(f"{text}.")


def _notices(store: PgStore) -> Iterator[DoctorFinding]:
    rest = output.length(store.traits.notice_seconds)
    if store.db.listens:
        yield ok("this process listens: jobs of other processes are noticed within milliseconds.")
    else:
        yield ok(
            "off, by listen=no or because a pooler gives each transaction another connection: jobs "
            f"of other processes are noticed within {rest}."
        )


def _skew(clock: Any) -> Iterator[DoctorFinding]:
    if not isinstance(clock, DatabaseClock):
        return
    skew = clock.skew_seconds
    if abs(skew) <= SKEW_SECONDS:
        yield ok("agrees with this machine's.")
        return
    where = "ahead of" if skew > 0 else "behind"
    yield warn(
        f"is {output.length(abs(skew))} {where} this machine's: the server's is used, so moments "
        "that programs compute here are wrong by as much.",
        "Keep the clocks of both machines right with NTP.",
    )
