"""oncue on AWS: the Lambda handlers, what a load costs there, and what is deployed.

A handler is a plain function of an event and a context, such as `oncue.aws.dispatch`. It is
imported when it is asked for, so that each Lambda function loads only what it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

HANDLERS = {
    "api": "oncue.aws.gateway",
    "dispatch": "oncue.aws.ticks",
    "forward_started": "oncue.aws.streams",
    "reclaim": "oncue.aws.foreign",
    "start_scheduled_tasks": "oncue.aws.starting",
}
"""The module of each handler. No module has the name of a handler: importing it would hide it."""


def __getattr__(name: str) -> Any:
    if name in HANDLERS:
        return getattr(import_module(HANDLERS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
