"""Values of core become Structs of the wire and come back as they were."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Raw, UnsetType

from oncue.core.job import Attempt, Diagnostic, Operation
from oncue.core.lifecycle import State
from oncue.wire.converting import NULL, read, written
from oncue.wire.formats import Answer, Instant, Time

AT = datetime(2026, 12, 1, 12, 0, 0, 250_000, tzinfo=UTC)
MS = 1_796_126_400_250


class WireAttempt(Answer):
    attempt: int
    epoch: int
    claimed_at: Time
    worker: str | None
    outcome: str | None
    ended_at: Time | None


class WireOperation(Answer):
    name: str
    state: Literal["executing", "succeeded", "failed"]
    updated_at: Time
    percent: float | None = None
    message: str | None = None
    result: Raw = NULL


class Inner(NamedTuple):
    at: int
    attempts: tuple[Attempt, ...]


class WireInner(Answer):
    at: Time
    attempts: list[WireAttempt]


class Numbered(NamedTuple):
    attempt: int


class Thing(NamedTuple):
    name: str
    state: State
    payload_json: bytes
    result_json: bytes | None
    due_at: datetime
    instant: int | None
    inner: Inner | None = None
    here_only: int = 7


class WireThing(Answer):
    name: str
    state: Literal["scheduled", "succeeded"]
    payload: Raw
    result: Raw
    due_at: Time
    instant: Instant | None
    inner: WireInner | None = None
    token: str = ""


ATTEMPT = Attempt(2, 3, AT, "w", None, None)
THING = Thing("a", State.SUCCEEDED, b"null", None, AT, MS * 1000 + 5, Inner(MS, (ATTEMPT,)))


def test_every_kind_of_field_is_written() -> None:
    assert written(WireThing, THING, token="t") == WireThing(
        name="a",
        state="succeeded",
        payload=Raw(b"null"),
        result=NULL,
        due_at="2026-12-01T12:00:00.250Z",
        instant="2026-12-01T12:00:00.250005Z",
        inner=WireInner(
            at="2026-12-01T12:00:00.250Z",
            attempts=[
                WireAttempt(
                    attempt=2,
                    epoch=3,
                    claimed_at="2026-12-01T12:00:00.250Z",
                    worker="w",
                    outcome=None,
                    ended_at=None,
                )
            ],
        ),
        token="t",
    )


def test_what_was_written_is_read_as_it_was() -> None:
    assert read(Thing, written(WireThing, THING)) == THING
    assert read(Thing, written(WireThing, THING)).state is State.SUCCEEDED


def test_what_is_empty_stays_empty() -> None:
    empty = THING._replace(instant=None, inner=None)
    assert read(Thing, written(WireThing, empty)) == empty


def test_fields_that_the_other_side_does_not_have_are_given() -> None:
    assert read(Thing, written(WireThing, THING), here_only=8).here_only == 8


def test_a_field_that_several_values_have_is_that_of_the_last() -> None:
    made = written(WireAttempt, ATTEMPT, Numbered(3), None, worker="mine")
    assert (made.attempt, made.claimed_at, made.worker) == (3, "2026-12-01T12:00:00.250Z", "mine")


def test_dataclasses_are_values_too() -> None:
    operation = Operation("charge", "succeeded", AT, 50.0, None, b"[1]")
    assert read(Operation, written(WireOperation, operation)) == operation
    assert read(Attempt, written(WireAttempt, ATTEMPT)) == ATTEMPT


class WireAside(Answer):
    at: Annotated[Time, Meta(description="When.")]
    why: str | UnsetType = UNSET


class Aside(NamedTuple):
    at: int
    why: str | None


def test_none_is_unset_where_that_is_allowed() -> None:
    body = WireAside(at="2026-12-01T12:00:00.250Z", why=UNSET)
    assert written(WireAside, Aside(MS, None)) == body
    assert read(Aside, body) == Aside(MS, None)
    assert read(Aside, written(WireAside, Aside(MS, "so"))) == Aside(MS, "so")


class WireOwner(Answer):
    """Has fields of its own way."""

    length: int

    @classmethod
    def of(cls, inner: Inner) -> WireOwner:
        return cls(length=inner.at)

    def read(self) -> Inner:
        return Inner(self.length, ())


class WireOwners(Answer):
    first: WireOwner | None
    rest: list[WireOwner]


class Owners(NamedTuple):
    first: Inner | None
    rest: tuple[Inner, ...]


def test_a_struct_may_say_itself_how_it_is_converted() -> None:
    owners = Owners(Inner(1, ()), (Inner(2, ()), Inner(3, ())))
    body = WireOwners(first=WireOwner(length=1), rest=[WireOwner(length=2), WireOwner(length=3)])
    assert written(WireOwners, owners) == body
    assert read(Owners, body) == owners
    assert read(Owners, written(WireOwners, owners._replace(first=None))).first is None


class WireDiagnostic(Answer):
    at: Time
    code: str
    detail: str
    attempt: int
    epoch: int
    facts: dict[str, object]


def test_facts_are_left_as_they_are() -> None:
    diagnostic = Diagnostic(AT, "failure", "It failed.", 1, 1, {"worker": "w", "deep": [1, {}]})
    assert read(Diagnostic, written(WireDiagnostic, diagnostic)) == diagnostic
