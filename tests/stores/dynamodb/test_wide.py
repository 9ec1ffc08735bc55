"""A queue with more shards than one claim looks at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from oncue.core.queue import Queue
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.offers import SHARDS_AT_ONCE
from oncue_bench.dynamodb.ledger import CountingClient
from tests.contract.desk import LEASE, Desk, ids
from tests.stores.dynamodb.rig import Rig

SHARDS = 40
WIDE = Queue("wide", shards=SHARDS, lease_seconds=LEASE)
JOBS = 30


@pytest.fixture
def rig(client: Any) -> Iterator[Rig]:
    rig = Rig(client, inside=CountingClient, queues=[WIDE])
    yield rig
    rig.close()


@pytest.fixture
def desk(rig: Rig) -> Desk:
    return rig.calm.desk


def lose_all(desk: Desk) -> None:
    """Let every claim lapse, and take the jobs back."""
    desk.clock.advance(LEASE)
    desk.judge(WIDE)
    desk.clock.advance(3600)  # they are tried again after a while


def take_all(desk: Desk, limit: int) -> list[list[str]]:
    """What claims get, one after the other, until there is nothing left."""
    taken = []
    while claims := ids(desk.claim(WIDE, limit=limit)):
        taken.append(claims)
    return taken


def test_reclaimed_work_is_found_wherever_it_is(desk: Desk) -> None:
    every = desk.add_many(JOBS, queue=WIDE.name)
    assert take_all(desk, JOBS)
    lose_all(desk)
    taken = take_all(desk, limit=5)
    assert {len(claims) for claims in taken} == {1}, "it is not taken in bulk"
    assert sorted(chain(*taken)) == sorted(every)


def test_put_off_jobs_are_found_wherever_they_are(desk: Desk) -> None:
    every = desk.add_many(JOBS, queue=WIDE.name)
    for claimed in desk.claim(WIDE, limit=JOBS):
        assert desk.release(claimed, put_off=True) is None
    assert take_all(desk, JOBS) == []
    desk.clock.advance(3600)
    assert sorted(chain(*take_all(desk, JOBS))) == sorted(every)


def test_reclaimed_work_is_taken_among_other_work(desk: Desk) -> None:
    lost = desk.add_many(3, queue=WIDE.name)
    assert take_all(desk, 3)
    lose_all(desk)
    others = desk.add_many(10 * JOBS, queue=WIDE.name)
    taken = take_all(desk, limit=20)
    assert sorted(chain(*taken)) == sorted(lost + others)
    assert sorted(one for one, *more in taken if not more and one in lost) == sorted(lost)


def test_a_claim_that_finds_enough_in_some_shards_does_not_read_the_others(rig: Rig) -> None:
    rig.calm.desk.add_many(8 * SHARDS, queue=WIDE.name)
    with rig.inner.counted() as bill:
        assert len(rig.calm.desk.claim(WIDE, limit=8)) == 8
    read = {charge.partition for charge in bill.charges}
    lines = {keys.line(WIDE.name, shard) for shard in range(SHARDS)}
    assert len(read & lines) == SHARDS_AT_ONCE
