"""The inbox: where programs put jobs straight into the tables of a store. Few stores have one: it
is their attribute `inbox`, and no part of the port of stores.

Items of the inbox whose queue has a sink become deliveries without a copy. All others are moved
into their queues, and are jobs like any other from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.ports.sink import Refusal


class InboxSettings(NamedTuple):
    """What the producers of an inbox have to know."""

    minutes: int = 5
    """Due times are floored to so many minutes: all items of such a bucket are together."""
    shards: int = 50
    """Over how many partitions a bucket is spread, by the ids. 0: one partition."""


class InboxItem(Protocol):
    """What a producer put."""

    @property
    def place(self) -> tuple[str, str]:
        """Its two keys."""

    @property
    def id(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def due_at(self) -> Moment: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def problem(self) -> str | None:
        """Why it cannot be a job; None: it can."""


class InboxBatch(Protocol):
    """Due items of one queue, to be delivered together. It is settled once it was accepted."""

    @property
    def queue(self) -> str: ...

    @property
    def deliveries(self) -> Sequence[Delivery]: ...

    @property
    def lease_seconds(self) -> float: ...

    @property
    def asked(self) -> float:
        """When the lease on these items was last asked for, by the monotonic clock."""

    def renew(self, now: Moment) -> bool:
        """Hold the items longer. False: another may have taken them."""

    def settle(self, untaken: Mapping[int, Refusal | None] | None, now: Moment) -> bool:
        """By position: not named → its item is removed, refused for good → a failed job, refused
        for now → a job that is put off, not tried → it stays. An item that was changed since stays,
        as a new one. None: nothing was delivered. It can be repeated."""

    def forget(self) -> None:
        """It cannot be settled: its items are delivered again."""


Accept = Callable[[InboxBatch], bool | None]
"""Takes charge of a batch. False: not now. None: its queue is not delivered to directly, or not
before the items are due."""


class Inbox(Protocol):
    set_aside: int
    """How many malformed items this process has made failed jobs of."""

    def step(
        self, holder: str, now: Moment, accept: Accept, due_until: Moment | None = None
    ) -> float:
        """Find what is due in the parts of the inbox that this holder reads, and deal with it. How
        long to rest, in seconds. `due_until` (default: now): what is due by then is offered as
        well, in batches of its own, and stays if it is not accepted."""

    def find_late(self, around: Moment, now: Moment) -> int:
        """Make jobs of the items that were put into the bucket of a moment, or into the one before
        it, after these were found empty. How many there were."""

    def leave(self, now: Moment) -> None:
        """Let go of all parts, so that others go on at once."""

    def settings(self) -> InboxSettings | None:
        """None: the store has no inbox until `set` is called."""

    def set(self, wanted: InboxSettings, now: Moment) -> InboxSettings:
        """Give the store an inbox, or more shards. What it has then: shards are never taken away,
        and the minutes stay as they are, because items may be anywhere."""

    def items(self, first: Moment, last: Moment) -> Iterator[InboxItem]:
        """What is in the buckets from one moment to another, in the order of the due times."""

    def replay(self, first: Moment, last: Moment, now: Moment) -> int:
        """Make jobs of all items in these buckets, however late they were put. How many there were.
        What is being delivered just now may be delivered twice."""
