"""A Lambda sandbox: what the invocations of one process share, because it takes long to make.

The first invocation opens the store of `ONCUE_STORE`; those after it find it open.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from oncue import config, sinks
from oncue.core.errors import InvalidInput, StoreUnusable
from oncue.core.queue import Queue, check_queue_name, default_queue
from oncue.ports.inbox import Inbox, InboxSettings
from oncue.ports.sink import Sink
from oncue.scheduler import Scheduler
from oncue.sinks.shared import SharedSink
from oncue.usecases.queues import change_queue, check_sink

STORE = "ONCUE_STORE"
SINK = "ONCUE_SINK_"
INBOX_SHARDS = "ONCUE_INBOX_SHARDS"

_opening = threading.Lock()
_open: dict[str, Scheduler] = {}
_sinks: dict[str, Sink] = {}
_before_close: list[Callable[[], None]] = []


class Context(Protocol):
    """As much of Lambda's context as handlers use."""

    function_name: str

    def get_remaining_time_in_millis(self) -> int: ...


Event = dict[str, Any]


def store_url() -> str:
    """The store of the function, without which it cannot run."""
    url = os.environ.get(STORE)
    if not url:
        config.refuse_unknown_variables(os.environ)  # perhaps it is there, misspelt
        raise InvalidInput("is not set. Set it to the store, such as dynamodb://TABLE.", STORE)
    return url


def scheduler() -> Scheduler:
    """The scheduler of this sandbox. Its loops do not run: a sandbox stands still between two
    invocations."""
    url = store_url()
    with _opening:
        found = _open.get(url)
        if found is None:
            found = Scheduler(url, event_bounds=config.event_bounds(config.read()))
            try:
                give_settings(found)
            except BaseException:
                found.close()
                raise
            _open[url] = found
        return found


def adopt(url: str, cue: Scheduler, opened: Mapping[str, Sink]) -> None:
    """Have this scheduler as that of the store `url`, with these sinks by their URLs: for
    simulations and tests, which have a clock of their own."""
    with _opening:
        _open[url] = cue
        _sinks.update(opened)


def open_sink(url: str) -> Sink:
    """The sink of a URL, the same each time."""
    clock = scheduler().clock
    with _opening:
        if url not in _sinks:
            _sinks[url] = sinks.open_sink(url, clock)
        return SharedSink(_sinks[url])


def give_settings(cue: Scheduler) -> None:
    """Give the store what the deployment asks for: sinks, and an inbox."""
    _give_sinks(cue)
    shards = os.environ.get(INBOX_SHARDS)
    inbox: Inbox | None = getattr(cue.store, "inbox", None)
    if shards and inbox is not None:
        if not shards.isdecimal():
            raise InvalidInput(f"{shards!r} is not a whole number.", INBOX_SHARDS)
        known = inbox.settings()
        if known is None or known.shards < int(shards):
            inbox.set(InboxSettings(shards=int(shards)), cue.clock.now())


def _give_sinks(cue: Scheduler) -> None:
    """Give queues the sinks that the deployment names: `ONCUE_SINK_SEND_MAIL` is the sink of the
    queue `send-mail`, `send_mail` or `send.mail`, whichever is there, else of `send_mail`."""
    known = {_as_variable(queue.name): queue for queue in cue.queues()}
    for variable, url in os.environ.items():
        if variable.startswith(SINK) and url:
            name = variable.removeprefix(SINK)
            queue = known.get(name.upper())
            queue = queue or default_queue(check_queue_name(name.lower(), variable))
            if queue.sink != url:
                _check_sink(variable, replace(queue, sink=url), cue)
                change_queue(cue.store, queue.name, partial(replace, sink=url))
                cue.policies.forget()


def _check_sink(variable: str, queue: Queue, cue: Scheduler) -> None:
    """Refuse a sink to which jobs would be given in vain."""
    try:
        with suppress(StoreUnusable):  # a function need not have the right to describe the table
            check_sink(queue, cue.store, cue.clock)
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, variable) from None


def _as_variable(queue: str) -> str:
    return re.sub("[^A-Z0-9]", "_", queue.upper())


def before_close(do: Callable[[], None]) -> None:
    """Have this called before the scheduler is closed: something of the sandbox depends on it."""
    _before_close.append(do)


def close() -> None:
    """Give everything back. Lambda never does; tests and local invocations do."""
    while _before_close:
        _before_close.pop()()
    with _opening:
        while _sinks:
            _sinks.popitem()[1].close()
        while _open:
            _open.popitem()[1].close()
