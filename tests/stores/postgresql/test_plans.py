"""What a claim reads of a table that is full of other jobs: the same as of one that has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import sql

from oncue.clock import FakeClock
from oncue.core.queue import Queue
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.tx import PgTx
from tests.stores.postgres import VERSION, open_postgres, versions

DUE = 20  # jobs of each table that are due
FAR = 100_000
NOW = 1_800_000_000_000
TOLERANCE = 4  # pages; the indexes of the full table have a level or two more
FILL = """
INSERT INTO oncue.jobs (id, queue, due_at, created_at, updated_at, shard, payload, state, attempt,
  claimed_at, finished_at)
SELECT :prefix::text || lpad(n::text, 8, '0'), 'q', :due_at::bigint + n, 0, 0, mod(n, 4), '{}',
  :state::text, CASE WHEN :state::text = 'succeeded' THEN 1 ELSE 0 END,
  CASE WHEN :state::text = 'succeeded' THEN 0 END, CASE WHEN :state::text = 'succeeded' THEN n END
FROM generate_series(1, :count::bigint) AS n
"""
QUEUE = {"queue": "q", "now": NOW}
LINE = {**QUEUE, "shard": 0, "rank": 19}
NEXT = {
    **LINE, "after_due": -1, "after_id": "", "until": NOW, "limit": 5, "room": 10**6, "fence": 0,
}  # fmt: skip
INSIDE = {
    "queue": "q", "shard": 0, "ranks": [19], "firsts": [NOW - 1000], "first_ids": [""],
    "last_dues": [NOW], "last_ids": ["x"], "most": 200,
}  # fmt: skip
STATEMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("claims", "lines", {"queue": "q"}),
    ("claims", "returning", {**QUEUE, "limit": 1000}),
    ("claims", "returns_of", {"queues": ["q", "other"]}),
    ("claims", "lines_of", {"queues": ["q", "other"]}),
    (
        "claims",
        "known_lines",
        {
            "queue": "q", "shards": [0, 1], "ranks": [19, 19],
            "floors": [1, 1], "floor_ids": ["x", "x"],
        },
    ),
    ("claims", "lock_due", {**LINE, "limit": 5, "floor": 0, "floor_id": ""}),
    (
        "claims",
        "lock_due_merged",
        {
            **QUEUE, "rank": 19, "look": 5, "limit": 5,
            "shards": [0, 1], "floors": [0, 0], "floor_ids": ["", ""],
        },
    ),
    ("claims", "expired_due", {**QUEUE, "until": NOW, "since": -1, "limit": 100}),
    ("claims", "is_expired_due", {**QUEUE, "until": NOW, "since": -1, "limit": 100}),
    ("claims", "first_expired", {"now": NOW}),
    ("claims", "count_live", {"queue": "q", "limit": 100}),
    ("claims", "leases", {}),
    ("claims", "lapsed_claims",
     {"lapsed_by": NOW, "at": -1, "id": "", "since": None, "until": None, "limit": 100}),
    (
        "claims",
        "take_first",
        {
            **LINE, "limit": 5, "floor": 0, "floor_id": "", "worker": "ada", "lease_ms": 1000,
            "timeout_seconds": None, "nonce": "n/0",
        },
    ),
    ("claims", "complete",
     {"ids": ["x"], "epochs": [0], "results": [None], "now": NOW, "remembered_ms": 1}),
    ("jobs", "holders_of_keys", {"queues": ["q", "q"], "keys": ["k", "l"]}),
    ("ranges", "due", NEXT),
    ("ranges", "take_due", {**NEXT, "holder": "d", "lease_until": NOW + 1000, "lease_ms": 1000}),
    ("ranges", "count_inside", INSIDE),
    ("ranges", "all_inside", {**INSIDE, "until": NOW, "now": NOW}),
    ("ranges", "delivered_gone", {"ids": ["x"], "queue": "q", "attempt": 0}),
    ("queues", "is_forgettable", {"now": NOW}),
]  # fmt: skip


@pytest.fixture(scope="module", params=versions())
def stores(request: pytest.FixtureRequest) -> Iterator[tuple[PgStore, PgStore]]:
    """One with jobs that are due, and one with many others besides. Versions plan differently."""
    clock = FakeClock(NOW)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VERSION, request.param)
        few, many = open_postgres(clock, 4), open_postgres(clock, 4)
    for store, far in ((few, 0), (many, FAR)):
        assert store.put_queue(None, Queue("q"))
        store.db.write(lambda tx, far=far: fill(tx, far))  # type: ignore[misc]
        with store.db.connect() as connection:  # what stores before it have left
            connection.execute(f"VACUUM {store.db.address.schema}.jobs".encode())
    yield few, many
    few.close()
    many.close()


def fill(tx: PgTx, far: int) -> None:
    insert = tx.statements._convert(FILL)
    for prefix, state, due_at, count in (
        ("due", "scheduled", NOW - 1000, DUE),
        ("far", "scheduled", NOW + 10**9, far),
        ("old", "succeeded", NOW - 10**9, far),
    ):
        values = {"prefix": prefix, "state": state, "due_at": due_at, "count": count}
        tx.execute(insert, values)


def plan_of(store: PgStore, noun: str, name: str, params: dict[str, Any]) -> dict[str, Any]:
    """How the store runs a statement: prepared, and planned for any parameters. It is undone."""
    names = list(params)
    text = re.sub(
        r"%\((\w+)\)[sb]",
        lambda match: f"${names.index(match[1]) + 1}",
        store.db.statements.load(noun)[name].rstrip(";"),
    )
    values = ", ".join(sql.Literal(params[one]).as_string() for one in names)
    with store.db.connection() as connection:
        connection.execute("BEGIN")
        connection.execute(f"PREPARE asked AS {text}".encode(), prepare=False)
        execute = f"EXECUTE asked({values})" if names else "EXECUTE asked"
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}".encode()
        for _ in range(2):  # what the first one finds out about pages is not counted
            row = connection.execute(explain, prepare=False).fetchone()
        connection.execute("DEALLOCATE asked", prepare=False)
        connection.execute("ROLLBACK")
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@pytest.mark.parametrize(
    ("noun", "name", "params"), STATEMENTS, ids=[f"{noun}-{name}" for noun, name, _ in STATEMENTS]
)
def test_a_claim_reads_no_more_of_a_full_table(
    stores: tuple[PgStore, PgStore], noun: str, name: str, params: dict[str, Any]
) -> None:
    few, many = (plan_of(store, noun, name, params) for store in stores)
    assert pages(many) <= 3 * pages(few) + TOLERANCE
    assert "Gather" not in [one["Node Type"] for one in nodes(many)]  # helpers take ms to begin
    whole = [one["Relation Name"] for one in nodes(many) if one["Node Type"] == "Seq Scan"]
    assert "jobs" not in whole


def test_what_was_committed_long_after_it_was_due_is_found(
    stores: tuple[PgStore, PgStore],
) -> None:
    """By a transaction that took ten minutes: others have been taken meanwhile."""
    _, store = stores
    store.db.once(lambda tx: tx.execute("SELECT 1"))
    late = {"prefix": "late", "state": "scheduled", "due_at": NOW - 600_000, "count": 1}
    with store.db.connect() as connection:
        with connection.transaction():
            insert = store.db.statements._convert(FILL).encode()
            connection.execute(insert, late)
            claim = store.claim_range(Queue("q"), "d", 100, NOW, lease_seconds=60)
            assert claim.jobs
            assert store.settle_range(claim, [job.id for job in claim.jobs], {}, NOW)
        found = []
        while (claim := store.claim_range(Queue("q"), "d", 1, NOW, lease_seconds=60)).jobs:
            found += [job.id for job in claim.jobs]
            assert store.settle_range(claim, [job.id for job in claim.jobs], {}, NOW)
    assert found[0] == "late00000001"
