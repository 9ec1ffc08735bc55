"""An AgendaProgress is compared when it is looked at, and once more when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncue import Conflict, Fenced, State
from oncue.clock import FakeClock
from oncue.core.job import Claimed
from oncue.core.moment import from_datetime
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.testing import HandDriven
from oncue.usecases import agenda
from tests.stores.wrapped import Call, WrappedStore


class Interrupted(WrappedStore):
    """Something happens between the comparison at the edge and the write."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.meanwhile: Callable[[], object] | None = None

    def during(self, call: Call, go: Callable[[], Any]) -> Any:
        if call.method in ("settle", "reclaim") and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return go()


@pytest.fixture
def store() -> Interrupted:
    return Interrupted(MemoryStore(FakeClock()))


@pytest.fixture
def cue(store: Interrupted) -> HandDriven:
    clock = store.clock
    assert isinstance(clock, FakeClock)
    return HandDriven(store, clock=clock)


@pytest.fixture
def claim(cue: HandDriven) -> Claimed:
    cue.schedule(queue="work")
    [claim] = cue.claim("work", "ada")
    cue.clock.advance(1)
    return claim


WRITES = [
    agenda.AgendaWrite("COMPLETE", "failed"),
    agenda.AgendaWrite("COMPLETE", "succeeded"),
    agenda.AgendaWrite("WAITING"),
]


@pytest.mark.parametrize("write", WRITES, ids=str)
def test_a_job_that_is_heard_of_at_the_last_moment_is_a_lost_race(
    cue: HandDriven, store: Interrupted, claim: Claimed, write: agenda.AgendaWrite
) -> None:
    def beat() -> None:
        cue.heartbeat(claim.id, cue.token(claim))

    store.meanwhile = beat
    with pytest.raises(Conflict, match="moved on while this was written"):
        agenda.write(cue, claim.id, write._replace(updated_at=claim.claimed_at))
    assert cue.job(claim.id).state is State.EXECUTING
    assert cue.history(claim.id).diagnostics == ()
    cue.complete(claim.id, cue.token(claim), "mine")
    assert cue.job(claim.id).result == "mine"


@pytest.mark.parametrize("write", WRITES, ids=str)
def test_whoever_had_the_claim_is_fenced_afterwards(
    cue: HandDriven, claim: Claimed, write: agenda.AgendaWrite
) -> None:
    agenda.write(cue, claim.id, write._replace(updated_at=claim.claimed_at))
    after = cue.job(claim.id)
    with pytest.raises(Fenced):
        cue.heartbeat(claim.id, cue.token(claim))
    with pytest.raises(Fenced):
        cue.complete(claim.id, cue.token(claim), "late")
    assert cue.job(claim.id) == after


def test_what_is_written_is_counted_as_reclaimed(cue: HandDriven, claim: Claimed) -> None:
    agenda.write(cue, claim.id, agenda.AgendaWrite("WAITING", updated_at=claim.claimed_at))
    assert cue.telemetry.totals().reclaimed == {"retried": 1}


def test_a_job_that_is_being_delivered_is_left_to_its_dispatcher(
    cue: HandDriven, store: Interrupted
) -> None:
    cue.set_queue("mail", sink="log:")
    job = cue.schedule(queue="mail")
    store.claim_range(cue.queue("mail"), "dora", 10, cue.clock.now(), lease_seconds=60)
    seen = agenda.read(cue, job.id)
    assert seen.processing_state == "DEQUEUED"
    updated_at = from_datetime(cue.job(job.id).updated_at)
    with pytest.raises(Conflict, match="it is being delivered"):
        agenda.write(cue, job.id, agenda.AgendaWrite("WAITING", updated_at=updated_at))


def test_the_etag_changes_with_everything_that_is_told(cue: HandDriven, claim: Claimed) -> None:
    tags = [agenda.etag(agenda.read(cue, claim.id))]
    assert agenda.etag(agenda.read(cue, claim.id)) == tags[0]
    cue.operation(claim.id, cue.token(claim), "download", "executing", percent=1)
    tags.append(agenda.etag(agenda.read(cue, claim.id)))
    cue.operation(claim.id, cue.token(claim), "download", "executing", percent=2)
    tags.append(agenda.etag(agenda.read(cue, claim.id)))
    assert len(set(tags)) == 3


def test_a_retry_that_repeats_the_last_message_is_a_retry(cue: HandDriven, claim: Claimed) -> None:
    write = agenda.AgendaWrite("WAITING", "succeeded", updated_at=claim.claimed_at)
    agenda.write(cue, claim.id, write)
    assert cue.job(claim.id).state is State.SCHEDULED
