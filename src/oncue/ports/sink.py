"""The sink: the adapter to a queue's technology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from oncue.core.errors import InvalidInput
from oncue.core.job import Delivery


class Refusal(NamedTuple):
    """Why the sink did not take one job of a batch."""

    detail: str
    permanent: bool
    """True: the job can never be taken, it fails. False: passing trouble of this job, it is put off
    with a growing delay of its own, and no attempt is used up. Trouble of the sink itself is raised
    instead."""


class SinkTraits(NamedTuple):
    """How a sink is to be used. It is the sink's attribute `traits`; one without it has these."""

    ahead_seconds: float = 0.0
    """How long before its due time it may be given a job: it hands the job over when it is due."""
    in_order: bool = False
    """It keeps the order of the jobs, so it is given one batch at a time."""
    mark: str = ""
    """The names of its dispatchers begin with it, so that jobs that were given to it are known."""
    is_elsewhere: bool = False
    """Another program has it: no dispatcher for its queue runs here."""


def traits_of(sink: Sink) -> SinkTraits:
    traits: SinkTraits = getattr(sink, "traits", SinkTraits())
    return traits


class PayloadBounds(Protocol):
    """Which payloads a sink takes. It is asked before a job is stored."""

    def problem(self, payload: bytes) -> InvalidInput | None:
        """Why it would not take a job with this payload; None: it would."""


class Sink(Protocol):
    """Hands jobs over. Never touches the store."""

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        """Hand the batch over, in order, and answer with the exceptions only: position → why.

        An empty answer means that all were taken for good. Raise `SinkDown` when nothing was taken
        (unreachable, throttled, credentials expired); if that happened in the middle of the batch,
        with what was not taken. Whatever else is raised, also `SystemExit` or
        `asyncio.CancelledError`, is taken for the same, and so is an answer that is not such a
        mapping: the batch is delivered again. A crash in here repeats the whole batch, so
        receivers must recognise the same id and attempt.
        """

    def close(self) -> None:
        """Give back what the sink holds. No delivery follows."""
