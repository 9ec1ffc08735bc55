"""What a reclaim run is asked for, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, NamedTuple

from oncue.core.checks import flag, is_number, printable, whole
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State

LONGEST_RUN_SECONDS = 3_600
OLDEST_MINUTES = 52_560_000  # a hundred years
LONGEST_DELAY_MILLIS = 60_000
LARGEST_PAGE = 10_000
FINDINGS_KEPT = 1_000

NUMBERS = {"maximum_execution_seconds": LONGEST_RUN_SECONDS, "reclaim_age_minutes": OLDEST_MINUTES}
"""Parameters from 0 to at most this."""
WHOLE_NUMBERS = {
    "scan_delay_millis": (0, LONGEST_DELAY_MILLIS),
    "target_batch_size": (1, LARGEST_PAGE),
    "object_scan_limit": (1, LARGEST_PAGE),
}
FIELD_NAMES = ("id_field_name", "time_field_name", "state_field_name", "claim_time_field_name")
FOREIGN = ("table_name", *FIELD_NAMES, "agenda_progress_endpoint_url")
STATE_FIELD = "ProcessingState"
_TABLE = re.compile(
    r"(arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/)?[A-Za-z0-9_.-]{3,255}", re.ASCII
)
_LONGEST_NAME = 255

Decision = Literal["retry", "fail", "cancel"]


@dataclass(frozen=True, slots=True)
class ReclaimParameters:
    """The parameters of a reclaim run. Those from `table_name` on are for tables of other systems,
    and are ignored on oncue's own store."""

    maximum_execution_seconds: float = 60
    reclaim_age_minutes: float = 0
    scan_delay_millis: int = 0
    target_batch_size: int = 50
    object_scan_limit: int = 50
    log_reclaim_only: bool = False
    mode: str = "retry"
    table_name: str | None = None
    id_field_name: str | None = None
    time_field_name: str | None = None
    state_field_name: str | None = None
    claim_time_field_name: str | None = None
    agenda_progress_endpoint_url: str | None = None

    def __post_init__(self) -> None:
        for name, most in NUMBERS.items():
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= most:
                raise InvalidInput(f"must be a number from 0 to {most:,}.", f"/{name}")
        for name, bounds in WHOLE_NUMBERS.items():
            whole(getattr(self, name), *bounds, f"/{name}")
        flag(self.log_reclaim_only, "/log_reclaim_only")
        if self.mode not in ("retry", "fail"):
            raise InvalidInput("must be 'retry' or 'fail'.", "/mode")
        for name in FOREIGN:
            if not isinstance(getattr(self, name), str | None):
                raise InvalidInput("must be text.", f"/{name}")

    @property
    def age_ms(self) -> int:
        return round(self.reclaim_age_minutes * 60_000)

    @property
    def is_foreign(self) -> bool:
        """Whether they name a table of another system, or a field of one."""
        return any(getattr(self, name) is not None for name in ("table_name", *FIELD_NAMES))


class ForeignTable(NamedTuple):
    """A DynamoDB table of another system: its name, and those of the fields that a run reads."""

    name: str
    id: str
    time: str
    state: str = STATE_FIELD
    claim_time: str | None = None


def foreign_table(parameters: ReclaimParameters) -> ForeignTable:
    """The table that the parameters name; refuses them if they do not say enough."""
    for name in ("table_name", "id_field_name", "time_field_name"):
        if getattr(parameters, name) is None:
            raise InvalidInput("is required for a table of another system.", f"/{name}")
    if not _TABLE.fullmatch(str(parameters.table_name)):
        raise InvalidInput(
            "cannot be the name of a DynamoDB table: three or more letters, digits, '-', '_' and "
            "'.', or the ARN of a table.",
            "/table_name",
        )
    for name in FIELD_NAMES:
        if getattr(parameters, name) is not None:
            printable(getattr(parameters, name), _LONGEST_NAME, f"/{name}")
    return ForeignTable(
        str(parameters.table_name),
        str(parameters.id_field_name),
        str(parameters.time_field_name),
        parameters.state_field_name or STATE_FIELD,
        parameters.claim_time_field_name,
    )


NAMES = tuple(field.name for field in fields(ReclaimParameters))


def parameters(given: Mapping[str, Any]) -> ReclaimParameters:
    """From arguments by name."""
    for name in given:
        if name not in NAMES:
            raise InvalidInput(
                f"there is no such parameter; known are {', '.join(NAMES)}.", f"/{name}"
            )
    return ReclaimParameters(**given)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim that a run would take away, and why. In a table of another system it is a record,
    and `queue` is the name of the table."""

    id: str
    queue: str
    state: State
    attempt: int
    worker: str | None
    updated_at: datetime
    age_seconds: float
    decision: Decision
    code: str
    why: str


@dataclass(slots=True)
class ReclaimReport:
    """What a run has done so far."""

    scanned: int = 0
    """Claims that were looked at: those old enough, and those from the future."""
    retried: int = 0
    failed: int = 0
    cancelled: int = 0
    lost_races: int = 0
    """Claims that moved on between the look and the write; they were left alone."""
    anomalies: int = 0
    """Claims whose last update lies in the future; they were left alone. In a table of another
    system also records whose id or time cannot be read."""
    errors: int | None = None
    """In a table of another system: records that could not be read or written. Else None."""
    would_reclaim: list[Candidate] | None = None
    """With `log_reclaim_only`, the first thousand; else None."""
    would_reclaim_count: int = 0
    warnings: list[str] = field(default_factory=list)
    ended_by: Literal["end", "time"] = "end"

    @property
    def reclaimed(self) -> int:
        return self.retried + self.failed + self.cancelled
