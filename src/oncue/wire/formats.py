"""The bounds of texts and numbers, as JSON Schema. They are checked where the values are used, in
core and by the use cases, whose messages are better than a schema's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from oncue.core import ids
from oncue.core.moment import HORIZON_MS
from oncue.core.text import TEXT_LIMIT

ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$"
NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$"
_N = "[0-9]+(\\.[0-9]+)?"
_TIME = f"T({_N}H({_N}M)?({_N}S)?|{_N}M({_N}S)?|{_N}S)"
DURATION_PATTERN = f"^P({_N}W({_N}D)?({_TIME})?|{_N}D({_TIME})?|{_TIME})$"
MOMENT_PATTERN = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?"
    "([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
JSON_REF = {"$ref": "#/components/schemas/Json"}
NO_NUL = {"pattern": "^[^\\u0000]*$"}
LONGEST = HORIZON_MS // 1000  # seconds


class Body(Struct, forbid_unknown_fields=True):
    """The body of a request: fields it does not know are refused. A class attribute `together` says
    in JSON Schema what its fields must be together."""


class Nothing(Body):
    """An empty object, or no body at all."""


class Answer(Struct, kw_only=True):
    """The body of an answer. A client reads it without the fields that an older server does not
    know, if they have defaults; a server always writes all of them."""


def schema(description: str | None = None, **keywords: Any) -> Meta:
    """What OpenAPI says of a type. Nothing is checked by it."""
    return Meta(description=description, extra_json_schema=keywords)


def any_case(*words: str) -> str:
    """A pattern for these words, in capitals or not."""
    spelt = ("".join(f"[{c.upper()}{c.lower()}]" for c in word) for word in words)
    return f"^({'|'.join(spelt)})$"


JobId = Annotated[
    str,
    schema(
        "1 to 80 letters, digits, `_` or `-`, beginning with a letter or digit.",
        pattern=ID_PATTERN,
        **{"not": {"enum": sorted(ids.RESERVED)}},
    ),
]
AnyJobId = Annotated[str, schema("The id of a job.")]
QueueName = Annotated[
    str,
    schema(
        "1 to 80 letters, digits, `.`, `_` or `-`, beginning with a letter or digit.",
        pattern=NAME_PATTERN,
    ),
]
Label = Annotated[
    str,
    schema(
        "1 to 200 printable characters.",
        format="printable",
        minLength=1,
        maxLength=200,
        pattern="^[^\\u0000-\\u001f\\u007f-\\u00a0]+$",
    ),
]
_LINE = "A line for people, at most 2,000 characters, without NUL."
Line = Annotated[str, schema(_LINE, maxLength=TEXT_LIMIT, **NO_NUL)]
Priority = Annotated[int, schema("Among due jobs, higher runs first.", minimum=0, maximum=9)]
Attempts = Annotated[int, schema("How often it may be tried.", minimum=1, maximum=20)]
Token = Annotated[str, schema("The token that the claim was answered with. Opaque.")]
Moment = Annotated[
    str,
    schema(
        "RFC 3339 with an offset. Finer than a millisecond is rounded up, the past means now, more "
        "than 100 years ahead is refused.",
        format="date-time",
        pattern=MOMENT_PATTERN,
    ),
]
Json = Annotated[Any, schema(**JSON_REF)]

States = Literal["scheduled", "dispatched", "executing", "succeeded", "failed", "cancelled"]
Cursor = Annotated[
    str | None, Meta(description="Send it as `cursor` for the next page; null: there is none.")
]
OperationsCursor = Annotated[
    str,
    Meta(description="Where the operations go on, if these are not all: see `/operations`."),
]
Time = Annotated[str, schema("RFC 3339 in UTC with milliseconds.", format="date-time")]
Instant = Annotated[
    str, schema("Event time: RFC 3339 in UTC with microseconds.", format="date-time")
]

# -- lengths of time -------------------------------------------------------------------------------

_ISO_REF = {"$ref": "#/components/schemas/IsoDuration"}
_Iso = Annotated[str, schema(**_ISO_REF)]
LongerThan0 = Annotated[str, schema(**_ISO_REF, pattern="[1-9]")]
ISO_DURATION: dict[str, Any] = {
    "title": "IsoDuration",
    "description": "ISO 8601 in weeks, days, hours, minutes and seconds, such as PT15M.",
    "type": "string",
    "format": "oncue-duration",
    "pattern": DURATION_PATTERN,
}
Delay = Annotated[float, schema("Seconds.", minimum=0, maximum=LONGEST)] | _Iso
Lease = Annotated[float, schema("Seconds.", minimum=0.001, maximum=LONGEST)] | LongerThan0
Timeout = Annotated[float, schema("Seconds.", exclusiveMinimum=0, maximum=LONGEST)] | LongerThan0
Wait = Annotated[float, schema("Seconds.", minimum=0, maximum=300)] | _Iso
Percent = Annotated[float, Meta(ge=0, le=100, description="How much is done.")]


# -- what two fields must be together, in JSON Schema ----------------------------------------------

_SOME = {"not": {"type": "null"}}


def given(name: str) -> dict[str, Any]:
    """The field is sent, and is not null."""
    return {"required": [name], "properties": {name: _SOME}}


def not_both(one: str, other: str) -> dict[str, Any]:
    return {"not": {"required": [one, other], "properties": {one: _SOME, other: _SOME}}}


def one_of(one: str, other: str) -> dict[str, Any]:
    """One of the two, and only one."""
    return {"oneOf": [given(one), given(other)]}
