"""Waiting for what a running server is about to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

LOOKS = 600
REST_SECONDS = 0.05
_NEVER = threading.Event()
T = TypeVar("T")


def until(look: Callable[[], T]) -> T:
    """Look again and again until there is something to see, and return it. Gives up once nothing
    has been seen for far longer than it can take."""
    for _ in range(LOOKS):
        if seen := look():
            return seen
        _NEVER.wait(REST_SECONDS)
    raise AssertionError("it did not happen")
