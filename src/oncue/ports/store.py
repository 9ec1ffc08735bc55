"""The store: the adapter that keeps state durably. All its nouns on one page each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

from oncue.core.moment import Moment
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

T = TypeVar("T")

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
    notice_seconds: float = 0.0
    """How soon it notices what other processes store."""
    is_remote: bool = False
    """Whether its calls wait for a network, so that several at the same time are faster."""
    all_or_nothing: bool = False
    """Whether a submitted call that raises has stored nothing, so that it may be repeated."""


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
    """One semantics, whatever keeps it. Safe to use from many threads and, except for the memory
    store, from many processes."""

    @property
    def clock(self) -> Clock:
        """The clock by which leases in this store are judged."""

    @property
    def secret(self) -> bytes:
        """What claim tokens are signed with: made with the store, the same on every node."""

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call that uses this store off the caller's thread. Calls submitted close together
        share a commit where the store can; each future resolves once its effects are durable."""

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """Be told of new work after it is durable; the answer stops it. Listeners must be quick.
        Work stored by other processes is noticed within `describe().notice_seconds` if it is due by
        then, else in time; with `queues`, that of other queues need not be told, which saves
        reading it. A change of queues, schedules or access tokens is told as (None, 0). Work that
        is due may be told of again: in a queue at its concurrency there may be room for it now.
        """

    def describe(self) -> StoreFacts:
        """What the store is, read anew. Raises a StoreError if something that it needs is missing
        now, such as a table."""

    def close(self) -> None:
        """Finish what was submitted and give everything back."""
