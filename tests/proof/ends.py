"""How jobs ended, read from the store when a run is over, and whether the history justifies it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from oncue.core.lifecycle import FINAL, State
from oncue.core.queue import Queue, default_queue
from oncue.ports.store import Store
from tests.proof.history import Asked
from tests.proof.ledger import Account

POISON_AFTER = 3
READERS = 8  # of a store whose calls wait for a network


class End(NamedTuple):
    """A job at the end of a run. `state` None: the store does not know it (any more)."""

    state: State | None
    epoch: int = 0
    codes: tuple[str, ...] = ()
    """Of its diagnostics, where it did not succeed."""
    max_attempts: int = 3
    poison_after: int = POISON_AFTER


GONE = End(None)


def ends_of(store: Store, job_ids: Iterable[str]) -> Mapping[str, End]:
    """What the store says of these jobs now."""
    queues = {queue.name: queue for queue in store.queues()}
    asked = list(job_ids)
    with ThreadPoolExecutor(READERS if store.traits.is_remote else 1) as readers:
        ends = readers.map(lambda job_id: _end_of(store, job_id, queues), asked)
        return dict(zip(asked, ends, strict=True))


def _end_of(store: Store, job_id: str, queues: Mapping[str, Queue]) -> End:
    job = store.get(job_id)
    if job is None:
        return GONE
    queue = queues.get(job.queue) or default_queue(job.queue)
    codes: tuple[str, ...] = ()
    if job.state is not State.SUCCEEDED:
        codes = tuple(one.code for one in store.history(job_id).diagnostics)
    poison_after = getattr(queue, "poison_after", POISON_AFTER)
    return End(job.state, job.epoch, codes, job.max_attempts or queue.max_attempts, poison_after)


def unjustified(asked: Asked, job: Account, end: End) -> str | None:
    """Why a job whose creation was acknowledged did not end as it should have; None: it did."""
    match end.state:
        case State.SUCCEEDED:
            return _success(job)
        case State.FAILED:
            return _failure(job, end)
        case State.CANCELLED:
            return _cancellation(asked, job, end)
        case None:
            return None if _may_be_gone(asked, job, end) else "gone, and nobody reported an end"
    assert end.state not in FINAL
    return f"still {end.state}"


def _success(job: Account) -> str | None:
    if not job.received:
        return "succeeded, but nobody received it"
    if job.delivered is None and not job.reported("complete"):
        return "succeeded, but nobody reported so"
    return None


def _failure(job: Account, end: End) -> str | None:
    """It was refused for good, its attempts are used up, or it killed its workers."""
    if not end.codes:
        return "failed, and nothing is recorded about it"
    if job.declined:
        return None
    if "poison" in end.codes:
        enough = 0 < end.poison_after <= job.strikes
        return None if enough else f"failed as poison after {job.strikes} started claims were lost"
    if job.used >= end.max_attempts:
        return None
    return f"failed, but only {job.used} of {end.max_attempts} attempts were used"


def _cancellation(asked: Asked, job: Account, end: End) -> str | None:
    if asked.cancelled or asked.cancel_unknown:
        return None
    if asked.expires_at is None:
        return "cancelled, but nobody asked for that"
    return None if "expired" in end.codes else "expired, and nothing is recorded about it"


def _may_be_gone(asked: Asked, job: Account, end: End) -> bool:
    """With no retention a job is gone when it has ended; its end is in the log."""
    if not _success(job):
        return True
    failed = job.declined or job.used >= end.max_attempts or job.strikes >= end.poison_after > 0
    return failed or (asked.cancelled or asked.cancel_unknown)
