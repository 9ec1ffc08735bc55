"""Every statement finds its rows by an index, and the hot ones in the order they want them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.job import NewJob
from oncue.stores.sqlite import SqliteStore, rows
from oncue.stores.sqlite.statements import load

NOUNS = (
    *("jobs", "bulk", "claims", "ranges", "queues", "rules", "events", "schedules", "access"),
    *("transfer", "rules_transfer", "leases", "watching", "nodes", "worker_ranges"),
)
NOW = FakeClock().now()
FRAGMENTS = {"columns", "with_range", "lapse_columns", "not_covered", "heard_outside"}
FRAGMENTS |= {"covers", "covered_by", "key_taken", "fits", "applies", "lease_length"}
HOT = [
    *(("ranges", name) for name in ("due", "due_not_in_flight", "after", "delivered")),
    *(("ranges", name) for name in ("delivered_gone", "range")),
    *(("ranges", name) for name in ("returning", "next_return", "put_off", "back_in_line")),
    *(("claims", name) for name in ("due", "due_uncovered", "claim", "held", "touch")),
    *(("claims", name) for name in ("lapsed_claims", "live_claims", "live_claim")),
    *(("claims", name) for name in ("expired", "next_lapse", "next_expiry")),
    *(("claims", name) for name in ("complete_all", "complete_each", "complete_all_gone")),
    *(("jobs", name) for name in ("get", "lines", "key_holder", "digest", "replace")),
    *(("jobs", f"page_{one}") for one in ("scheduled", "taken", "final", "owner", "key")),
    # Not find_waiting: it sorts the two pages that it merges, which `limit` bounds.
    *(("bulk", f"find_{one}") for one in ("taken", "ended", "owned", "keyed")),
    *(("bulk", name) for name in ("cancel", "stop", "run", "amend", "move_found")),
    *(("bulk", name) for name in ("keep_attempts", "revive_found")),
    *(("worker_ranges", name) for name in ("complete", "complete_gone", "of_jobs", "around")),
    *(("queues", name) for name in ("prunable", "forgettable", "prune", "limits")),
]
OF_JOBS = [
    (noun, name)
    for noun in ("jobs", "bulk", "claims", "ranges", "queues", "leases", "watching")
    for name, text in load(noun).items()
    if name not in FRAGMENTS and re.search(r"\bjobs\b", text)
]
TEXTS = {"queue", "id", "through_id", "owner", "key", "name", "state", "error", "dispatcher"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A store with some of everything, so that the planner is asked what it is asked in life."""
    store = SqliteStore(tmp_path_factory.mktemp("plans") / "jobs.db", FakeClock())
    jobs = [
        NewJob(
            *(f"j{n}", f"q{n % 3}", NOW + n, b"{}", n % 10, NOW),
            owner=f"o{n % 50}" if n % 2 else None,
            key=f"k{n}" if n % 5 == 0 else None,
            expires_at=NOW + 10**6 if n % 7 == 0 else None,
        )
        for n in range(2000)
    ]
    store.insert(jobs, NOW)
    yield store
    store.close()


def plan_of(store: SqliteStore, statement: str) -> list[str]:
    wanted = set(re.findall(r":(\w+)", statement))
    own: dict[str, Any] = {name: "q1" if name in TEXTS else 5 for name in wanted}
    own |= {name: rows.texts(["j1", "j2"]) for name in ("ids", "queues")}
    own |= {"ns": rows.numbers([1, 2])}
    given: Any = {name: own[name] for name in wanted}
    if not wanted:
        numbered = set(re.findall(r"\?\d+", statement))
        given = (5,) * (len(numbered) or statement.count("?"))
    with store.db.reading() as tx:
        return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {statement}", given)]


def scans(plan: list[str]) -> list[str]:
    return [line for line in plan if re.match(r"SCAN (jobs|j|operations|attempts|diag)", line)]


@pytest.mark.parametrize(("noun", "name"), OF_JOBS)
def test_no_statement_reads_the_whole_table(store: SqliteStore, noun: str, name: str) -> None:
    assert scans(plan_of(store, load(noun)[name])) == []


@pytest.mark.parametrize(("noun", "name"), HOT)
def test_no_hot_statement_sorts(store: SqliteStore, noun: str, name: str) -> None:
    plan = plan_of(store, load(noun)[name])
    assert plan
    assert scans(plan) == []
    assert [line for line in plan if "TEMP B-TREE" in line] == []


