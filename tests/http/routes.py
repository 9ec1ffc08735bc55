"""The operation table, made askable: every route with its open parts filled in."""

from __future__ import annotations

import re

from oncue.api.operations import OPERATIONS
from oncue.api.routing import Operation

ROUTES = list(OPERATIONS)
STREAMED = "/jobs/batch"  # takes bodies of any length and reports line by line


def title(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def filled(path: str, part: str = "nobody") -> str:
    """The path with every open part given."""
    return re.sub(r"\{\w+\}", part, path)


def takes_body(operation: Operation) -> bool:
    return operation.method in ("POST", "PUT", "PATCH") and operation.path != STREAMED
