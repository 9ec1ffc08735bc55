"""Servers that restart or take no writes, connections that break, others who hold what is needed:
nothing is done twice, and everybody gets an answer in bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import _pipeline_base
from psycopg.generators import pipeline_communicate
from psycopg.rows import TupleRow

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.errors import StoreUnavailable
from oncue.core.job import JobFilter
from oncue.core.lifecycle import State
from oncue.core.sharing import Taker
from oncue.stores.postgresql import database, news
from oncue.stores.postgresql.connections import LastUsedFirst
from oncue.stores.postgresql.tx import Asked, PgTx
from tests.contract.changing import Amendment
from tests.contract.desk import Desk, Q, together
from tests.servers.postgres import PostgresServer
from tests.stores.postgresql.faults import (
    PATIENCE,
    address_of,
    another,
    cut,
    eventually,
    in_thread,
    new_desk,
    somebody,
    take_and_complete,
    waits_for_a_lock,
)

THREADS = 16
CUTS = 20
EVERYTHING = JobFilter()


# Servers that go away and come back.


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_after_a_restart_nobody_sees_the_connections_that_broke(
    server: PostgresServer, how: str
) -> None:
    desk = new_desk(server)
    with closing(desk.store):
        desk.add("a")
        together(8, lambda _: desk.store.page(EVERYTHING, None, 10))  # more than one connection
        if how == "kill":
            server.kill()
        else:
            server.stop("fast" if how == "fast" else "immediate")
        server.start()
        for _ in range(8):
            assert desk.listed() == ["a"]
        assert desk.store.next_due(["q"]) is not None
        desk.complete(desk.retake("a"))
        assert desk.state("a") is State.SUCCEEDED


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_for_longer_is_used_again_when_it_is_back(
    server: PostgresServer,
) -> None:
    desk = new_desk(server)
    with closing(desk.store):
        desk.add("a")
        server.stop("immediate")
        for call in (lambda: desk.add("b"), lambda: desk.listed(), lambda: desk.claim()):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                call()
            assert time.monotonic() - began < PATIENCE
        server.start()

        def is_used() -> bool:
            try:
                return desk.store.get("a") is not None
            except StoreUnavailable:
                return False

        eventually(is_used)
        assert desk.listed() in (["a"], ["a", "b"])


@pytest.mark.usefixtures("impatient")
def test_while_a_server_is_away_only_the_first_of_those_in_line_waits_for_long(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []
    getconn = LastUsedFirst.getconn

    def noted(self: LastUsedFirst, timeout: float | None = None) -> psycopg.Connection[Any]:
        waits.append(timeout)
        return getconn(self, timeout)

    desk = new_desk(server)
    with closing(desk.store):
        desk.add("a")
        server.stop("immediate")
        causes: set[str] = set()
        monkeypatch.setattr(LastUsedFirst, "getconn", noted)
        monkeypatch.setattr(database, "AWAY_SECONDS", 0.01)
        for _ in range(3):
            with pytest.raises(StoreUnavailable) as caught:
                desk.store.get("a")
            causes.add(str(caught.value))
        short = waits.index(0.01)
        assert waits[:short] == [database.CONNECT_SECONDS] * short
        assert waits[short:] == [0.01] * 2
        assert len(causes) == 1
        server.start()

        def is_back() -> bool:
            with suppress(StoreUnavailable):
                return desk.listed() == ["a"]
            return False

        eventually(is_back)
        waits.clear()
        assert desk.listed() == ["a"]
        assert set(waits) == {database.CONNECT_SECONDS}


def test_connections_that_are_cut_again_and_again_cost_nobody_a_job(desk: Desk) -> None:
    over = threading.Event()
    cuts = 0
    asked: list[str] = []

    def disturb() -> None:
        nonlocal cuts
        while not over.is_set():
            cuts += cut(desk)

    def run(thread: int) -> list[str]:
        done: list[str] = []
        for number in count():
            if cuts >= CUTS:
                break
            name = f"{thread}-{number}"
            asked.append(name)
            desk.store.insert([desk.new(name)], desk.now)
            done += take_and_complete(desk, f"w{thread}", f"{thread}/{number}")
        return done

    with in_thread(disturb) as disturbing:
        try:
            done = together(4, run)
        finally:
            over.set()
        disturbing.result()
    done.append(take_and_complete(desk, "last", "last"))
    finished = [job_id for share in done for job_id in share]
    assert sorted(finished) == sorted(asked)
    assert all(desk.outcomes(job_id) == [(1, "succeeded")] for job_id in finished)


def test_answers_that_do_not_come_are_not_taken_for_no_jobs(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.add("a")

    def sent(*asked: Any) -> Generator[Any, Any, list[Any]]:
        yield from communicate(*asked)
        return []

    def nothing(_: object) -> Generator[Any, Any, list[Any]]:
        yield from ()
        return []

    def end(tx: PgTx, *asked: Asked) -> list[list[TupleRow]]:
        with monkeypatch.context() as patched:
            patched.setattr(_pipeline_base, "pipeline_communicate", sent)
            patched.setattr(_pipeline_base, "fetch_many", nothing)
            return send(tx, *asked)

    send, communicate = PgTx.end, pipeline_communicate
    monkeypatch.setattr(PgTx, "end", end)
    with pytest.raises(StoreUnavailable):
        desk.store.claim([Q], [Taker("ada", 1)], desk.now, nonce="n")
    monkeypatch.setattr(PgTx, "end", send)
    eventually(lambda: desk.job("a").state is State.DISPATCHED)
    [[claim]] = desk.store.claim([Q], [Taker("ada", 1)], desk.now, nonce="n", again=True)
    assert desk.complete(claim) is None


# Others who hold what is needed.


@pytest.mark.usefixtures("impatient")
def test_a_job_that_somebody_holds_keeps_nobody_from_the_others(desk: Desk) -> None:
    desk.add_many(5)
    with closing(another(desk).store) as store, somebody(desk) as holder:
        node = Desk(store, desk.clock)
        holder.execute("SELECT 1 FROM jobs WHERE id = 'job-0001' FOR UPDATE")
        assert node.claimed_ids() == [f"job-000{number}" for number in range(2, 6)]
        assert node.job("job-0001").state is State.SCHEDULED
        with pytest.raises(StoreUnavailable, match="took too long"):
            node.cancel("job-0001")
        holder.rollback()
        assert node.cancel("job-0001").refused is None


@pytest.mark.usefixtures("impatient")
def test_a_table_that_somebody_has_locked_is_waited_for_in_bounded_time(desk: Desk) -> None:
    claimed = desk.take("a")
    with closing(another(desk).store) as store, somebody(desk) as holder:
        node = Desk(store, desk.clock)
        holder.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        for call in (lambda: node.add("b"), node.listed, lambda: node.complete(claimed)):
            with pytest.raises(StoreUnavailable):
                call()
        holder.rollback()
        assert node.complete(claimed) is None
        assert node.add("b") == "b"


def test_a_deadlock_with_another_program_is_survived(desk: Desk) -> None:
    names = ["a", "b"]
    for name in names:
        desk.add(name, due_in=60)
    cancel = JobChange(ChangeVerb.CANCEL)
    with somebody(desk) as rival:
        rival.execute("SET deadlock_timeout = '1min'")  # it is the store that gives way
        rival.execute("SELECT 1 FROM jobs WHERE id = 'b' FOR UPDATE")
        with in_thread(lambda: desk.store.change(names, cancel, desk.now)) as changing:
            eventually(lambda: waits_for_a_lock(desk))
            rival.execute("SELECT 1 FROM jobs WHERE id = 'a' FOR UPDATE")
            rival.commit()
            assert changing.result(PATIENCE).refused == {}
    assert [desk.state(name) for name in names] == [State.CANCELLED, State.CANCELLED]


def test_a_transaction_that_cannot_be_serialized_is_run_again(desk: Desk) -> None:
    desk.add("a", due_in=60)
    strict = f"{address_of(desk).conninfo}?options=-cdefault_transaction_isolation%3Dserializable"
    with closing(another(desk, conninfo=strict).store) as store, somebody(desk) as rival:
        rival.execute("UPDATE jobs SET priority = 3 WHERE id = 'a'")
        amend = Amendment(payload=b"2")
        with in_thread(lambda: Desk(store, desk.clock).amend("a", amend)) as changing:
            eventually(lambda: waits_for_a_lock(desk))
            rival.commit()
            changed = changing.result(PATIENCE)
        assert changed.refused is None
    assert (desk.job("a").priority, desk.job("a").payload) == (3, 2)


# What is told.


def test_without_the_connection_that_listens_work_is_found_and_later_heard_of(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []
    with closing(another(desk).store) as store:
        store.watch(lambda queue, due_at: told.append(queue))
        eventually(lambda: cut(desk, "LISTEN%"))
        desk.add("a")
        eventually(lambda: "q" in told)
        monkeypatch.setattr(news, "LISTEN_SECONDS", 3600.0)  # for rests that begin now

        def is_heard() -> bool:
            """Also by a look, until the last rest of the usual length is over."""
            told.clear()
            desk.add(queue="other")
            time.sleep(0.05)
            return bool(told)

        for _ in range(3):
            eventually(is_heard)


# A pool that is too small.


def test_with_one_connection_everybody_gets_an_answer(desk: Desk) -> None:
    with closing(another(desk, pool_size=1).store) as store:
        node = Desk(store, desk.clock)

        def run(thread: int) -> list[str]:
            done = []
            for number in range(5):
                store.insert([node.new(f"{thread}-{number}")], node.now)
                done += take_and_complete(node, f"w{thread}", f"{thread}/{number}")
                store.page(EVERYTHING, None, 10)
            return done

        done = [job_id for share in together(THREADS, run) for job_id in share]
    done += take_and_complete(desk, "last", "last")
    assert sorted(done) == sorted(f"{t}-{n}" for t in range(THREADS) for n in range(5))
