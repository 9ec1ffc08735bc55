"""Due items of the inbox on their way to a sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.ports.inbox import Accept
from oncue.ports.sink import Refusal
from oncue.stores.dynamodb.adoption import DynamoAdoption, Shape, failed, put_off
from oncue.stores.dynamodb.foreign import Foreign
from oncue.stores.dynamodb.inbox_lease import LEASE_MS
from oncue.stores.dynamodb.inbox_parts import HeldPart, Parts
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import Remove


class InFlight:
    """The items that are being delivered by this process, until they are settled."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._keys: dict[Key, int] = {}
        """With the number of the part."""

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has_any_of(self, part: int) -> bool:
        with self._lock:
            return part in self._keys.values()

    def keys(self) -> frozenset[Key]:
        """Who looks for items asks first: what is settled during the look may still be found."""
        with self._lock:
            return frozenset(self._keys)

    def add(self, jobs: Iterable[Foreign], part: int) -> None:
        with self._lock:
            self._keys.update((one.key, part) for one in jobs)

    def remove(self, jobs: Iterable[Foreign]) -> None:
        with self._lock:
            for one in jobs:
                self._keys.pop(one.key, None)


class FoundBatch:
    """Implements `oncue.ports.inbox.InboxBatch`."""

    lease_seconds = LEASE_MS / 1000

    def __init__(
        self,
        store: DynamoAdoption,
        parts: Parts,
        part: HeldPart,
        in_flight: InFlight,
        queue: str,
        jobs: Sequence[Foreign],
    ) -> None:
        self._store = store
        self._parts = parts
        self._part = part
        self._fence = part.lease.fence
        self._in_flight = in_flight
        self._jobs = jobs
        self.queue = queue
        self.asked = part.confirmed
        self.deliveries: Sequence[Delivery] = [
            Delivery(one.id, one.due_at, one.payload, 1, None, queue) for one in jobs
        ]

    def offer(self, accept: Accept) -> bool | None:
        """As `accept` answers. Until it is settled, a batch that was accepted is in flight."""
        self._in_flight.add(self._jobs, self._part.number)
        accepted: bool | None = None
        try:
            accepted = accept(self)
        finally:
            if not accepted:
                self.forget()
        return accepted

    def renew(self, now: Moment) -> bool:
        return self._parts.renew(self._part, self._fence, now)

    def settle(self, untaken: Mapping[int, Refusal | None] | None, now: Moment) -> bool:
        if untaken is not None:
            taken = [one for at, one in enumerate(self._jobs) if at not in untaken]
            self._store.table.write_each([Remove(one.key, one.is_same) for one in taken])
            refused = [self._refused(at, why, now) for at, why in untaken.items() if why]
            self._store.adopt(refused, now)
        self.forget()
        return True

    def _refused(self, at: int, why: Refusal, now: Moment) -> tuple[Foreign, Shape]:
        if why.permanent:
            return self._jobs[at], failed(self._part.lease.holder, why.detail, now)
        return self._jobs[at], put_off(why.detail, now)

    def forget(self) -> None:
        self._in_flight.remove(self._jobs)
