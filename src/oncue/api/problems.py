"""Errors as RFC 9457 problems: `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue.core import errors
from oncue.core.text import cut
from oncue.wire import problems as wire
from oncue.wire.converting import written
from oncue.wire.jobs import Diagnostic

DETAIL_LIMIT = 1000  # characters; what it quotes is shorter (`core.text.quoted`)
_SOON = {"retry-after": "1"}


class HttpProblem(Exception):
    """An answer that is no success. `kind` is a key of `KINDS` and gives the status, unless another
    is given; `more` are further fields of the problem."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        meaning = wire.KINDS[kind]
        self.headers = headers or {}
        self.fields = wire.Problem(
            type=wire.PREFIX + kind,
            title=meaning.title,
            status=status or meaning.status,
            detail=cut(detail, DETAIL_LIMIT),
            **more,
        )
        """As they are sent."""


def invalid(detail: str, pointer: str = "") -> HttpProblem:
    return of(errors.InvalidInput(detail, pointer))


def stopping() -> HttpProblem:
    return HttpProblem(
        "stopping",
        "The server stopped before it could answer, so it is not known whether the request was "
        "carried out. It can be sent again safely if it has an id or an Idempotency-Key.",
        headers=_SOON,
    )


def of(error: errors.OncueError) -> HttpProblem:
    """The problem that an error is answered with."""
    kind = next(_KIND_OF[one] for one in type(error).__mro__ if one in _KIND_OF)
    more: dict[str, Any] = {}
    match error:
        case errors.InvalidInput():
            detail = cut(error.detail, DETAIL_LIMIT)
            more["errors"] = [wire.FieldProblem(pointer=error.pointer, detail=detail)]
        case errors.Fenced():
            more["diagnostic"] = error.diagnostic and written(Diagnostic, error.diagnostic)
            more |= {"reason": error.reason, "state": error.state.value}
        case errors.IllegalState():
            more["state"] = error.state.value
        case errors.StoreUnusable():
            text = "The store cannot be used as it is. The log of the server tells what to do."
            return HttpProblem(kind, text, headers=_SOON, lasting=True)
        case errors.HeldByOthers():
            return HttpProblem(kind, str(error), headers=_SOON)
        case errors.StoreError():
            # The text of the error may name files of this machine: it goes to the log only.
            text = "The store cannot answer now; nothing was lost. Try again in a moment."
            return HttpProblem(kind, text, headers=_SOON)
    return HttpProblem(
        kind, str(error) if kind != "internal" else "Something went wrong here.", **more
    )


_KIND_OF: dict[type, str] = {
    meaning.error: kind for kind, meaning in wire.KINDS.items() if meaning.error is not None
}
