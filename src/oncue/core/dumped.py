"""A job and an event as a dump has them: with everything that a store keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.core.errors import KeyTaken
from oncue.core.job import History, Job
from oncue.core.publication import LoggedEvent


@dataclass(frozen=True, slots=True)
class DumpedJob:
    """`job.state` is the stored state: a job inside an open range claim is `scheduled`. The last
    attempt of `history` is the one under way, or the one that finished the job. `Lapse.alone` is
    not dumped: in another store the job counts as claimed together with others."""

    job: Job
    history: History
    digest: bytes | None = None
    overlong_at: datetime | None = None
    strikes: int = 0
    ahead: bool = False
    hidden: bool = False
    """Removed for every reader; only its id is still remembered."""

    @property
    def size(self) -> int:
        """Bytes of its payload and result, which are most of it."""
        return len(self.job.payload_json) + len(self.job.result_json or b"")


class DumpedEvent(NamedTuple):
    """An event, with the decisions of the rules that there are."""

    logged: LoggedEvent
    accepted: tuple[int, ...] = ()
    """Positions of the decisions whose dependency still has the event among its accepted ones."""


def key_taken(job: Job) -> KeyTaken:
    """The refusal of a job whose key belongs to an unfinished one of the store it comes to."""
    return KeyTaken(
        f"job {job.id}: its key {job.key!r} belongs to another unfinished job of queue "
        f"{job.queue}; finish or cancel that one first."
    )
