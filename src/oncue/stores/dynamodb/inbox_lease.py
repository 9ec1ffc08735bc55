"""The lease of a part of the inbox: who reads it, and how far it has come."""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.moment import Moment
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.leasing import MARGIN_MS
from oncue.stores.dynamodb.writes import Item

LEASE_MS = 30_000


class InboxLease(NamedTuple):
    part: int
    ver: int = 0
    """0: it was never taken."""
    fence: int = 0
    """Rises whenever the part gets another holder."""
    holder: str = ""
    """Empty: it was let go."""
    until: Moment = 0
    checkpoint: Moment = 0
    """All buckets before this one were empty, a bucket and ten seconds after their end."""
    swept_at: Moment = 0
    """When the last search for items that were put late began."""
    sweep: Moment = 0
    """The next bucket of a search that is under way; 0: none is."""

    def is_free(self, now: Moment) -> bool:
        """Whether another may take it. One that ends later than any lease does was given by a clock
        that was set back since."""
        return not self.holder or not now < self.until <= now + LEASE_MS + MARGIN_MS

    def taken(self, holder: str, first: Moment, now: Moment) -> InboxLease:
        """By another holder. `first` is where one begins that was never taken."""
        begun = {} if self.ver else {"checkpoint": first, "swept_at": now}
        lease = self._replace(fence=self.fence + 1, holder=holder, **begun)
        return lease.renewed(now)

    def renewed(self, now: Moment) -> InboxLease:
        return self._replace(until=now + LEASE_MS)

    def let_go(self) -> InboxLease:
        return self._replace(holder="", until=0)

    def as_item(self, ver: int) -> Item:
        stored = dict(zip(_STORED, self[2:], strict=True))
        return {**keys.inbox_lease(self.part)._asdict(), **stored, "ver": ver}


_STORED = InboxLease._fields[2:]


def read_inbox_lease(part: int, item: Item | None) -> InboxLease:
    if item is None:
        return InboxLease(part)
    return InboxLease(part, item["ver"], **{name: item[name] for name in _STORED})
