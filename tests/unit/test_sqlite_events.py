"""Rules and events in SQLite cost the same however many there are, and the schema guards them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import Conflict, StoreError
from oncue.core.event import Event
from oncue.stores.relational import publication as events_module
from oncue.stores.sqlite import SqliteStore, rows
from oncue.stores.sqlite.statements import load
from tests.contract.board import RULE, Board, cron, cron_at, file, file_at, seconds, table, table_at
from tests.contract.test_gaps import RULE as BETWEEN_GAPS
from tests.contract.test_gaps import alternating, publish

FRAGMENTS = {"dependency_columns", "rule_columns", "event_columns"}
STATEMENTS = [
    (noun, name) for noun in ("rules", "events") for name in load(noun) if name not in FRAGMENTS
]
HOT = [
    *(("rules", name) for name in ("rule", "rules", "rule_by_number", "dependencies", "touched")),
    *(("events", name) for name in ("by_fact", "matching", "matching_of", "newest")),
    *(("events", name) for name in ("validating", "repeat", "newest_marker")),
    *(("events", name) for name in ("accept", "note_newest", "touch", "fired", "page")),
    *(("events", name) for name in ("oldest_decided", "unaccept", "forget")),
]
TEXTS = {"name", "after", "resource", "type", "key", "decision", "queue", "id"}
MANY_RULES = 100_000
MANY_EVENTS = 1_000_000


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "jobs.db", clock)
    yield Board(store, clock)
    store.close()


def store_of(board: Board) -> SqliteStore:
    assert isinstance(board.store, SqliteStore)
    return board.store


def crowd(board: Board, count: int) -> None:
    """So many rules that wait for other things than the rest of the test."""
    names = [(f"other {n}", f"/other/{n}") for n in range(count)]

    def add(tx: apsw.Connection) -> None:
        [(first,)] = rows.fetch(tx, "SELECT coalesce(max(n), 0) + 1 FROM rules")
        tx.executemany(
            "INSERT INTO rules (n, name, enabled, queue, payload, created_at, updated_at) "
            "VALUES (?, ?, 1, 'rules', CAST('null' AS BLOB), 0, 0)",
            ((first + n, name) for n, (name, _) in enumerate(names)),
        )
        tx.executemany(
            "INSERT INTO dependencies (rule_n, position, type, resource, key, below, life_seconds) "
            "VALUES (?, 0, 'FILE', ?, ?, 0, 60)",
            ((first + n, key, key) for n, (_, key) in enumerate(names)),
        )

    store_of(board).db.write(add)


def heap_up(board: Board, count: int) -> None:
    """So many accepted events of the first dependency of the rule, a second apart, before 0."""

    def add(tx: apsw.Connection) -> None:
        [(n,)] = rows.fetch(tx, "SELECT n FROM dependencies ORDER BY n LIMIT 1")
        tx.execute(
            "WITH RECURSIVE many (i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < :count) "
            "INSERT INTO accepted (dependency_n, stamp, event_n) "
            "SELECT :n, :start - i * 1000000, -i FROM many",
            {"n": n, "count": count, "start": seconds(0)},
        ).fetchall()

    store_of(board).db.write(add)


def steps(board: Board, *events: Event) -> dict[str, int]:
    """What publishing costs: steps of SQLite's machine, and rows read by a scan of a table."""
    connection = store_of(board).db.writer.connection
    spent = {"statements": 0, "steps": 0, "scanned": 0}

    def profile(ended: Any) -> None:
        status = ended["stmt_status"]
        spent["statements"] += 1
        spent["steps"] += status["SQLITE_STMTSTATUS_VM_STEP"]
        spent["scanned"] += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    try:
        board.post_all(*events)
    finally:
        connection.trace_v2(0, None)
    return spent


def measured(tmp_path: Path, name: str, rules: int, accepted: int) -> dict[str, int]:
    clock = FakeClock()
    board = Board(SqliteStore(tmp_path / f"{name}.db", clock), clock)
    board.rule(file("/in/", 3600), cron())
    crowd(board, rules)
    heap_up(board, accepted)
    spent = steps(board, file_at(1, "/in/x/y/z"), cron_at(2), file_at(0.5), cron_at(2))
    assert board.instants() == [2]
    board.store.close()
    return spent


