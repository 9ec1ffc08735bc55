"""`oncue inbox`: what is in it, reading it again, and giving one to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from oncue import stores
from oncue.cli.app import cli
from oncue.core.errors import NotFound, NotSupported
from oncue.stores.dynamodb import keys
from oncue.stores.memory import MemoryStore
from tests.unit.inbox_desk import HOUR, START, InboxDesk


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[InboxDesk]:
    desk = InboxDesk()
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(stores, "open_store", lambda *_: desk.store)
    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "close", lambda: None)
        yield desk
    desk.store.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--store", "memory:", "inbox", *arguments])


def test_a_list_shows_what_is_there_and_what_is_wrong_with_it(desk: InboxDesk) -> None:
    desk.put("good", START - 60_000, {"M": {"n": {"N": "1"}}}, queue="mail")
    desk.put("bad", START - 30_000, {"S": "\0"})
    ended = run("list")
    assert ended.exit_code == 0
    good, bad = ended.stdout.splitlines()[-2:]
    assert "good" in good
    assert '{"n":1}' in good
    assert "NUL" in bad
    found = json.loads(run("list", "--json").stdout)
    assert [one["id"] for one in found["items"]] == ["good", "bad"]
    assert found["items"][0]["payload"] == {"n": 1}
    assert found["items"][0]["pk"].startswith("j#2122-01-24T11:55#")
    assert [one["problem"] is None for one in found["items"]] == [True, False]


def test_a_list_says_that_there_is_nothing_or_more(desk: InboxDesk) -> None:
    assert "empty" in run("list").stderr
    for n in range(3):
        desk.put(f"j{n}", START - 1000 + n)
    ended = run("list", "--limit", "2")
    assert "j1" in ended.stdout
    assert "j2" not in ended.stdout
    assert "There are more" in ended.stderr


def test_a_replay_makes_jobs_of_what_was_put_long_ago(desk: InboxDesk) -> None:
    desk.put("old", START - 240 * HOUR, queue="mail")
    desk.put("older", START - 480 * HOUR, queue="mail")
    ended = run("replay", "--from", "2122-01-14T00:00:00Z", "--to", "2122-01-15T00:00:00Z")
    assert ended.stdout == "1 item is a job now.\n"
    assert desk.store.get("old") is not None
    assert desk.store.get("older") is None
    assert json.loads(run("replay", "--json").stdout) == {"moved": 0}


def test_a_time_that_ends_before_it_begins_is_refused(desk: InboxDesk) -> None:
    ended = run("list", "--from", "2122-01-14T00:00:00Z", "--to", "2122-01-13T00:00:00Z")
    assert ended.exit_code == 2
    assert "--from is later than --to" in ended.stderr
    ended = run("list", "--from", "2122-01-14T00:00:00Z", "--to", "2122-02-15T00:00:00Z")
    assert ended.exit_code == 2
    assert "more than 31 days apart" in ended.stderr


def test_a_table_is_given_an_inbox(desk: InboxDesk) -> None:
    desk.store.table.remove(keys.INBOX)
    assert isinstance(run("list").exception, NotFound)
    assert "j#BUCKET#SHARD" in run("set", "--shards", "3").stdout
    assert json.loads(run("set", "--shards", "2", "--json").stdout) == {"minutes": 5, "shards": 3}
    assert "It had 3 shards: they are never taken away." in run("set", "--shards", "2").stderr
    assert "and stays" in run("set", "--minutes", "10").stderr
    assert run("set", "--minutes", "7").exit_code


def test_without_options_an_inbox_stays_as_it_is_and_is_shown(desk: InboxDesk) -> None:
    desk.store.table.remove(keys.INBOX)
    refused = run("set", "--minutes", "1")
    assert (refused.exit_code, desk.store.inbox.settings()) == (2, None)
    assert "this table has no inbox yet. Say how many shards it gets" in refused.stderr
    assert run("set", "--shards", "0", "--minutes", "1").stdout == (
        "Buckets of 1 minute, 0 shards; partitions are j#BUCKET.\n"
    )
    run("set", "--shards", "3")
    shown = run("set")
    assert shown.stdout == (
        "Buckets of 1 minute, 3 shards; partitions are j#BUCKET, or j#BUCKET#SHARD with "
        "SHARD = crc32(ID) mod 3.\n"
    )
    assert "It had" not in shown.stderr
    assert "stays" not in shown.stderr


def test_a_store_without_an_inbox_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "open_store", lambda *_: MemoryStore())
    assert isinstance(run("list").exception, NotSupported)
