"""Access tokens in a file: durable, shared by all that open it, and free of secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from oncue.clock import FakeClock
from oncue.core.access import CLOSED, Scope
from oncue.core.errors import StoreError
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.connection import APPLICATION_ID, pragma
from oncue.stores.sqlite.statements import migrations
from oncue.usecases.tokens import Access

Open = Callable[[], SqliteStore]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_file(tmp_path: Path, clock: FakeClock) -> Iterator[Open]:
    """Opens the same file each time."""
    opened: list[SqliteStore] = []

    def open_one() -> SqliteStore:
        opened.append(SqliteStore(tmp_path / "oncue.db", clock))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def test_a_token_outlives_the_process_that_made_it(open_file: Open, clock: FakeClock) -> None:
    first = open_file()
    token, text = Access(first, clock).create("ci", ["read"])
    first.close()
    later = Access(open_file(), clock)
    assert later.tokens() == [token]
    assert later.scopes_of(text) == frozenset({Scope.READ})


def test_two_that_share_a_file_see_each_others_tokens(open_file: Open, clock: FakeClock) -> None:
    one, other = Access(open_file(), clock), Access(open_file(), clock)
    _, text = one.create("ci", ["work"])
    assert other.scopes_of(text) == frozenset({Scope.WORK})
    one.revoke("ci")
    clock.advance(1)
    assert other.scopes_of(text) is None
    assert other.tokens() == []


def test_the_file_does_not_hold_the_text(open_file: Open, clock: FakeClock, tmp_path: Path) -> None:
    store = open_file()
    token, text = Access(store, clock).create("ci")
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.digest in written
    assert text[-43:].encode() not in written


def test_a_file_from_before_there_were_tokens_can_keep_them(
    open_file: Open, clock: FakeClock, tmp_path: Path
) -> None:
    old = apsw.Connection(str(tmp_path / "oncue.db"))
    old.execute(migrations()[0]).fetchall()
    pragma(old, "application_id", APPLICATION_ID)
    pragma(old, "user_version", 1)
    old.close()
    access = Access(open_file(), clock)
    assert not access.configured
    token, _ = access.create()
    assert access.tokens() == [token]


@pytest.mark.parametrize(
    "nonsense",
    [
        *("id = NULL", "digest = NULL", "digest = x'00'", "digest = 'text'", "scopes = ''"),
        *("scopes = NULL", "created_at = NULL", "created_at = 'soon'"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_by_the_table(
    open_file: Open, clock: FakeClock, nonsense: str
) -> None:
    store = open_file()
    token, _ = Access(store, clock).create()
    with pytest.raises(StoreError, match="constraint failed|cannot store"):
        store.db.write(lambda tx: tx.execute(f"UPDATE access_tokens SET {nonsense}").get)
    assert store.tokens() == [CLOSED, token]
