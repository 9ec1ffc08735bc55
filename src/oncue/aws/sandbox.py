"""A Lambda sandbox: what the invocations of one process share, because it is dear to make.

The first invocation opens the store of `ONCUE_STORE`; those after it find it open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from oncue.core.errors import InvalidInput
from oncue.scheduler import Scheduler

_opening = threading.Lock()
_open: dict[str, Scheduler] = {}
_before_close: list[Callable[[], None]] = []


class Context(Protocol):
    """As much of Lambda's context as handlers use."""

    function_name: str
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


Event = dict[str, Any]


def required(variable: str) -> str:
    """The value of a variable of the environment, without which the function cannot run."""
    value = os.environ.get(variable)
    if not value:
        raise InvalidInput(f"the environment variable {variable} is not set.", f"/{variable}")
    return value


def scheduler() -> Scheduler:
    """The scheduler of this sandbox. Its loops do not run: a sandbox stands still between two
    invocations."""
    url = required("ONCUE_STORE")
    with _opening:
        found = _open.get(url)
        if found is None:
            found = _open[url] = Scheduler(url)
        return found


def before_close(do: Callable[[], None]) -> None:
    """Have this called before the scheduler is closed: something of the sandbox depends on it."""
    _before_close.append(do)


def close() -> None:
    """Give everything back. Lambda never does; tests and local invocations do."""
    while _before_close:
        _before_close.pop()()
    with _opening:
        while _open:
            _open.popitem()[1].close()
