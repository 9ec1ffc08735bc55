"""Markers while a program that knows nothing of them accepts events in the same store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.event import Event
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, to_text
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.postgresql.store import PgStore
from oncue.stores.sqlite import SqliteStore
from tests.contract.board import Board, table, table_at
from tests.contract.test_gaps import RULE, alternating, publish
from tests.stores.dynamo import open_dynamo
from tests.stores.postgres import open_postgres

NAME = "r"
MARKERS = "SELECT count(*) FROM {}accepted WHERE is_marker"
ACCEPT = """INSERT INTO {0}accepted (dependency_n, stamp, event_n)
SELECT n, {1}, -{1} FROM {0}dependencies WHERE resource = '{2}' ORDER BY n DESC LIMIT 1"""


class Sql:
    """A store on SQL, and statements that other programs run in it."""

    def __init__(self, store: SqliteStore | PgStore) -> None:
        self.store = store
        self.board = Board(store, FakeClock())
        self._prefix = f"{store.db.address.schema}." if isinstance(store, PgStore) else ""

    def run(self, statement: str, *more: object) -> int:
        text = statement.format(self._prefix, *more)
        if isinstance(self.store, SqliteStore):
            return int(self.store.db.write(lambda tx: tx.execute(text).get) or 0)
        with self.store.db.connect() as connection:
            found = connection.execute(text.encode())
            return 0 if found.description is None else int((found.fetchone() or [0])[0])

    def accept(self, event: Event) -> None:
        """As the former version does it."""
        self.run(ACCEPT, event.stamp, event.resource)


@pytest.fixture(params=["sqlite", "postgresql"])
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sql]:
    clock = FakeClock()
    on_file = request.param == "sqlite"
    store = SqliteStore(tmp_path / "jobs.db", clock) if on_file else open_postgres(clock, 4)
    with closing(store):
        yield Sql(store)


def late_instant(board: Board) -> list[float]:
    publish(board, table_at(0, "A"))
    return board.instants()


@pytest.mark.parametrize(("first", "second"), [("B", "C"), ("C", "B")])
def test_what_another_program_accepts_is_marked(sql: Sql, first: str, second: str) -> None:
    sql.board.rule(*RULE)
    publish(sql.board, *alternating(4, start=1000))
    assert sql.run(MARKERS) == 0
    sql.accept(table_at(500, first))
    sql.accept(table_at(501, second))
    sql.accept(table_at(502.1, first))
    assert sql.run(MARKERS) == 1
    assert late_instant(sql.board) == [501]


def test_a_life_that_another_program_changes_ends_the_pair(sql: Sql) -> None:
    """What it accepts meanwhile is marked by the life that was."""
    sql.board.rule(*RULE)
    publish(sql.board, *alternating(4))
    sql.run("UPDATE {}dependencies SET life_seconds = 5 WHERE resource = 'C'")
    sql.accept(table_at(25, "C"))
    sql.accept(table_at(28, "B"))
    assert sql.run(MARKERS) == 0
    publish(sql.board, *alternating(4, start=1000))
    assert late_instant(sql.board) == [28]


def test_a_rule_of_before_the_markers_finds_what_it_accepted_then(sql: Sql) -> None:
    sql.board.rule(*RULE)
    publish(sql.board, *alternating(4), table_at(21, "C"))
    sql.run("UPDATE {}dependencies SET pair_n = NULL")
    sql.run("DELETE FROM {}accepted WHERE is_marker")
    sql.accept(table_at(21, "C"))
    assert sql.run(MARKERS) == 0
    publish(sql.board, *alternating(4, start=1000))
    assert late_instant(sql.board) == [21]


def test_a_rule_without_a_pair_has_no_markers(sql: Sql) -> None:
    sql.board.rule(table("A", 60), table("B", 1), table("C", 1))
    publish(sql.board, *alternating(4), table_at(21, "C"))
    assert sql.run(MARKERS) == 0
    assert sql.run("SELECT count(*) FROM {}dependencies WHERE pair_n IS NOT NULL") == 0


def test_markers_go_with_the_events_that_were_accepted(sql: Sql) -> None:
    sql.board.rule(*RULE)
    publish(sql.board, *alternating(4), table_at(21, "C"))
    assert sql.run(MARKERS) == 1
    sql.board.store.delete_rule(NAME)
    sql.board.prune()
    assert sql.run(MARKERS) == 0


@pytest.fixture
def dynamo() -> Iterator[tuple[Board, DynamoStore]]:
    clock = FakeClock()
    store = open_dynamo(clock, 4)
    assert isinstance(store, DynamoStore)
    with closing(store):
        yield Board(store, clock), store


def write_as_before(store: DynamoStore) -> None:
    """As the former version writes a rule, when it has decided: without what it does not know."""
    head = store.table.get(keys.rule(NAME))
    assert head is not None
    state = from_text(head["rec"])
    assert state.pop("pair")
    assert state.pop("marked")
    store.table.write([{**head, "ver": head["ver"] + 1, "rec": to_text(state)}])


def markers_of(store: DynamoStore) -> list[int]:
    items = store.table.query(keys.rule(NAME).pk)
    return sorted(item["stamp"] for item in items if "#m#" in item["sk"])


def test_a_write_of_the_former_version_to_dynamodb_begins_the_markers_anew(
    dynamo: tuple[Board, DynamoStore],
) -> None:
    board, store = dynamo
    board.rule(*RULE)
    publish(board, *alternating(4), table_at(21, "C"))
    assert len(markers_of(store)) == 1
    store.table.write(removed=[keys.marker(NAME, token, at) for token, at in tokens(store)])
    write_as_before(store)
    publish(board, *alternating(4, start=1000))
    assert late_instant(board) == [21]


def tokens(store: DynamoStore) -> list[tuple[str, int]]:
    [rule] = store._read_rules([NAME]).values()
    return [(wait.token, at) for wait in rule.waits for at in markers_of(store)]


def test_the_markers_of_a_dependency_in_dynamodb_go_with_what_it_accepted(
    dynamo: tuple[Board, DynamoStore],
) -> None:
    board, store = dynamo
    board.rule(*RULE)
    publish(board, table_at(1, "B"), table_at(2, "C"), table_at(50, "B"), table_at(51, "C"))
    assert len(markers_of(store)) == 2
    publish(board, table_at(40, "A"))
    assert board.instants() == [51]
    board.prune()
    assert len(markers_of(store)) == 1, "the other one is older than the last instant"
    board.rule(*RULE[:2])
    board.prune()
    board.rule(*RULE[:1])
    board.prune()
    assert markers_of(store) == []


def test_markers_in_dynamodb_that_no_pair_needs_are_pruned(
    dynamo: tuple[Board, DynamoStore],
) -> None:
    board, store = dynamo
    board.rule(*RULE)
    publish(board, table_at(1, "B"), table_at(2, "C"))
    board.rule(table("A", 60), *RULE[1:])
    publish(board, table_at(3, "B"))
    board.prune()
    assert markers_of(store) == []
