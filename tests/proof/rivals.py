"""Another actor that gets there first, so that a write loses its race."""

from __future__ import annotations

from collections.abc import Callable

from oncue.core.queue import Queue
from oncue.core.retry import after_lapse
from oncue.ports.claims import RangeClaim
from oncue.ports.store import Store
from tests.contract.desk import lapses_by
from tests.proof.ledger import RIVAL
from tests.stores.wrapped import Call

DAY_MS = 86_400_000
EVERYTHING = 100_000


class Rival:
    """Acts on the same store as the one it is a rival to, with a clock that runs a day ahead: so
    every lease looks ended to it. Before a claim's write it reclaims the claim; before a reclaim it
    makes that very reclaim; before a range is extended or settled it takes the range over, and
    gives it back unharmed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, call: Call) -> Callable[[], object] | None:
        match call.method, call.args:
            case (("touch" | "settle"), (writes, *_)):
                return lambda: self._reclaim({(write.id, write.epoch) for write in writes})
            case "put_operation", (job_id, epoch, *_):
                return lambda: self._reclaim({(job_id, epoch)})
            case "reclaim", (verdicts, now):
                return lambda: self._store.reclaim(verdicts, now)
            case (("settle_range" | "extend_range"), (RangeClaim() as claim, *_)):
                return lambda: self._take_over(self._queue(claim.queue))
        return None

    def _reclaim(self, claims: set[tuple[str, int]]) -> None:
        now = self._store.clock.now()
        lapses = lapses_by(self._store, now + DAY_MS, EVERYTHING)
        verdicts = [
            (lapse, after_lapse(lapse, self._queue(lapse.queue), now))
            for lapse in lapses
            if (lapse.id, lapse.epoch) in claims
        ]
        self._store.reclaim(verdicts, now)

    def _take_over(self, queue: Queue) -> None:
        now = self._store.clock.now() + DAY_MS
        taken = self._store.claim_range(queue, RIVAL, 1, now, lease_seconds=1)
        if taken.jobs:
            self._store.settle_range(taken, [], {}, now)

    def _queue(self, name: str) -> Queue:
        return next((one for one in self._store.queues() if one.name == name), Queue(name))
