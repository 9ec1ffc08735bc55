"""Jobs that come into a range which a dispatcher holds: any number of them may be overdue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncue.stores.postgresql import ranges
from tests.contract.desk import DELIVERY, Desk
from tests.stores.postgresql.faults import store_of
from tests.stores.postgresql.journeys import counted

TAKEN = 10
ARRIVED = 40 * TAKEN
HARDLY_ANY = 30  # rows besides: of the look, of locks


def test_no_more_of_them_are_read_than_are_taken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "MERGED", TAKEN)
    store = store_of(desk)
    queue = replace(DELIVERY, shards=1)
    desk.set(queue)
    flying = desk.add(queue="d")
    claim = desk.claim_range(queue)
    assert [job.id for job in claim.jobs] == [flying]
    arrived = desk.add_many(ARRIVED, queue="d", due_in=-60)
    with counted(store) as sent:
        more = desk.claim_range(queue, limit=TAKEN, in_flight=[claim])
    assert [job.id for job in more.jobs] == sorted(arrived)[:TAKEN]
    assert sent.rows < 3 * TAKEN + HARDLY_ANY
