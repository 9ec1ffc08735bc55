"""Routes as tests ask for them: with their open parts filled in."""

from __future__ import annotations

import re

from oncue.api.routing import Route

STREAMED = "/jobs/batch"  # takes bodies of any length and reports line by line


def title(route: Route) -> str:
    return f"{route.method} {route.path}"


def filled(path: str, part: str = "nobody") -> str:
    """The path with every open part given."""
    return re.sub(r"\{\w+\}", part, path)


def takes_body(route: Route) -> bool:
    return route.method in ("POST", "PUT", "PATCH") and route.path != STREAMED
