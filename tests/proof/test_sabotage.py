"""The proof of the proof: a store that breaks a promise does not get a green card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from oncue.core.job import Claimed
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim, Refused, Settlement
from oncue.ports.jobs import Change
from oncue.ports.sink import Refusal
from oncue.stores.memory import MemoryStore
from tests.proof.checker import Card
from tests.proof.plan import Fault, Plan
from tests.proof.world import World


class Hasty(MemoryStore):
    """Takes jobs before they are due."""

    def claim_range(
        self,
        queues: Sequence[Queue],
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        due_until: Moment | None = None,
    ) -> RangeClaim:
        soon = now + 500
        return super().claim_range(
            queues, dispatcher, limit, now, lease_seconds=lease_seconds, due_until=soon
        )


class Careless(MemoryStore):
    """Takes a whole range for delivered, whatever it is told."""

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
    ) -> bool:
        return super().settle_range(claim, [job.id for job in claim.jobs], refused, now)


class Gullible(MemoryStore):
    """Accepts a settlement of any epoch."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Mapping[int, Refused]:
        super().settle(settlements, now)
        return {}


class Compliant(MemoryStore):
    """Says that it cancelled what it did not cancel."""

    def cancel(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        return [change._replace(refused=None) for change in super().cancel(job_ids, now)]


class Restarting(MemoryStore):
    """Begins to count attempts anew after a reclaim."""

    def claim(
        self,
        queues: Sequence[Queue],
        worker: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float | None = None,
        reclaimed_limit: int = 1,
    ) -> list[Claimed]:
        claims = super().claim(
            queues,
            worker,
            limit,
            now,
            lease_seconds=lease_seconds,
            reclaimed_limit=reclaimed_limit,
        )
        return [claim._replace(attempt=4 - claim.attempt) for claim in claims]


def run(store: type[MemoryStore], fault: Fault | None = None) -> Card:
    plan = Plan(1, {} if fault is None else {fault: 0.3})
    return World(plan, 1, make_store=store).run()


def test_a_hasty_store_is_found_early() -> None:
    assert run(Hasty).early


def test_a_careless_store_is_found_to_lose() -> None:
    assert run(Careless, Fault.HALF_REFUSED).lost


def test_a_gullible_store_is_found_to_accept_stale_writes() -> None:
    assert run(Gullible, Fault.CONFLICT).stale


def test_a_compliant_store_is_found_to_deliver_what_it_cancelled() -> None:
    assert run(Compliant).unexpected


def test_a_store_that_counts_attempts_anew_makes_duplicates_unidentifiable() -> None:
    assert run(Restarting, Fault.CONFLICT).unidentifiable


@pytest.mark.parametrize("store", [Careless, Gullible, Restarting])
def test_some_sabotage_shows_only_under_faults(store: type[MemoryStore]) -> None:
    assert run(store).green
