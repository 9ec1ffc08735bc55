"""Who may call which route: the table in docs/security.md, made from the routes.

python -m tests.http.scopes     writes it into the page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from oncue.core.access import Scope
from tests.http.routes import title

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
MARKS = ("<!-- begin: table of scopes -->\n", "<!-- end: table of scopes -->\n")
NOBODY = "nobody"
CALLERS = (NOBODY, *(str(scope) for scope in Scope))
"""Who calls: without an access token, and with one that has a single scope."""
OPEN = frozenset(
    {
        *("GET /livez", "GET /readyz", "GET /problems/{kind}", "GET /openapi.json"),
        *("GET /", "GET /docs", "GET /docs/style.css", "GET /docs/script.js"),
    }
)
"""Routes that everybody may call. They are listed here, so that a route without a scope is a
decision and not an oversight."""
ANY_TOKEN = "GET /access"  # says what the token allows


def wanted(route: Route) -> Scope | None:
    """The scope that a caller needs; None: any access token will do. Not for `OPEN` routes."""
    if route.claim:  # without the token of a claim
        return Scope.WORK
    if route.scope is None and title(route) != ANY_TOKEN:
        raise AssertionError(f"{title(route)} has no scope: give it one, or list it as open")
    return route.scope


def refusal(route: Route, who: str) -> int | None:
    """The status with which this caller is refused; None: the caller is let in."""
    if title(route) in OPEN:
        return None
    if who == NOBODY:
        return 401
    scope = wanted(route)
    return None if scope is None or who in (scope, Scope.ADMIN) else 403


def table() -> str:
    rows = [("request", *CALLERS), ("---",) * (1 + len(CALLERS)), *_rows()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows() -> Iterator[tuple[str, ...]]:
    for route in ROUTES:
        claim = " ¹" if route.claim else ""
        yes_or_status = [str(refusal(route, who) or "yes") for who in CALLERS]
        yield f"`{title(route)}`{claim}", *yes_or_status


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return before + MARKS[0] + "\n" + table() + "\n" + MARKS[1] + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
