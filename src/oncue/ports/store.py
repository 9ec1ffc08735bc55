"""The store: the adapter that keeps state durably. All its nouns on one page each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from oncue.core.lacks import Lack
from oncue.core.moment import Moment
from oncue.core.polling import POLL_SECONDS
from oncue.core.recurrence import FITS
from oncue.ports.access import TokenStore
from oncue.ports.bulk import BulkStore
from oncue.ports.claims import ClaimStore
from oncue.ports.clock import Clock
from oncue.ports.events import EventStore
from oncue.ports.jobs import JobStore
from oncue.ports.nodes import NodeStore
from oncue.ports.queues import QueueStore
from oncue.ports.rules import RuleStore
from oncue.ports.schedules import ScheduleStore
from oncue.ports.transfer import TransferStore

Listener = Callable[[str | None, Moment], None]
"""Called with (queue, due_at) when work was stored that is due earlier than the listener may know,
and with (queue, 0) when a claim ended in a queue that has a concurrency, which makes room;
queue None means: settings have changed, look at everything."""

Awaited = Callable[[], Collection[str]]
"""The queues that a listener waits for at the moment. Asked from any thread."""


class StoreFacts(NamedTuple):
    """What a store is."""

    kind: str
    details: Mapping[str, Any]
    """For people, by name: kind, place, versions, the durability in force."""
    path: str | None = None
    """Of its file, if it is one."""
    schema: int | None = None


class Traits(NamedTuple):
    """How a store is to be used. It stays the same while the store is open."""

    notice_seconds: float = 0.0
    """How soon it notices what other processes store."""
    is_remote: bool = False
    """Whether its calls wait for a network, so that several at the same time are faster."""
    poll_seconds: float = POLL_SECONDS
    """How long to rest, about, before looking again for work that is due and could not be taken."""
    advance_fits: int = FITS
    """How many jobs one `Advance` can make, and how many it can withdraw."""
    lacks: frozenset[Lack] = frozenset()
    """What it cannot do; see `core/lacks.py`."""
    groups: int = 1
    """How many calls of one kind a caller that gathers requests should have under way at a time:
    more than one helps where calls do not wait for each other."""


class Store(
    JobStore,
    BulkStore,
    ClaimStore,
    QueueStore,
    RuleStore,
    EventStore,
    ScheduleStore,
    TransferStore,
    TokenStore,
    NodeStore,
    Protocol,
):
    """All stores behave alike. Safe to use from many threads and, except for the memory
    store, from many processes. A call answers or raises `StoreUnavailable` in bounded time: a
    process that ends waits for its calls.

    **Pages.** `after` is the `next` of the page before, None at the beginning. Only the store
    understands it. It stays valid when the listed items change or go. A text that is not a cursor
    is refused by `core/cursor.py: not_a_cursor`. Queues, schedules and rules are few and listed by
    name: there, `after` is a name."""

    @property
    def clock(self) -> Clock:
        """The clock by which leases in this store are judged."""

    @property
    def secret(self) -> bytes:
        """What claim tokens are signed with: made with the store, the same on every node."""

    @property
    def traits(self) -> Traits:
        """How it is to be used. Known without a call."""

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """Be told of new work after it is durable; the answer stops it. Listeners must be quick.
        Work stored by other processes is noticed within `traits.notice_seconds` if it is due by
        then, else in time; with `queues`, that of other queues need not be told, which saves
        reading it. A change of queues, schedules or access tokens is told as (None, 0). Work that
        is due may be told of again: in a queue at its concurrency there may be room for it now.
        """

    def describe(self) -> StoreFacts:
        """What the store is, read anew. Raises a StoreError if something that it needs is missing
        now, such as a table."""

    def close(self) -> None:
        """Finish what is under way and give everything back."""
