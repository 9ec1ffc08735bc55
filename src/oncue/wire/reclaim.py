"""A reclaim run as JSON: its parameters and its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field, structs

from oncue.core import reclaim as core
from oncue.core.errors import InvalidInput
from oncue.core.text import escaped
from oncue.wire.converting import read, written
from oncue.wire.formats import Answer, Body, Time, schema

NAME_SHOWN = 80  # characters of an unknown name


def camel(name: str) -> str:
    """`scan_delay_millis` → `scanDelayMillis`; URL stays in capitals."""
    first, *others = name.split("_")
    return first + "".join("URL" if word == "url" else word.capitalize() for word in others)


class ReclaimParameters(Body, rename=camel, omit_defaults=True):
    """Parameters of a reclaim run; of a repeated one the last counts. Those about a table are for
    tables of others, and ignored here."""

    maximum_execution_seconds: Annotated[
        float, schema(minimum=0, maximum=core.LONGEST_RUN_SECONDS)
    ] = 60
    """A soft limit, checked between batches. 0: look, and reclaim nothing."""
    reclaim_age_minutes: Annotated[float, schema(minimum=0, maximum=core.OLDEST_MINUTES)] = 0
    """Reclaim claims without a heartbeat for longer than this. 0: since the run began."""
    scan_delay_millis: Annotated[int, schema(minimum=0, maximum=core.LONGEST_DELAY_MILLIS)] = 0
    """The pause between pages."""
    target_batch_size: Annotated[int, schema(minimum=1, maximum=core.LARGEST_PAGE)] = 50
    """Claims gathered before any is reclaimed."""
    object_scan_limit: Annotated[int, schema(minimum=1, maximum=core.LARGEST_PAGE)] = 50
    """Claims per page."""
    log_reclaim_only: bool = False
    """Decide and report, but write nothing."""
    mode: Literal["retry", "fail"] = "retry"
    """`fail`: the job is not tried again, even if attempts remain."""
    table_name: str | None = None
    id_field_name: str | None = None
    time_field_name: str | None = None
    state_field_name: str | None = None
    claim_time_field_name: str | None = None
    agenda_progress_endpoint_url: str | None = None


PARAMETERS = {one.encode_name: one.name for one in structs.fields(ReclaimParameters)}


def parameters(body: Any) -> core.ReclaimParameters:
    """From the fields of a JSON object; an error names the field as JSON has it."""
    if not isinstance(body, Mapping):
        raise InvalidInput("the parameters are a JSON object.")
    given: dict[str, Any] = {}
    for name, value in body.items():
        if name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            place = f"/{escaped(str(name)[:NAME_SHOWN])}"
            raise InvalidInput(f"there is no such parameter; known are {known}.", place)
        given[PARAMETERS[name]] = value
    with _names_of_json():
        return core.parameters(given)


def foreign_table(parameters: core.ReclaimParameters) -> core.ForeignTable:
    """As in core; an error names the field as JSON has it."""
    with _names_of_json():
        return core.foreign_table(parameters)


@contextmanager
def _names_of_json() -> Iterator[None]:
    try:
        yield
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, "/" + camel(problem.pointer[1:])) from None


class WouldReclaim(Answer, rename="camel"):
    """A claim that would be reclaimed, and why."""

    id: str
    queue: str
    state: Literal["dispatched", "executing", "failed"]
    """`failed` only in a table of another system."""
    attempt: int
    worker: str | None
    updated_at: Time = field(name="updatedTime")
    age_seconds: float
    decision: Literal["retry", "fail", "cancel"]
    code: str
    why: str


class ReclaimReport(Answer, kw_only=True, rename="camel"):
    """What a run did; `reclaimed` is the sum of the three below it."""

    scanned: int
    reclaimed: int
    retried: int
    failed: int
    cancelled: int
    lost_races: int
    """Claims that ended or sent a heartbeat between the read and the write; not changed."""
    anomalies: int
    """Claims last updated in the future, because some clock was wrong; not changed."""
    warnings: list[str]
    ended_by: Literal["end", "time"]
    errors: int | UnsetType = UNSET
    """Only of a table of another system: records that could not be read or written."""
    would_reclaim: list[WouldReclaim] | UnsetType = UNSET
    """With `logReclaimOnly`, the first 1,000."""
    would_reclaim_count: int | UnsetType = UNSET

    @classmethod
    def of(cls, report: core.ReclaimReport) -> ReclaimReport:
        only = {} if report.would_reclaim is not None else {"would_reclaim_count": UNSET}
        return written(cls, report, **only)

    def read(self) -> core.ReclaimReport:
        return read(core.ReclaimReport, self, would_reclaim_count=self.would_reclaim_count or 0)
