"""Large parts of a job stand apart from its record. Somebody may replace them between the reading
of the record and the reading of the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.errors import StoreUnavailable
from oncue.core.job import Diagnostic, NewJob
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.sink import Refusal
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.lines import TORN
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import Expire, Item, Single, Write
from oncue.transfer.checks import check_job
from oncue.usecases.queues import put_queue
from tests.contract.promises import every
from tests.stores.dynamo import another_dynamo, client, open_dynamo
from tests.stores.dynamodb.ttl import HeldTtl

OUT = Queue("out", sink="log:", retention_seconds=0)
SENT = Queue("out", sink="log:")  # kept for a week
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


def test_two_who_change_a_job_at_the_same_moment_do_not_write_over_each_others_parts(
    store: DynamoStore, other: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = insert(store, "chosen")
    apply = store.table.apply

    def stop(groups: Sequence[Sequence[Write]]) -> list[bool]:
        raise StoreUnavailable("stopped.")

    def apply_later(groups: Sequence[Sequence[Write]]) -> list[bool]:
        with pytest.raises(StoreUnavailable):
            note(other, job_id, "second")
        return apply(groups)

    monkeypatch.setattr(other.table, "apply", stop)
    monkeypatch.setattr(store.table, "apply", apply_later)
    note(store, job_id, "first")
    assert [one.code for one in store.history(job_id).diagnostics] == ["first"]


def finish(store: DynamoStore, job_id: str, error: str | None = None) -> None:
    claim = store.claim_range(SENT, "ada", 10, store.clock.now(), lease_seconds=10)
    refused = {} if error is None else {job_id: Refusal(error, permanent=True)}
    delivered = [job_id] if error is None else []
    assert store.settle_range(claim, delivered, refused, store.clock.now())


def days_later(store: DynamoStore, days: int) -> None:
    """Everything is deleted that the table may forget by then."""
    clock = store.clock
    assert isinstance(clock, FakeClock)
    clock.advance(days * 86_400)
    held = HeldTtl(client())
    creation.create(Table(store.table.name, lambda: held))
    held.expire(store.table.name, clock.now() / 1000)


def parts_of(store: DynamoStore, job_id: str) -> list[str]:
    return [item["sk"].partition("#")[0] for item in store.table.query(f"i#{job_id}")]


@pytest.mark.parametrize("chosen", [True, False])
def test_large_parts_of_a_kept_job_go_with_it(store: DynamoStore, chosen: bool) -> None:
    put_queue(store, SENT)
    now = store.clock.now()
    job_id = insert(store, "chosen" if chosen else ids.mint(now, now, "out", 0), LARGE)
    finish(store, job_id)
    days_later(store, 6)
    assert parts_of(store, job_id) == ["head", "payload"]
    days_later(store, 2)
    assert parts_of(store, job_id) == []


def test_a_revived_job_has_its_large_parts_however_late_the_one_who_finished_it_was(
    store: DynamoStore, other: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_queue(store, SENT)
    job_id = insert(store, "chosen", LARGE)
    write_each, late = store.table.write_each, list[Single]()

    def hold_back(writes: Sequence[Single]) -> list[bool]:
        late.extend(one for one in writes if isinstance(one, Expire))
        return write_each([one for one in writes if not isinstance(one, Expire)])

    monkeypatch.setattr(store.table, "write_each", hold_back)
    finish(store, job_id, "no")
    assert not other.change([job_id], JobChange(ChangeVerb.REVIVE), store.clock.now()).refused
    write_each(late)
    days_later(store, 30)
    assert late
    assert parts_of(store, job_id) == ["head", "payload"]
    revived = other.get(job_id)
    assert revived is not None
    assert revived.payload == "x" * 5_000


# A part that is missing, because somebody deleted it


def lose(store: DynamoStore, job_id: str, part: str) -> None:
    [key] = [
        Key(item["pk"], item["sk"])
        for item in store.table.query(f"i#{job_id}")
        if item["sk"].startswith(part)
    ]
    store.table.write(removed=[key])


def torn(store: DynamoStore, name: str | None) -> str:
    """A job whose payload is missing, with one behind it that is whole."""
    put_queue(store, SENT)
    now = store.clock.now()
    job_id = insert(store, name or ids.mint(now, now, "out", 0), LARGE)
    lose(store, job_id, "payload")
    insert(store, "whole", LARGE)
    return job_id


@pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
@pytest.mark.parametrize("how", ["worker", "dispatcher"])
def test_a_job_without_its_payload_fails_and_those_behind_it_go_on(
    store: DynamoStore, name: str | None, how: str
) -> None:
    job_id, now = torn(store, name), store.clock.now()
    if how == "worker":
        [claims] = store.claim([SENT], [Taker("ada", 1)], now, nonce="n")
        assert [(one.id, one.payload) for one in claims] == [("whole", LARGE)]
    else:
        claim = store.claim_range(SENT, "dora", 1, now, lease_seconds=60)
        assert [(one.id, one.payload) for one in claim.jobs] == [("whole", LARGE)]
    job = store.get(job_id)
    assert job is not None
    assert (job.state, job.error) == (State.FAILED, TORN)
    assert [one.code for one in store.history(job_id).diagnostics] == ["torn"]


def test_a_claim_that_is_repeated_has_no_job_without_its_payload(store: DynamoStore) -> None:
    put_queue(store, SENT)
    for name in ("chosen", "whole"):
        insert(store, name, LARGE)
    now = store.clock.now()
    store.claim([SENT], [Taker("ada", 2)], now, nonce="n")
    lose(store, "chosen", "payload")
    [claims] = store.claim([SENT], [Taker("ada", 2)], now, nonce="n", again=True)
    assert [(one.id, one.payload) for one in claims] == [("whole", LARGE)]
    job = store.get("chosen")
    assert job is not None
    assert (job.state, job.error) == (State.FAILED, TORN)


def test_a_revived_job_without_its_payload_fails_again(store: DynamoStore) -> None:
    job_id, now = torn(store, "chosen"), store.clock.now()
    for _ in range(2):
        [claims] = store.claim([SENT], [Taker("ada", 9)], now, nonce="n")
        assert job_id not in [one.id for one in claims]
        assert not store.change([job_id], JobChange(ChangeVerb.REVIVE), now).refused
    amended = JobChange(ChangeVerb.AMEND, payload=b'"new"')
    assert not store.change([job_id], amended, now).refused
    [[claimed]] = store.claim([SENT], [Taker("ada", 9)], now, nonce="m")
    assert (claimed.id, claimed.payload) == (job_id, b'"new"')


@pytest.mark.parametrize("is_live", [False, True])
def test_a_job_without_its_payload_is_dumped_as_failed(store: DynamoStore, is_live: bool) -> None:
    put_queue(store, SENT)
    insert(store, "chosen", LARGE)
    if is_live:
        store.claim([SENT], [Taker("ada", 1)], store.clock.now(), nonce="n")
    lose(store, "chosen", "payload")
    [dumped] = every(store.export)
    assert (dumped.job.state, dumped.job.error) == (State.FAILED, TORN)
    assert check_job(dumped)


def test_a_job_without_its_history_fails_and_can_be_revived(store: DynamoStore) -> None:
    put_queue(store, SENT)
    now = store.clock.now()
    note(store, insert(store, "chosen"), "long")
    lose(store, "chosen", "past")
    assert store.claim([SENT], [Taker("ada", 1)], now, nonce="n") == [[]]
    assert [one.code for one in store.history("chosen").diagnostics] == ["torn"]
    assert not store.change(["chosen"], JobChange(ChangeVerb.REVIVE), now).refused
    [[claimed]] = store.claim([SENT], [Taker("ada", 1)], now, nonce="m")
    assert claimed.payload == b"{}"
