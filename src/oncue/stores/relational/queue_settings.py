"""The settings of a queue as one text of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from oncue.core.queue import Queue, RetryPolicy, default_queue

UNSET = "{}"
"""Of a queue that was never set: it follows the defaults."""


def write_settings(queue: Queue) -> str:
    values = asdict(queue)
    del values["name"], values["paused"]
    return json.dumps(values)


def read_queue(name: str, settings: str, paused: bool) -> Queue:
    values = json.loads(settings)
    if not values:
        queue = default_queue(name)
        return replace(queue, paused=True) if paused else queue
    if "retry" in values:
        values["retry"] = RetryPolicy(**values["retry"]).bounded()
    return Queue(name=name, paused=bool(paused), **values)
