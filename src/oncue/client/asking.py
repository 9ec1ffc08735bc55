"""What every part of the client needs: to ask, and to read the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

import msgspec

from oncue.client.connection import AnswerLost, Call, Connection, path, query
from oncue.core.cursor import Cursor, Page, every_item
from oncue.core.errors import InvalidInput, NotFound
from oncue.core.moment import from_datetime, render
from oncue.usecases.jobs import possible_id

S = TypeVar("S")
T = TypeVar("T")


class Asking:
    connection: Connection

    @overload
    def _ask(self, request: Call, shape: type[S]) -> S: ...
    @overload
    def _ask(self, request: Call, shape: type[S], value: Callable[[S], T]) -> T: ...
    def _ask(
        self, request: Call, shape: type[S], value: Callable[[S], Any] = lambda body: body
    ) -> Any:
        """What the answer says: the `value` of a body of this shape."""
        return self.connection.value(self.connection.ask(request), shape, value)

    def _listed(self, place: str, shape: type[Any], value: Callable[[Any], T]) -> Iterator[T]:
        """The `value` of every item of a listing, fetched page by page."""

        def page(after: Cursor | None, limit: int) -> Page[T]:
            request = Call("GET", place + query({"limit": limit, "cursor": after}))
            return self._ask(
                request, shape, lambda body: Page(list(map(value, body.items)), body.next_cursor)
            )

        return every_item(page)

    def _delete(self, *segments: str) -> None:
        """A second request would be refused because of the first, so that is no error if the first
        answer was lost."""
        request = Call("DELETE", path(*segments), repeatable=False)
        try:
            self.connection.ask(request)
        except AnswerLost:
            with suppress(NotFound):
                self.connection.ask(request)


def encode(fields: dict[str, Any]) -> bytes:
    """Fields as JSON; those that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        # It would be written as null, which says nothing: a job would be due now, not never.
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput("must be a finite number.", f"/{name}")
    try:
        return msgspec.json.encode(given)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"cannot be written as JSON: {problem}.") from None


def job_path(job_id: str, *more: str) -> str:
    """The path of a job, or of what is below it; `NotFound` if no job can have the id."""
    return path("jobs", possible_id(job_id), *more)


def moment_text(value: datetime | str | None, pointer: str) -> str | None:
    """A time as it is sent; what a text means is for the server to say."""
    return render(from_datetime(value, pointer)) if isinstance(value, datetime) else value


def seconds_of(value: Any) -> Any:
    """A length as it is sent: a number, or ISO 8601."""
    return value.total_seconds() if isinstance(value, timedelta) else value