@pytest.mark.slow
def test_an_event_costs_the_same_with_ten_rules_and_with_a_hundred_thousand(
    tmp_path: Path,
) -> None:
    few = measured(tmp_path, "few", rules=10, accepted=10)
    assert few["steps"] > 0
    assert few["scanned"] == 0
    assert measured(tmp_path, "many", rules=MANY_RULES, accepted=10) == few


@pytest.mark.slow
def test_accepting_costs_the_same_with_ten_accepted_events_and_with_a_million(
    tmp_path: Path,
) -> None:
    few = measured(tmp_path, "few", rules=10, accepted=10)
    assert measured(tmp_path, "many", rules=10, accepted=MANY_EVENTS) == few


@pytest.mark.parametrize("instants", [[], [21]])
def test_a_late_event_costs_the_same_with_fifty_gaps_and_with_five_hundred(
    tmp_path: Path, instants: list[int]
) -> None:
    """Whether an instant lies below them or not."""

    def late(gaps: int) -> dict[str, int]:
        clock = FakeClock()
        board = Board(SqliteStore(tmp_path / f"{gaps}.db", clock), clock)
        board.rule(*BETWEEN_GAPS)
        publish(board, *alternating(gaps), *(table_at(at, "C") for at in instants))
        spent = steps(board, table_at(0, "A"))
        assert board.instants() == instants
        board.store.close()
        return spent

    assert late(500) == late(50)


def plan_of(store: SqliteStore, statement: str) -> list[str]:
    wanted = set(re.findall(r":(\w+)", statement))
    own: dict[str, Any] = {name: "x" if name in TEXTS else 5 for name in wanted}
    own |= {"ids": rows.texts(["a", "b"]), "ns": rows.numbers([1, 2])}
    given: Any = {name: own[name] for name in wanted}
    if not wanted:
        places = sorted(set(re.findall(r"\?(\d+)", statement)), key=int)
        given = [rows.texts(["a"]) if f"carray(?{n})" in statement else 5 for n in places]
    with store.db.reading() as tx:
        return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {statement}", given)]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A store with some of everything, analysed by nobody, as in life."""
    clock = FakeClock()
    store = SqliteStore(tmp_path_factory.mktemp("plans") / "jobs.db", clock)
    board = Board(store, clock)
    board.rule(file("/in/", 3600), cron())
    crowd(board, 500)
    board.post_all(*(file_at(n) for n in range(5)), cron_at(4))
    yield store
    store.close()


@pytest.mark.parametrize(("noun", "name"), STATEMENTS)
def test_no_statement_of_rules_and_events_reads_a_whole_table(
    full: SqliteStore, noun: str, name: str
) -> None:
    plan = plan_of(full, load(noun)[name])
    scans = [line for line in plan if re.match(r"SCAN (?!carray|CONSTANT)", line)]
    if name == "touched":  # the whole of its partial index is what it is about
        assert scans == ["SCAN r USING INDEX rules_touched"]
    elif name == "is_touched":
        assert scans == ["SCAN rules USING COVERING INDEX rules_touched"]
    else:
        assert scans == [], plan


@pytest.mark.parametrize(("noun", "name"), HOT)
def test_no_hot_statement_of_rules_and_events_sorts(
    full: SqliteStore, noun: str, name: str
) -> None:
    assert [line for line in plan_of(full, load(noun)[name]) if "TEMP B-TREE" in line] == []


@pytest.mark.parametrize(
    ("noun", "name", "index"),
    [
        ("events", "matching", "dependencies_key (type=? AND key=?)"),
        ("events", "by_fact", "events_fact (type=? AND resource=? AND stamp=?)"),
        ("events", "newest", "PRIMARY KEY (dependency_n=? AND stamp<?)"),
        ("events", "by_ids", "SEARCH i USING PRIMARY KEY (id=?)"),
        ("events", "repeat", "PRIMARY KEY (rule_n=? AND event_n=?)"),
        ("events", "forget", "events_loose (received_at<?)"),
        ("events", "decisions_of", "decisions_kind (decision=? AND event_n=?)"),
        ("events", "page_rule", "PRIMARY KEY (rule_n=? AND event_n<?)"),
        ("events", "page_decision", "decisions_kind (decision=? AND event_n<?)"),
        ("rules", "rule", "rules_name (name=?)"),
        ("rules", "rules", "rules_name (name>?)"),
        ("rules", "dependencies", "dependencies_rule (rule_n=? AND retired=?)"),
        ("rules", "touched", "rules_touched"),
    ],
)
def test_a_statement_of_rules_and_events_uses_the_index_made_for_it(
    full: SqliteStore, noun: str, name: str, index: str
) -> None:
    plan = "\n".join(plan_of(full, load(noun)[name]))
    assert index in plan, plan


