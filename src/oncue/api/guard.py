"""Which requests are allowed: by access tokens if there are any, else from this machine only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from oncue.api.problems import HttpProblem
from oncue.api.request import Request
from oncue.core.access import Scope, allows, id_of
from oncue.usecases.tokens import KnownTokens

Tokens = Callable[[str | None], Awaitable[KnownTokens]]
"""The access tokens, recent enough to judge the bearer of this id (None: of no token)."""

EVERYTHING = frozenset(Scope)
SAFE = ("GET", "HEAD", "OPTIONS")
_MISSING = "Send Authorization: Bearer TOKEN with a token made by 'oncue token create'."
_UNKNOWN = "This access token is not known, or was revoked: make one with 'oncue token create'."
_LOCAL = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)


class Guard:
    """`open_to_all`: if the store never had a token, every caller may do everything.
    Only for a server that listens on loopback alone."""

    def __init__(self, tokens: Tokens, *, open_to_all: bool) -> None:
        self._tokens = tokens
        self._open_to_all = open_to_all

    async def require(self, request: Request, wanted: Scope) -> None:
        """Refuse the request if its caller lacks this scope."""
        scopes = await self.scopes(request)
        if scopes is EVERYTHING:
            return
        if not allows(scopes, wanted):
            raise HttpProblem("forbidden", self._lacking(wanted))
        request.may_read = allows(scopes, Scope.READ)

    async def refuse_foreign_page(self, request: Request) -> None:
        """The same without a scope, for a request that proves itself by what is in its body: only a
        request that a page of another site made a browser send is refused."""
        suspect = self._open_to_all and _is_of_foreign_page(request)
        if suspect and self._admits_all(await self._tokens(None)):
            _require_local(request)

    async def scopes(self, request: Request) -> frozenset[Scope]:
        """The caller's scopes. Refuses unknown callers, and requests that a page of another site
        made a browser send."""
        text, token_id = "", None
        if (given := request.header(b"authorization")) is not None:
            kind, _, bearer = given.partition(" ")
            text = bearer.strip() if kind.lower() == "bearer" else ""
            token_id = id_of(text)
        known = await self._tokens(token_id)
        if self._admits_all(known):
            _require_local(request)
            return EVERYTHING
        scopes = None if token_id is None else known.scopes_of(token_id, text)
        if scopes is None:
            raise HttpProblem(
                "unauthenticated",
                _UNKNOWN if text else _MISSING,
                headers={"www-authenticate": 'Bearer realm="oncue"'},
            )
        return scopes

    def _admits_all(self, known: KnownTokens) -> bool:
        return self._open_to_all and not known.closed

    def _lacking(self, wanted: Scope) -> str:
        return (
            f"This token lacks the scope '{wanted.value}'. Make one that has it: "
            f"oncue token create --scope {wanted.value}"
        )


class AdmittedByGateway(Guard):
    """Every caller has the same scopes: a gateway with an authoriser admits nobody else. Access
    tokens have no effect: `Authorization` may be what the gateway has checked."""

    _open_to_all = False

    def __init__(self, scopes: frozenset[Scope]) -> None:
        self._scopes = scopes

    async def scopes(self, request: Request) -> frozenset[Scope]:
        return self._scopes

    def _lacking(self, wanted: Scope) -> str:
        return f"The scope '{wanted.value}' is not one of those in ONCUE_GATEWAY_SCOPES."


def _require_local(request: Request) -> None:
    """A page of another site can make a browser send requests to this server, by a host name that
    resolves to this machine or by a form. `Host` shows the one, `Origin` and `Sec-Fetch-Site` the
    other."""
    if not _LOCAL.fullmatch(request.header(b"host") or ""):
        raise HttpProblem(
            "refused-origin",
            "Without access tokens only localhost, 127.0.0.1 and [::1] are answered as Host. "
            "Make a token with 'oncue token create' to be reachable by other names.",
        )
    if _is_of_foreign_page(request):
        raise HttpProblem(
            "refused-origin",
            "A page of another site may not change anything here: Origin or Sec-Fetch-Site names "
            "one. Make a token with 'oncue token create' if it has to.",
        )


def _is_of_foreign_page(request: Request) -> bool:
    """Whether a page of another site made a browser send this, to change something. Browsers name
    the site in `Origin` with every such request, old ones without `Sec-Fetch-Site`. Another port is
    another site; `null` is a page that hides its own."""
    if request.method in SAFE:
        return False
    if (origin := request.header(b"origin")) is not None:
        here = f"http://{request.header(b'host')}"  # the server does not speak TLS
        if origin.lower() != here.lower():
            return True
    return request.header(b"sec-fetch-site") == "cross-site"
