"""A large payload is kept apart from its row: what leaves it alone neither reads nor writes it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from oncue.core.job import Claimed
from oncue.core.lifecycle import Verb
from oncue.stores.postgresql import records
from tests.contract.changing import CANCEL, STOP, change
from tests.contract.desk import Desk
from tests.stores.postgresql.faults import store_of

LARGE = Random(7).randbytes(200 * 1024)  # which nothing makes smaller

Act = Callable[[Desk, str], object]


def stored_apart(desk: Desk) -> set[tuple[str, int]]:
    """The pieces of large values, and the transactions that have written them."""
    store = store_of(desk)
    schema = store.db.address.schema
    with store.db.connect() as connection:
        found = connection.execute(
            "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = %s::text::regclass",
            (f"{schema}.jobs",),
        ).fetchone()
        assert found is not None
        pieces = f"SELECT xmin::text, chunk_id::bigint FROM {found[0]}"
        return set(connection.execute(pieces.encode()).fetchall())


def taken(act: Callable[[Desk, Claimed], object]) -> Act:
    return lambda desk, _: act(desk, desk.claim()[0])


ACTS: dict[str, Act] = {
    "claim": lambda desk, _: desk.claim(),
    "heartbeat": taken(lambda desk, job: desk.touch(job, lease_seconds=9.0)),
    "operation": taken(lambda desk, job: desk.put_operation(job, "step")),
    "release": taken(lambda desk, job: desk.release(job)),
    "retry": taken(lambda desk, job: desk.retry(job)),
    "failure": taken(lambda desk, job: desk.fail(job)),
    "completion": taken(lambda desk, job: desk.complete(job, b"1", updated_at=desk.now)),
    "reclaim": taken(lambda desk, _: desk.reclaim(desk.lapse(), Verb.RECLAIM)),
    "request to stop": taken(lambda desk, job: change(desk.store, job.id, STOP, desk.now)),
    "cancel": lambda desk, job_id: change(desk.store, job_id, CANCEL, desk.now),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_leaves_a_payload_does_not_write_it(desk: Desk, act: Act) -> None:
    job_id = desk.add(payload=LARGE)
    before = stored_apart(desk)
    assert before
    act(desk, job_id)
    assert stored_apart(desk) == before
    assert desk.job(job_id).payload_json == LARGE


def test_a_result_that_stays_is_not_written_again(desk: Desk) -> None:
    claimed = desk.take()
    assert desk.complete(claimed, LARGE) is None
    before = stored_apart(desk)
    assert before
    desk.touch(claimed)  # late: recorded in the job
    assert desk.codes(claimed.id) == ["fenced"]
    assert stored_apart(desk) == before
    assert desk.job(claimed.id).result_json == LARGE


def test_a_payload_is_read_only_where_it_is_wanted(desk: Desk) -> None:
    first, second = desk.add(payload=LARGE), desk.add(payload=LARGE)
    found = store_of(desk).db.once(lambda tx: records.find(tx, [first, second], [second]))
    assert [found[one].record.payload for one in (first, second)] == [b"", LARGE]
