"""A job and an event as a dump has them: with everything that a store keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from oncue.core.errors import KeyTaken
from oncue.core.event import Event
from oncue.core.fencing import End
from oncue.core.job import Diagnostic, History, Job
from oncue.core.lease import Lease
from oncue.core.moment import Moment, from_datetime, maybe_datetime
from oncue.core.operations import result_bytes
from oncue.core.publication import LoggedEvent
from oncue.core.record import MOMENTS, NAMES, Record


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

    @classmethod
    def of(cls, record: Record) -> DumpedJob:
        job = record.as_job()._replace(state=record.state)
        kept = {name: getattr(record, name) for name in _KEPT}
        return cls(job, record.as_history(), overlong_at=maybe_datetime(record.overlong_at), **kept)

    def as_record(self) -> Record:
        history = self.history
        claimed = history.attempts[-1].claimed_at if history.attempts else None
        values = {name: getattr(self.job, field) for field, name in NAMES.items()}
        values |= {name: _ms(values[name]) for name in MOMENTS}
        values |= {name: getattr(self, name) for name in _KEPT}
        return Record(
            lease=Lease(values.pop("lease_until")),
            **values,
            claimed_at=_ms(claimed) or 0,
            overlong_at=_ms(self.overlong_at),
            result_bytes=result_bytes(history.operations),
            operations={operation.name: operation for operation in history.operations},
            diagnostics=list(history.diagnostics),
            attempts=list(history.attempts),
            ends=_ends(history),
            fenced={
                (one.epoch, one.facts["write"]): one
                for one in history.diagnostics
                if one.code == "fenced" and isinstance(one.facts.get("write"), str)
            },
        )


_KEPT = ("digest", "strikes", "ahead", "hidden")
"""Fields of a record that a job does not have, and that are dumped as they are."""


def _ms(moment: datetime | None) -> Moment | None:
    return None if moment is None else from_datetime(moment)


def _ends(history: History) -> dict[int, End]:
    """What the attempts tell of claims that are over: enough to refuse a late write, with the
    diagnostic that the end left."""
    left: dict[tuple[int, datetime | None], Diagnostic] = {}
    for one in history.diagnostics:
        if "decision" in one.facts:
            left.setdefault((one.epoch, one.at), one)
    return {
        attempt.epoch: End(
            attempt.outcome, attempt.attempt, None, left.get((attempt.epoch, attempt.ended_at))
        )
        for attempt in reversed(history.attempts)  # a delivery has the epoch of the claim before
        if attempt.outcome is not None
    }


class DumpedEvent(NamedTuple):
    """An event, with the decisions of the rules that there are."""

    logged: LoggedEvent
    accepted: tuple[int, ...] = ()
    """Positions of the decisions whose dependency still has the event among its accepted ones."""
    other_ids: tuple[str, ...] = ()
    """Under which the same fact came again."""

    @property
    def under_each_id(self) -> list[Event]:
        event = self.logged.event
        return [event, *(replace(event, id=other) for other in self.other_ids)]


def key_taken(job: Job) -> KeyTaken:
    """The refusal of a job whose key belongs to an unfinished one of the store it comes to."""
    return KeyTaken(
        f"job {job.id}: its key {job.key!r} belongs to another unfinished job of queue "
        f"{job.queue}; finish or cancel that one first."
    )
