"""Which requests are allowed: by access tokens if there are any, else from this machine only."""

from __future__ import annotations

import re

from oncue.api.problems import HttpProblem
from oncue.api.request import Request
from oncue.core.access import Scope, allows
from oncue.core.errors import StoreError
from oncue.usecases.tokens import Access

EVERYTHING = frozenset(Scope)
SAFE = ("GET", "HEAD", "OPTIONS")
_LOCAL = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)


class Guard:
    """`open_to_all`: while no token is configured, every caller may do everything.
    Only for a server that listens on loopback alone."""

    def __init__(self, access: Access, *, open_to_all: bool) -> None:
        self._access = access
        self._open_to_all = open_to_all

    def admit(self, request: Request, scope: Scope | None) -> None:
        """Set the request's scopes; refuse it if it needs a scope that they lack."""
        try:
            request.scopes = self.scopes(request)
        except StoreError:
            if scope is not None:
                raise
        if scope is not None:
            require(request.scopes, scope)

    def scopes(self, request: Request) -> frozenset[Scope] | None:
        """The caller's scopes; None: it is unknown. Refuses requests that a page of another site
        made a browser send."""
        if self._open_to_all and not self._access.configured:
            _require_local(request)
            return EVERYTHING
        kind, _, bearer = (request.header(b"authorization") or "").partition(" ")
        if kind.lower() != "bearer":
            return None
        return self._access.scopes_of(bearer.strip())


def identified(scopes: frozenset[Scope] | None) -> frozenset[Scope]:
    """The scopes of a known caller."""
    if scopes is None:
        raise HttpProblem(
            "unauthenticated",
            "Send Authorization: Bearer TOKEN with a token made by 'oncue token create'.",
            headers={"www-authenticate": 'Bearer realm="oncue"'},
        )
    return scopes


def require(scopes: frozenset[Scope] | None, wanted: Scope) -> None:
    if not allows(identified(scopes), wanted):
        raise HttpProblem(
            "forbidden",
            f"This token lacks the scope '{wanted.value}'. Make one that has it: "
            f"oncue token create --scope {wanted.value}",
        )


def _require_local(request: Request) -> None:
    """A page of another site can make a browser send requests to this server, by a host name that
    resolves to this machine or by a form. `Host` and `Sec-Fetch-Site` show both."""
    if not _LOCAL.fullmatch(request.header(b"host") or ""):
        raise HttpProblem(
            "refused-origin",
            "Without access tokens only localhost, 127.0.0.1 and [::1] are answered as Host. "
            "Make a token with 'oncue token create' to be reachable by other names.",
        )
    if request.method not in SAFE and request.header(b"sec-fetch-site") == "cross-site":
        raise HttpProblem("refused-origin", "A page of another site may not change anything here.")
