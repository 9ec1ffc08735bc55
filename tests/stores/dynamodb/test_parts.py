"""Large parts of a job stand apart from its record. Somebody may replace them between the reading
of the record and the reading of the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.job import Diagnostic, NewJob
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.writes import Item
from oncue.usecases.queues import put_queue
from tests.stores.dynamo import another_dynamo, open_dynamo

OUT = Queue("out", sink="log:", retention_seconds=0)
LARGE = b'"' + b"x" * 5_000 + b'"'


@pytest.fixture
def store() -> Iterator[DynamoStore]:
    store = open_dynamo(FakeClock(), 1)
    yield store
    store.close()


@pytest.fixture
def other(store: DynamoStore) -> Iterator[DynamoStore]:
    other = another_dynamo(store)
    yield other
    other.close()


def insert(store: DynamoStore, job_id: str, payload: bytes = b"{}") -> str:
    now = store.clock.now()
    assert not store.insert([NewJob(job_id, "out", now, payload, 0, now)], now)
    return job_id


def note(store: DynamoStore, job_id: str, word: str) -> None:
    at = to_datetime(store.clock.now())
    store.note(job_id, [Diagnostic(at, word, word * 500, 0, 0, {})])


def before_parts_are_read(
    monkeypatch: pytest.MonkeyPatch, store: DynamoStore, part: str, act: Callable[[], object]
) -> None:
    """Once, when this store has read a record and wants that part of it."""
    read = store.table.read
    done: list[object] = []

    def slowly(keys: Iterable[Key]) -> dict[Key, Item]:
        wanted = list(keys)
        if not done and any(key.sk.startswith(part) for key in wanted):
            done.append(act())
        return read(wanted)

    monkeypatch.setattr(store.table, "read", slowly)


def test_parts_that_are_replaced_meanwhile_are_read_as_they_are_now(
    store: DynamoStore, other: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = insert(store, "chosen")
    note(store, job_id, "first")
    before_parts_are_read(monkeypatch, store, "past", lambda: note(other, job_id, "second"))
    assert [one.code for one in store.history(job_id).diagnostics] == ["first", "second"]


def test_a_job_that_is_gone_meanwhile_is_not_shown_without_its_payload(
    store: DynamoStore, other: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = store.clock.now()
    put_queue(store, OUT)
    job_id = insert(store, ids.mint(now, now, "out", 0), LARGE)

    def deliver() -> None:
        claim = other.claim_range(OUT, "ada", 10, now, lease_seconds=10)
        assert other.settle_range(claim, [job_id], {}, now)

    before_parts_are_read(monkeypatch, store, "payload", deliver)
    assert store.get(job_id) is None
