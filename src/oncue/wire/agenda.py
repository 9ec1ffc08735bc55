"""A job as an AgendaProgress, the form that reclaimers made for other systems read and write."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Raw, field

from oncue.core.job import DIAGNOSTICS_KEPT, Operation
from oncue.core.text import TEXT_LIMIT
from oncue.wire import formats
from oncue.wire.converting import written
from oncue.wire.formats import JSON_REF, NO_NUL, Answer, Body, Time, any_case, schema

EVENTS_AT_ONCE = 20
STATES_WRITTEN = ("WAITING", "EXECUTING", "COMPLETE")
OUTCOMES_WRITTEN = ("succeeded", "failed")
_Rfc3339 = Annotated[str, schema(format="date-time", pattern=formats.MOMENT_PATTERN)]
Event = Annotated[
    dict[str, Any],
    schema(
        "Those that are new are kept.",
        required=["message"],
        properties={
            "message": {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT, **NO_NUL},
            "code": {"type": "string", "pattern": "^[a-z_]{1,40}$"},
        },
        additionalProperties=JSON_REF,
    ),
]


class AgendaProgressWrite(Body):
    """The new state of the job. Fields that only the server sets are ignored."""

    processingState: Annotated[str, schema(pattern=any_case(*STATES_WRITTEN))]
    """WAITING, EXECUTING or COMPLETE, in capitals or not."""
    processingStateMessage: formats.Line | None = None
    """With COMPLETE: `succeeded` or `failed`, in capitals or not."""
    updatedTime: _Rfc3339 | int | None = None
    """As it was answered, or in milliseconds since 1970. Or send `If-Match`."""
    diagnosticEvents: Annotated[
        list[Event], Meta(max_length=2 * DIAGNOSTICS_KEPT + EVENTS_AT_ONCE)
    ] = field(default_factory=list)
    id: formats.AnyJobId | None = None
    attemptsCompleted: Any = None
    maximumAttempts: Any = None
    operationProgress: Any = None
    together: ClassVar = {
        "if": {"properties": {"processingState": {"pattern": any_case("COMPLETE")}}},
        "then": {
            "required": ["processingStateMessage"],
            "properties": {
                "processingStateMessage": {
                    "type": "string",
                    "pattern": any_case(*OUTCOMES_WRITTEN),
                }
            },
        },
    }


class OperationProgress(Answer, rename="camel"):
    """One step of the job."""

    name: str
    processing_state: Literal["EXECUTING", "COMPLETE"]
    processing_state_message: str | None
    percent: float | None
    message: str | None
    result: Raw
    updated_at: Time = field(name="updatedTime")

    @classmethod
    def of(cls, one: Operation) -> OperationProgress:
        over = one.state != "executing"
        return written(
            cls,
            one,
            processing_state="COMPLETE" if over else "EXECUTING",
            processing_state_message=one.state if over else one.message,
        )


class DiagnosticEvent(Answer):
    """A recorded fact."""

    at: Time = field(name="time")
    code: str
    detail: str = field(name="message")
    attempt: int
    facts: dict[str, Any] = field(name="details")


class AgendaProgress(Answer, rename="camel"):
    """A job, as reclaimers made for other systems see it."""

    id: str
    processing_state: Literal["WAITING", "DEQUEUED", "EXECUTING", "COMPLETE"]
    processing_state_message: str | None
    updated_at: Time = field(name="updatedTime")
    attempts_completed: int
    maximum_attempts: int
    operations: list[OperationProgress] = field(name="operationProgress")
    diagnostics: list[DiagnosticEvent] = field(name="diagnosticEvents")
