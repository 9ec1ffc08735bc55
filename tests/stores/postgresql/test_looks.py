"""What the looks of an idle process cost: not more with many queues than with few."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from oncue.core.queue import Queue
from oncue.stores.postgresql import news
from oncue.stores.postgresql.shards import ranges_of
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk, claim_due
from tests.stores.postgres import another_postgres
from tests.stores.postgresql.faults import eventually, store_of
from tests.stores.postgresql.journeys import counted

MANY = 300


@pytest.fixture
def store(desk: Desk) -> PgStore:
    return store_of(desk)


def add_queues(store: PgStore, count: int) -> list[str]:
    names = [f"queue-{number:04}" for number in range(count)]
    store.db.once(lambda tx: tx.run("jobs", "ensure_queues", {"queues": names}))
    return names


@pytest.mark.parametrize("count", [1, MANY])
def test_a_look_at_all_queues_is_a_fixed_number_of_statements(store: PgStore, count: int) -> None:
    names = add_queues(store, count)
    store.queues()
    with counted(store) as sent:
        store._look_for_news(names)
    assert (sent.count, sent.statements) == (2, 4)


def test_unchanged_queues_are_not_read_again(store: PgStore) -> None:
    add_queues(store, MANY)
    before = store.queues()
    with counted(store) as sent:
        assert store.queues() == before
    assert sent.rows == 1


def test_what_another_node_does_to_queues_is_seen(desk: Desk, store: PgStore) -> None:
    """A queue that is made by a job leaves the revision as it is; one that goes while another
    comes, the number of queues."""
    with closing(another_postgres(store)) as twin:
        for name in ("first", "second"):
            twin.insert([desk.new(queue=name)], desk.now)
            assert name in [one.name for one in store.queues()]
        assert twin.put_queue(Queue("second"), replace(Queue("second"), paused=True))
        assert [one.name for one in store.queues() if one.paused] == ["second"]
        [taken] = claim_due(twin, [Queue("first")], "ada", 1, desk.now)
        assert desk.complete(taken) is None
        assert twin.delete_queue("first", desk.now, 100).outcome == "deleted"
        twin.insert([desk.new(queue="third")], desk.now)
        assert {"first", "third"} & {one.name for one in store.queues()} == {"third"}


def test_a_look_tells_when_each_queue_has_something_to_take(desk: Desk, store: PgStore) -> None:
    later = desk.now + 60_000
    desk.add("waiting", queue="waiting", due_in=60)
    desk.add("more", queue="waiting", due_in=90, priority=9)
    desk.add("delivered", queue="held")
    claim = desk.claim_range(Queue("held"))
    desk.add("behind", queue="held", due_in=3600)
    desk.add("busy", queue="put-off")
    desk.settle_range(desk.claim_range(Queue("put-off")), busy={"busy": "not now"})
    desk.set(Queue("paused", paused=True))
    desk.add("stopped", queue="paused")
    add_queues(store, 1)
    _, dues = store._look_for_news(None)
    assert claim.jobs
    [held] = store.db.once(lambda tx: ranges_of(tx, ["held"]))
    back = store.next_due(["put-off"])
    assert dues == {"waiting": later, "held": held.lease_until, "put-off": back}


def test_a_store_that_is_closed_at_once_has_told_the_others(
    desk: Desk, store: PgStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may store a job and end."""
    monkeypatch.setattr(news, "LISTEN_SECONDS", 3600.0)  # so that only a notice can tell
    told: list[str | None] = []
    stop = store.watch(lambda queue, due_at: told.append(queue), lambda: ("mail",))
    try:
        eventually(lambda: store._known_lines._hears)
        with closing(another_postgres(store)) as brief:
            brief.insert([desk.new(queue="mail")], desk.now)
        eventually(lambda: "mail" in told)
    finally:
        stop()