def _run(statement: str, tx: apsw.Connection) -> None:
    tx.execute(statement).fetchall()


def test_the_schema_lets_the_instants_of_a_rule_only_grow(board: Board) -> None:
    board.rule(cron())
    board.post(cron_at(10))
    for instant in ("last_instant", f"{seconds(9)}", "NULL"):
        update = f"UPDATE rules SET last_instant = {instant}"
        with pytest.raises(StoreError, match="must grow|constraint"):
            store_of(board).db.write(partial(_run, update))
    assert board.instants() == [10]


@pytest.mark.parametrize(
    "nonsense",
    [
        "UPDATE dependencies SET type = 'DAY'",
        "UPDATE dependencies SET life_seconds = -1",
        "UPDATE decisions SET decision = 'MAYBE'",
        "UPDATE events SET decided = -1",
        "UPDATE events SET type = 'DAY'",
        "UPDATE rules SET enabled = 2",
        "INSERT INTO events (id, type, resource, stamp, received_at) "
        "SELECT 'other', type, resource, stamp, 0 FROM events",
        "INSERT INTO rules (name, enabled, queue, payload, created_at, updated_at) "
        "SELECT name, enabled, queue, payload, 0, 0 FROM rules",
    ],
)
def test_what_makes_no_sense_is_refused_by_the_tables(board: Board, nonsense: str) -> None:
    board.rule(table("T", 5))
    board.post(table_at(1, "T"))
    with pytest.raises(StoreError, match="constraint failed"):
        store_of(board).db.write(lambda tx: tx.execute(nonsense).get)


def test_an_event_for_many_rules_is_decided_in_several_transactions(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "DECISIONS_AT_ONCE", 7)
    names = sorted(f"rule {n}" for n in range(30))
    for name in names:
        board.rule(cron(), name=name)
    answers = board.store.publish(
        [table_at(0, "T"), cron_at(1), cron_at(2), cron_at(1)], board.now, board.bounds
    )
    assert [[job.rule for job in answer.jobs] for answer in answers] == [[], names, names, []]
    assert [answer.duplicate for answer in answers] == [False, False, False, True]
    assert [len(answer.decisions) for answer in answers] == [0, 30, 30, 30]
    assert all(board.instants(name) == [1, 2] for name in names)


def test_the_ids_of_a_long_list_are_reserved_before_the_first_rule_decides(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "DECISIONS_AT_ONCE", 7)
    for n in range(30):
        board.rule(cron(), name=f"rule {n}")
    other = SqliteStore(tmp_path / "jobs.db", board.clock)
    refused: list[str] = []

    def meddle(queue: str | None, due_at: int) -> None:
        """Between two transactions of the list: another node wants the id of its last event."""
        if not refused:
            try:
                other.publish([table_at(5, "T", event_id="last")], board.now, board.bounds)
            except Conflict as conflict:
                refused.append(str(conflict))

    unwatch = board.store.watch(meddle)
    events = [cron_at(1), table_at(9, "U", event_id="last")]
    answers = board.store.publish(events, board.now, board.bounds)
    unwatch()
    other.close()
    assert refused
    assert [answer.duplicate for answer in answers] == [False, False]
    assert all(board.instants(f"rule {n}") == [1] for n in range(30))


def test_when_everything_is_pruned_no_row_is_left_behind(board: Board) -> None:
    board.rule(file("/in/", 60), cron())
    board.post_all(file_at(0), file_at(1), cron_at(2), cron_at(2))
    board.rule(cron())
    board.store.delete_rule(RULE)
    board.prune()
    board.clock.advance(8 * 86_400)
    board.prune()
    with store_of(board).db.reading() as tx:
        for name in ("rules", "dependencies", "events", "accepted", "decisions"):
            assert tx.execute(f"SELECT count(*) FROM {name}").get == 0, name


def test_what_belongs_to_one_event_is_counted_once_for_each_rule(board: Board) -> None:
    board.rule(file("/in", 60), file("/in/", 60), name="a")
    board.post(file_at(0))
    board.rule(file("/in", 60), name="b")
    board.post(file_at(0))
    with store_of(board).db.reading() as tx:
        assert tx.execute("SELECT decided FROM events").get == 2
