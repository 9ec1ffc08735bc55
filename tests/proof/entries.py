"""What the log of a run holds, in the order in which it happened.

The receivers write down what they saw (`Received`, `Declined`), the `Witness` around each process's
store what was taken from it and written to it, and whoever kills writes down whom (`Struck`).
Moments that are compared with each other as lengths (`since`, `at` of a reclaim) are seconds of the
monotonic clock, which all processes of a machine share: the wall clock is turned in some runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from oncue.core.moment import Moment


class Received(NamedTuple):
    """One delivery as its receiver saw it. `at` is by the store's clock."""

    id: str
    attempt: int
    at: Moment
    receiver: str = ""


class Declined(NamedTuple):
    """A receiver said that it will never take this job, or that its failure is final."""

    id: str


class Taken(NamedTuple):
    """A claim of one job, as the store answered it."""

    id: str
    epoch: int
    attempt: int
    holder: str
    since: float
    """When the lease began."""
    lease_seconds: float
    timeout_seconds: float | None
    together: int
    """How many jobs the same claim took."""


class Wrote(NamedTuple):
    """A write of the holder of a claim. It is logged before it is made, `accepted` None, and again
    with its answer. None alone: the answer is not known."""

    id: str
    epoch: int
    what: str
    """start, hold, hand over, operation, or the verb of a settlement."""
    accepted: bool | None
    since: float
    lease_seconds: float | None = None
    writer: str = ""


class Reclaimed(NamedTuple):
    """The claim of this epoch was taken away from its holder."""

    id: str
    epoch: int
    holder: str
    at: float


class Looked(NamedTuple):
    """Somebody is about to look for work in a queue. That closes ranges whose lease has ended by
    then, also if another one is quicker to take what becomes free."""

    queue: str
    since: float
    """The moment by which leases are judged."""


class Ranged(NamedTuple):
    """A range claim, as the store answered it."""

    range: str
    """A shard of a queue."""
    fence: int
    ids: tuple[str, ...]
    holder: str
    since: float
    lease_seconds: float


class RangeWrote(NamedTuple):
    """A write of the holder of a range: logged twice, as `Wrote` is."""

    range: str
    fence: int
    what: str
    """extend or settle; forget: its holder claimed again and did not name it."""
    accepted: bool | None
    until: float
    """extend: how long it is held from now on."""
    delivered: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """For good."""
    batch: str | None = None
    """settle: the first job of the claim; None: the only claim under this fence."""


class Struck(NamedTuple):
    """A process was killed or stopped. It is logged once the process does nothing any more."""

    who: str
    how: str


Entry = Received | Declined | Taken | Wrote | Reclaimed | Looked | Ranged | RangeWrote | Struck

KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (Received, Declined, Taken, Wrote, Reclaimed, Looked, Ranged, RangeWrote, Struck)
}
NAMES = {kind: name for name, kind in KINDS.items()}


def to_row(entry: Entry) -> list[object]:
    return [NAMES[type(entry)], *entry]


def from_row(row: list[object]) -> Entry:
    name, *fields = row
    kind = KINDS.get(str(name))
    if kind is None:
        raise ValueError(f"nobody writes such a line: {row!r}")
    entry: Entry = kind(*(tuple(one) if isinstance(one, list) else one for one in fields))
    return entry
