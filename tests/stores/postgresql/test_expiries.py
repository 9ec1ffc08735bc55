"""What a look at a queue reads of jobs that have an expiry: little, however many there are."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.stores.postgresql.readying import EXPIRED_SEEN
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk
from tests.stores.postgresql.faults import store_of
from tests.stores.postgresql.test_plans import nodes, pages, plan_of

MANY = 1_000
PAGES = 6


def look(store: PgStore, desk: Desk) -> dict[str, Any]:
    """The plan of the statement in a look at a queue in which nothing waits."""
    store.claim([Queue("other")], [Taker("ada", 1)], desk.now, nonce="n")
    params = {"queue": "other", "now": desk.now, "until": desk.now}
    params |= {"since": store._expiries.since(), "limit": EXPIRED_SEEN}
    return plan_of(store, "claims", "is_expired_due", params)


def test_jobs_of_other_queues_that_have_expired_are_not_all_read(desk: Desk) -> None:
    desk.add_many(MANY, expires_at=desk.now + 1000)
    desk.clock.advance(2)
    plan = look(store_of(desk), desk)
    assert max(node["Actual Rows"] for node in nodes(plan)) <= EXPIRED_SEEN


def test_jobs_that_were_done_before_they_expired_are_not_walked_through(desk: Desk) -> None:
    """While a transaction stays open, their entries stay in the index."""
    store = store_of(desk)
    with closing(store.db.connect()) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1 FROM pg_class")
        desk.add_many(MANY, expires_at=desk.now + 1000)
        for claimed in desk.claim(limit=MANY):
            assert desk.complete(claimed) is None
        desk.clock.advance(2)
        look(store, desk)
        assert pages(look(store, desk)) <= PAGES


def test_what_expires_after_a_look_is_cancelled_by_the_next_one(desk: Desk) -> None:
    store_of(desk)
    soon = desk.add("soon", expires_at=desk.now + 1000)
    late = desk.add("late", expires_at=desk.now + 500)
    desk.clock.advance(0.9)
    assert desk.claimed_ids(limit=1) == [soon]
    assert desk.state(late) == "cancelled"
