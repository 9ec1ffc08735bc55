"""What a reclaimer does with claims of any number: the server does it, and no claim comes here."""

from __future__ import annotations

import pytest

from oncue.core.missed import Look, Missed
from oncue.stores.postgresql import endings
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk
from tests.stores.postgresql.faults import store_of
from tests.stores.postgresql.journeys import counted

PAGE = 4
CLAIMS = 3 * PAGE + 1
HARDLY_ANY = 20  # rows: of the look, of ranges, of queues, of each page


@pytest.fixture
def store(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> PgStore:
    monkeypatch.setattr(endings, "MOVED_AT_ONCE", PAGE)
    return store_of(desk)


def leases(store: PgStore) -> dict[str, int]:
    rows = store.db.once(lambda tx: tx.execute(f"SELECT id, lease_until FROM {_jobs(store)}").all())
    return dict(rows)


def _jobs(store: PgStore) -> str:
    return f"{store.db.address.schema}.jobs"


def claim_all(desk: Desk) -> None:
    for _ in range(CLAIMS):
        desk.add()
    assert len(desk.claim(limit=CLAIMS)) == CLAIMS


def test_claims_are_moved_by_the_server(desk: Desk, store: PgStore) -> None:
    claim_all(desk)
    before = leases(store)
    desk.clock.advance(30)
    look = Look("origin", 1, desk.now)
    with counted(store) as sent:
        assert store.judge_leases(lambda recorded: (look, Missed(5_000))) == Missed(5_000)
    assert leases(store) == {job_id: until + 5_000 for job_id, until in before.items()}
    assert sent.rows < HARDLY_ANY


def test_claims_that_stay_as_they_are_are_not_written(desk: Desk, store: PgStore) -> None:
    """As after each start of an engine: it does not know whether a clock was set back before."""
    claim_all(desk)
    versions = f"SELECT id, xmin::text FROM {_jobs(store)} ORDER BY id"
    before = store.db.once(lambda tx: tx.execute(versions).all())
    look = Look("origin", 1, desk.now)
    assert not store.has_leases_astray(desk.now)
    assert store.judge_leases(lambda recorded: (look, Missed())) == Missed()
    assert store.db.once(lambda tx: tx.execute(versions).all()) == before


def test_a_claim_that_is_being_settled_is_left_out(desk: Desk, store: PgStore) -> None:
    claim_all(desk)
    before = leases(store)
    held = min(before)
    with store.db.connect() as connection, connection.transaction(force_rollback=True):
        lock = f"SELECT 1 FROM {_jobs(store)} WHERE id = %s FOR UPDATE"
        connection.execute(lock.encode(), [held])
        desk.clock.advance(30)
        look = Look("origin", 1, desk.now)
        assert store.judge_leases(lambda recorded: (look, Missed(5_000))) == Missed(5_000)
    moved = {job_id for job_id, until in leases(store).items() if until != before[job_id]}
    assert moved == before.keys() - {held}
