"""Which parts of the inbox this process reads: settings, leases, and a fair share of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from oncue.core.moment import Moment
from oncue.ports.clock import Clock
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.buckets import PARTS, Buckets
from oncue.stores.dynamodb.inbox_lease import LEASE_MS, InboxLease, read_inbox_lease
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import unchanged

LOOK_MS = 10_000
"""Between two looks at settings and leases, and between two looks that begin at the checkpoint."""
DAY_MS = 86_400_000


@dataclass(slots=True)
class HeldPart:
    """A part that this process reads."""

    lease: InboxLease
    confirmed: float
    """When the lease was last asked for, by the monotonic clock."""
    looked_back_at: Moment | None = None
    is_leaving: bool = False
    """It is let go when nothing of it is in flight any more, and not read until then."""
    is_behind: bool = False
    """Whether there is more between the checkpoint and now than one look reads."""

    @property
    def number(self) -> int:
        return self.lease.part

    @property
    def has_more(self) -> bool:
        """Whether the next look should follow at once."""
        return self.is_behind or self.lease.sweep > 0

    def looks_back(self, now: Moment) -> bool:
        """Whether this look begins at the checkpoint, and not just at what is due now."""
        last = self.looked_back_at
        if last is not None and not self.has_more and 0 <= now - last < LOOK_MS:
            return False
        self.looked_back_at = now
        return True


class Parts:
    """Safe to use from many threads."""

    def __init__(
        self,
        table: Table,
        clock: Clock,
        count_nodes: Callable[[Moment], int],
        is_in_flight: Callable[[int], bool],
    ) -> None:
        """`count_nodes`: how many processes share the inbox, this one included. `is_in_flight`:
        whether anything of the part with this number is being delivered."""
        self._table = table
        self._clock = clock
        self._count_nodes = count_nodes
        self._is_in_flight = is_in_flight
        self._lock = Lock()
        self._held: dict[int, HeldPart] = {}
        self._shared_at: Moment | None = None
        self.buckets: Buckets | None = None

    def read_settings(self) -> Buckets | None:
        item = self._table.get(keys.INBOX)
        return None if item is None else Buckets(item["minutes"], item["shards"])

    def write_settings(self, wanted: Buckets) -> Buckets:
        """The settings as they are then: items may be in all shards that there ever were, and under
        the names of the first buckets."""
        for _ in range(MOST_RACES):
            item = self._table.get(keys.INBOX) or {"ver": 0, **wanted._asdict()}
            stored = Buckets(item["minutes"], max(item["shards"], wanted.shards))
            put = {**keys.INBOX._asdict(), **stored._asdict(), "ver": item["ver"] + 1}
            if self._table.put(put, unchanged(item["ver"])):
                self._shared_at = None
                return stored
        raise too_many_races()

    def share(self, holder: str, now: Moment) -> None:
        """Take free parts up to a fair share, and let go of more than that. Now and then."""
        last = self._shared_at
        if last is not None and 0 <= now - last < LOOK_MS:
            return
        self.buckets = self.read_settings()
        if self.buckets is not None:
            self._share(holder, self.buckets, now)
        self._shared_at = now

    def _share(self, holder: str, buckets: Buckets, now: Moment) -> None:
        numbers = range(min(PARTS, buckets.shards + 1))
        most = -(-len(numbers) // max(1, self._count_nodes(now)))
        for place, part in enumerate(list(self._held.values())):
            part.is_leaving = place >= most
        found = self._table.read(keys.inbox_lease(number) for number in numbers)
        for number in numbers:
            if len(self._held) >= most:
                return
            lease = read_inbox_lease(number, found.get(keys.inbox_lease(number)))
            if number not in self._held and lease.is_free(now):
                part = HeldPart(lease, self._clock.monotonic())
                taken = lease.taken(holder, buckets.of(now - DAY_MS), now)
                if self.write(part, taken, now):
                    self._held[number] = part

    def kept(self, now: Moment) -> list[HeldPart]:
        """The parts that this process reads, with leases that go on for a while."""
        for part in list(self._held.values()):
            if part.is_leaving and not self._is_in_flight(part.number):
                self._let_go(part, now)
            elif not LEASE_MS * 2 // 3 <= part.lease.until - now <= LEASE_MS:
                self.write(part, part.lease.renewed(now), now)
        return [part for part in self._held.values() if not part.is_leaving]

    def renew(self, part: HeldPart, fence: int, now: Moment) -> bool:
        """Hold a part longer. False: it was lost since it had that fence."""
        if self._held.get(part.number) is not part or part.lease.fence != fence:
            return False
        return self.write(part, part.lease.renewed(now), now)

    def write(self, part: HeldPart, lease: InboxLease, now: Moment) -> bool:
        """Store a lease, longer by the way if it is held. False: it belongs to another now."""
        with self._lock:
            known, asked = part.lease, self._clock.monotonic()
            if lease.holder:
                lease = lease.renewed(now)
            ver = max(now, known.ver + 1)
            if not self._table.put(lease.as_item(ver), unchanged(known.ver)):
                self._held.pop(part.number, None)
                return False
            part.lease, part.confirmed = lease._replace(ver=ver), asked
            return True

    def leave(self, now: Moment) -> None:
        for part in list(self._held.values()):
            self._let_go(part, now)
        self._shared_at = None

    def _let_go(self, part: HeldPart, now: Moment) -> None:
        self.write(part, part.lease.let_go(), now)
        self._held.pop(part.number, None)
