"""The API function: requests that come by API Gateway or a function URL, answered by the HTTP
application of `oncue.api`.

The application runs on one event loop for all invocations. A sandbox stands still as soon as an
invocation has ended, so an invocation ends when nothing is under way any more: no write, no release
of jobs, no look at the store. Schedules, dispatchers and other loops do not run here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

from oncue import config
from oncue.api.app import Service
from oncue.api.guard import AdmittedByGateway, Guard
from oncue.api.request import NO_ROUTE, HttpAnswer, Request
from oncue.aws import metrics, sandbox
from oncue.aws.http_event import HttpEvent, as_event, fits
from oncue.core.access import check_scopes
from oncue.core.errors import InvalidInput
from oncue.ports.clock import Clock
from oncue.scheduler import Scheduler
from oncue.usecases.tokens import FRESH_SECONDS, Access, KnownTokens

GATEWAY_SECONDS = 30.0  # an HTTP API waits no longer for its function
MARGIN_SECONDS = 2.0  # from the end of a wait to the answer at the gateway
VARIABLE = "ONCUE_GATEWAY_SCOPES"


def api(event: sandbox.Event, context: sandbox.Context) -> dict[str, Any]:
    """Lambda's handler: answers one request in payload format 2.0."""
    http_event = HttpEvent(event)
    host = _host()
    began = host.clock.monotonic()
    request = http_event.request()
    request.answer_by = began + seconds_to_answer(http_event, context, host.clock)
    answer = host.answer(request)
    milliseconds = round((host.clock.monotonic() - began) * 1000, 2)
    route = f"{request.method} {request.route}" if request.route != NO_ROUTE else NO_ROUTE
    measured = {f"requests_{answer.status // 100}xx": 1, "duration": milliseconds}
    metrics.emit({"route": route}, measured, host.clock.now())
    return as_event(request, answer)


def seconds_to_answer(request: HttpEvent, context: sandbox.Context, clock: Clock) -> float:
    """How long a request may wait: until the function is stopped, or the gateway gives up."""
    left = context.get_remaining_time_in_millis() / 1000
    if not request.is_function_url:
        left = min(left, GATEWAY_SECONDS - _seconds_since(request.sent_at, clock))
    return max(0.0, left - MARGIN_SECONDS)


def _seconds_since(sent_at: int | None, clock: Clock) -> float:
    """What the start of a sandbox has used up of the gateway's time. A time that cannot be right,
    as that of a repeated event, says nothing."""
    seconds = 0.0 if sent_at is None else (clock.now() - sent_at) / 1000
    return seconds if 0.0 < seconds < GATEWAY_SECONDS else 0.0


class HostedService:
    """A service on an event loop of its own, in a thread that stays between invocations. Safe to
    use from many threads."""

    def __init__(self, cue: Scheduler) -> None:
        self.clock = cue.clock
        self._cue = cue
        self._access = Access(cue.store, cue.clock)
        settings = config.read()
        self._service = Service(cue, guard=self._guard(settings["gateway_scopes"]), fits=fits)
        _set_log_level(settings["log_level"])
        self._answering = 0
        self._rested_at = cue.clock.now()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="oncue-gateway", daemon=True
        )
        self._thread.start()

    def answer(self, request: Request) -> HttpAnswer:
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._service.close()
        self._loop.close()

    async def _answer(self, request: Request) -> HttpAnswer:
        self._refresh()
        self._answering += 1
        try:
            answer = await self._service.respond(request)
            assert answer is not None  # nobody leaves: see `Arrived`
            self._service.note(request, answer.status)
            return answer
        finally:
            self._answering -= 1
            if not self._answering:
                await self._service.rest()
                self._rested_at = self.clock.now()

    def _refresh(self) -> None:
        """Forget what was known before a pause. Its age is measured by the monotonic clock, which
        may have stood still with the sandbox."""
        if self.clock.now() - self._rested_at >= FRESH_SECONDS * 1000:
            self._access.forget()
            self._cue.policies.forget()

    def _guard(self, admitted: config.Value) -> Guard:
        if admitted.value is not None:
            names = [name.strip() for name in str(admitted.value).split(",")]
            return AdmittedByGateway(check_scopes(names, VARIABLE))
        if not self._access.configured:
            raise InvalidInput(
                "without an access token, anyone could send requests to this function. Create a "
                "token first ('oncue token create'); or, if an authoriser of the gateway checks "
                f"all callers, set {VARIABLE} to the scopes they have, such as read,write.",
                VARIABLE,
            )
        return Guard(self._known, open_to_all=False)

    async def _known(self, token_id: str | None) -> KnownTokens:
        """Read when they are asked for, and never in the background."""
        return await asyncio.to_thread(self._access.known, token_id)


def _set_log_level(level: config.Value) -> None:
    """If it was given: the log itself is that of Lambda's runtime."""
    if level.origin != "default":
        logging.getLogger("oncue").setLevel(level.value)


_starting = threading.Lock()
_hosts: dict[tuple[int, str | None, str | None], HostedService] = {}


def _host() -> HostedService:
    """That of this sandbox, and of this process: a forked child has no thread of its parent."""
    cue = sandbox.scheduler()
    settings = os.getpid(), os.environ.get("ONCUE_STORE"), os.environ.get(VARIABLE)
    with _starting:
        found = _hosts.get(settings)
        if found is None:
            found = HostedService(cue)
            if not _hosts:
                sandbox.before_close(_close)
            _hosts[settings] = found
        return found


def _close() -> None:
    with _starting:
        while _hosts:
            (process, *_), host = _hosts.popitem()
            if process == os.getpid():
                host.close()