@pytest.mark.parametrize(
    ("noun", "name", "index"),
    [
        ("ranges", "due", "jobs_ready (queue=? AND line=? AND due_at<?)"),
        ("ranges", "due_not_in_flight", "jobs_ready (queue=? AND line=? AND due_at<?)"),
        ("claims", "due", "jobs_ready (queue=? AND line=? AND due_at<?)"),
        ("claims", "due_uncovered", "jobs_ready (queue=? AND line=? AND due_at<?)"),
        ("ranges", "returning", "jobs_put_off (queue=? AND not_before>? AND not_before<?)"),
        ("ranges", "returning_in_line", "jobs_put_off_lines (queue=? AND line=? AND not_before>?"),
        ("ranges", "next_return", "jobs_put_off (queue=?"),
        ("ranges", "put_off", "jobs_id (id=?)"),
        ("worker_ranges", "joined", "jobs_ready (queue=? AND line=? AND due_at<?)"),
        ("worker_ranges", "joined", "jobs_ready (queue=? AND line=? AND (due_at,id)<(?,?))"),
        ("watching", "moments", "jobs_ready (queue=? AND line>?)"),
        ("watching", "moments", "jobs_ready (queue=? AND line=? AND (due_at,id)>(?,?))"),
        ("watching", "moments", "jobs_put_off (queue=?"),
        ("claims", "lapsed_claims", "jobs_live ("),
        ("claims", "expired", "jobs_expiring ("),
        ("leases", "running", "jobs_live (reclaim_at>?)"),
        ("leases", "astray", "jobs_live (reclaim_at>?)"),
        ("leases", "move_returns", "jobs_put_off (queue=? AND not_before>?)"),
        ("leases", "move_claims", "jobs_live (reclaim_at>?)"),
        ("jobs", "page_scheduled", "jobs_ready (queue=? AND line=?"),
        ("jobs", "page_taken", "jobs_taken (queue=?"),
        ("jobs", "page_final", "jobs_final (queue=? AND state=?"),
        ("jobs", "page_owner", "jobs_owner (owner=?"),
        ("jobs", "page_key", "jobs_keyed (key=?"),
        ("jobs", "key_holder", "jobs_key (queue=? AND key=?)"),
        ("jobs", "get", "jobs_id (id=?)"),
        ("bulk", "find_waiting", "jobs_ready (queue=? AND line=? AND (due_at,id)>(?,?))"),
        ("bulk", "find_taken", "jobs_taken ((queue,due_at,id)>(?,?,?) AND queue<?)"),
        ("bulk", "find_ended", "jobs_final ((queue,state,due_at,id)>(?,?,?,?) AND queue<?)"),
        ("bulk", "find_owned", "jobs_owner (owner=? AND (due_at,id)>"),
        ("bulk", "find_keyed", "jobs_keyed (key=? AND (due_at,id)>"),
        *(
            ("bulk", name, "jobs_id (id=?)")
            for name in ("cancel", "stop", "run", "amend", "seen", "move", "revive")
        ),
        ("bulk", "move", "jobs_key (queue=? AND key=?)"),
        ("bulk", "revive", "jobs_key (queue=? AND key=?)"),
        *(
            ("worker_ranges", name, "ranges_of_workers")
            for name in ("of_queue", "around", "of_jobs", "next_lapse")
        ),
        ("worker_ranges", "around", "jobs_id (id=?)"),
        ("worker_ranges", "complete", "INTEGER PRIMARY KEY"),
        ("queues", "prunable", "jobs_finished (queue=? AND finished_at"),
        ("queues", "oldest_finished", "jobs_finished (queue=?"),
        ("queues", "count_live", "jobs_taken (queue=?)"),
        ("queues", "forgettable", "jobs_hidden (finished_at<?)"),
    ],
)
def test_a_hot_statement_uses_the_index_made_for_it(
    store: SqliteStore, noun: str, name: str, index: str
) -> None:
    plan = "\n".join(plan_of(store, load(noun)[name]))
    assert index in plan, plan


def test_every_statement_that_the_code_names_exists() -> None:
    folder = Path(rows.__file__).parent
    code = "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    known = {name for noun in NOUNS for name in load(noun)}
    named = set(re.findall(r'SQL\["(\w+)"\]', code)) | set(re.findall(r'\)\["(\w+)"\]', code))
    assert named <= known
