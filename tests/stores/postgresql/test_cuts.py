"""The connection is cut around a commit: what was asked for is done once, and answered so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import psycopg
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import Claimed
from oncue.core.lifecycle import State
from oncue.core.sharing import Taker
from oncue.ports.claims import RangeClaim
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.trouble import ends_connection
from oncue.stores.postgresql.tx import PgTx, journey
from tests.contract.changing import Amendment
from tests.contract.desk import DELIVERY, FLEETING_DELIVERY, Desk, Q
from tests.stores.postgres import open_postgres
from tests.stores.postgresql.faults import store_of
from tests.stores.postgresql.proxy import Moment, Proxy, behind, port_of

COMMIT = "^COMMIT"
MANY = 300  # jobs that are stored by COPY
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
SOME = 5  # jobs whose attempts are compared
Stored = dict[str, list[str]]
TABLES = ("jobs", "operations", "queues", "ranges")


@pytest.fixture
def near() -> Iterator[Desk]:
    """On a store whose connections nobody cuts."""
    yield from opened()


@cache
def undisturbed(name: str) -> tuple[object, Stored]:
    """The answer of a case without a cut, and what is stored then."""
    [*answers] = (
        (CASES[name].act(desk, CASES[name].prepare(desk)), stored(desk)) for desk in opened()
    )
    return answers[0]


def opened() -> Iterator[Desk]:
    clock = FakeClock()
    store = open_postgres(clock, 4)
    yield Desk(store, clock)
    store.close()


@pytest.fixture
def proxy(near: Desk) -> Iterator[Proxy]:
    with Proxy(port_of(store_of(near).db.address)) as proxy:
        yield proxy


@pytest.fixture
def far(near: Desk, proxy: Proxy) -> Iterator[Desk]:
    """On the data of `near`, behind the proxy."""
    store = PgStore(behind(proxy, store_of(near).db.address), near.clock, shards=4)
    yield Desk(store, near.clock)
    store.close()


def stored(desk: Desk) -> Stored:
    """All that is in the tables; the clock stands still. Not how often a range was taken, nor by
    which call. What was done to a job may be written in two ways: it is read."""
    schema = store_of(desk).db.address.schema
    found = {"attempts": [str(desk.attempts(job_id)) for job_id in desk.listed()[:SOME]]}
    with store_of(desk).db.connect() as connection:
        for table in TABLES:
            rows = connection.execute(
                f"SELECT to_jsonb(t) - ARRAY['fence', 'nonce', 'past'] FROM {schema}.{table} AS t "
                "ORDER BY 1".encode()
            )
            found[table] = list(map(str, rows))
    return found


class Case(NamedTuple):
    act: Callable[[Desk, Any], object]
    """Its answer must be the same as without a cut."""
    prepare: Callable[[Desk], object] = lambda desk: None
    """Gives what `act` gets."""
    statement: str = COMMIT
    """At which the connection is cut."""


def claimed(desk: Desk) -> Claimed:
    return desk.take("a")


def waiting(desk: Desk) -> None:
    desk.set(DELIVERY)
    desk.add_many(3, queue="d")


def ranged(desk: Desk) -> RangeClaim:
    waiting(desk)
    return desk.claim_range()


def insert(desk: Desk, fields: Any) -> object:
    """The clashes: those of a repetition are no news for whoever minted the ids."""
    job = desk.new("chosen", **(fields or {}))
    clashes = desk.insert([job])
    told = {(clash.kind, clash.job.id) for clash in clashes.values()}
    return told - {("existing", "chosen")}


def insert_many(desk: Desk, _: object) -> object:
    clashes = desk.insert([desk.new() for _ in range(MANY)])
    return {clash.kind for clash in clashes.values()} - {"existing"}


def claim_again(desk: Desk, _: object) -> object:
    """As a worker does it who got no answer."""
    takers, nonce = [Taker("ada", 5)], "nonce"
    try:
        found = desk.store.claim([Q], takers, desk.now, nonce=nonce)
    except StoreUnavailable:
        found = desk.store.claim([Q], takers, desk.now, nonce=nonce, again=True)
    return [(one.id, one.attempt, one.epoch) for one in found[0]]


def deliver(desk: Desk, _: object) -> object:
    claim = desk.claim_range()
    return [job.id for job in claim.jobs], desk.settle_range(claim)


CASES: dict[str, Case] = {
    "insert": Case(insert, statement="INSERT INTO"),
    "insert with a key": Case(insert, lambda desk: {"key": "k"}, statement="INSERT INTO"),
    "replace by a key": Case(
        lambda desk, _: insert(desk, {"key": "k", "replace": True, "payload": b"2"}),
        lambda desk: desk.add("first", key="k", due_in=60),
    ),
    "insert many": Case(insert_many),
    "claim": Case(claim_again, lambda desk: [desk.add("a"), desk.add("b")]),
    "complete": Case(lambda desk, one: desk.complete(one, b"1"), claimed),
    "fail": Case(lambda desk, one: desk.fail(one), claimed),
    "retry": Case(lambda desk, one: desk.retry(one, due_at=desk.now + 5), claimed),
    "release": Case(lambda desk, one: desk.release(one), claimed),
    "touch": Case(
        lambda desk, one: desk.touch(one, start=True), claimed, "AS j SET state = t.state"
    ),
    "operation": Case(lambda desk, one: desk.put_operation(one, "step"), claimed),
    "cancel": Case(lambda desk, _: desk.cancel("a"), lambda desk: desk.add("a", due_in=60)),
    "amend": Case(
        lambda desk, _: desk.amend("a", Amendment(priority=5)),
        lambda desk: desk.add("a", due_in=60),
    ),
    "stop": Case(lambda desk, _: desk.request_cancel("a"), claimed),
    "claim a range": Case(
        deliver,
        waiting,
    ),
    "settle a range": Case(lambda desk, claim: desk.settle_range(claim), ranged),
    "refuse some of a range": Case(
        lambda desk, claim: desk.settle_range(claim, busy={claim.jobs[0].id: "busy"}), ranged
    ),
    "extend a range": Case(
        lambda desk, claim: desk.store.extend_range(claim, desk.now + 90_000),
        ranged,
        "UPDATE .*ranges",
    ),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", CASES)
def test_what_was_cut_off_is_done_once_and_answered_so(
    near: Desk, far: Desk, proxy: Proxy, name: str, moment: Moment
) -> None:
    case = CASES[name]
    given = case.prepare(near)
    proxy.cut(case.statement, moment)
    answer = case.act(far, given)
    assert (answer, stored(near)) == undisturbed(name)
    assert proxy.cuts == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_connection_may_be_cut_again_and_again(
    near: Desk, far: Desk, proxy: Proxy, moment: Moment
) -> None:
    near.add("a", due_in=60)
    proxy.cut("^COMMIT|pg_xact_status", moment, times=5)
    assert far.cancel("a").refused is None
    assert near.state("a") is State.CANCELLED
    assert near.codes("a") == []


def test_listeners_are_told_of_what_was_stored_by_a_commit_without_an_answer(
    far: Desk, proxy: Proxy
) -> None:
    told: list[str | None] = []
    far.store.watch(lambda queue, due_at: told.append(queue))
    proxy.cut(COMMIT, "after")
    insert_many(far, None)
    assert "q" in told


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_was_stored_and_delivered_is_not_stored_again(
    near: Desk, far: Desk, proxy: Proxy, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    near.set(FLEETING_DELIVERY)
    far.store.queues()  # and so it knows the settings
    delivered: list[str] = []

    def deliver() -> None:
        claim = near.claim_range(FLEETING_DELIVERY)
        if claim.jobs:
            assert near.settle_range(claim)
            delivered.extend(job.id for job in claim.jobs)

    db = store_of(far).db
    give_up_after = db._give_up_after

    def pause(ends: float, error: Exception) -> None:
        deliver()
        give_up_after(ends, error)

    monkeypatch.setattr(db, "_give_up_after", pause)
    proxy.cut(COMMIT, moment)
    far.store.insert([far.new("a", queue="fd")], far.now)
    deliver()
    assert (delivered, proxy.cuts) == (["a"], 1)


def test_a_connection_that_ends_right_after_its_commit_leaves_open_what_became_of_it(
    desk: Desk,
) -> None:
    """The server says that it ends the connection, which is not yet seen to be closed."""
    runs = 0

    def commit_and_end(tx: PgTx) -> None:
        nonlocal runs
        runs += 1
        tx.run("queues", "revision")
        tx.is_ending = True
        with journey(tx.connection):
            tx.connection.execute("COMMIT")
            tx.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailable):
        store_of(desk).db.write(commit_and_end, "raise")
    assert runs == 1


@pytest.mark.parametrize(
    ("statement", "ends"),
    [("SELECT pg_terminate_backend(pg_backend_pid())", True), ("SELECT 1 / 0", False)],
)
def test_an_error_that_ends_the_connection_is_told_from_one_that_refuses_a_statement(
    desk: Desk, statement: str, ends: bool
) -> None:
    with store_of(desk).db.connect() as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute(statement.encode())
    assert ends_connection(raised.value) is ends
