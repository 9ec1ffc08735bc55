"""The application: finds the route, checks who asks, runs it, logs and counts it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from oncue.aio import AsyncScheduler
from oncue.api import problems
from oncue.api.callers import Callers
from oncue.api.guard import Guard
from oncue.api.problems import HttpProblem
from oncue.api.publishing import Publishing
from oncue.api.request import Gone, HttpAnswer, Request, problem_answer
from oncue.api.routes import ROUTES
from oncue.api.routing import Router
from oncue.api.waiting import Waiting
from oncue.core.errors import OncueError, StoreError
from oncue.scheduler import Scheduler

READERS = 4  # threads that read the store; as many as it keeps connections for
P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("oncue.http")


class _Threads(ThreadPoolExecutor):
    async def run(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method off the loop's thread."""
        call = partial(method, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self, call)


class Service:
    """One for each event loop. `open_to_all`: see `Guard`; a `guard` of the host's own takes its
    place. `fits`: whether the host can send an answer with this body."""

    def __init__(
        self,
        cue: Scheduler,
        *,
        open_to_all: bool = False,
        guard: Guard | None = None,
        fits: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.cue = cue
        self.clock = cue.clock
        self.acue = AsyncScheduler(cue)
        self.waiting = Waiting(self.acue)
        self.ending = asyncio.Event()
        self.router = Router(ROUTES)
        access = _Threads(1, "oncue-http-access")
        self._callers = Callers(cue.store, cue.clock, access)
        self.guard = guard or Guard(self._callers.known, open_to_all=open_to_all)
        self._fits = fits
        readers = _Threads(READERS, "oncue-http-reader")
        self.read = readers.run
        """Run a method that only reads."""
        intake = _Threads(1, "oncue-http-intake")
        self.take_in = intake.run
        """Run a method that takes in a block of many jobs. One thread: batches take turns block by
        block, and leave the interpreter to the loop."""
        bulk = _Threads(1, "oncue-http-bulk")
        self.change = bulk.run
        """Run a part of a bulk verb. One thread: bulk verbs take turns part by part, so that all of
        them leave as much room as one, and none waits for another to end."""
        publishers = _Threads(2, "oncue-http-publisher")  # see `Publishing`
        self.publish = Publishing(cue, publishers).publish
        """Publish an event or a list, together with those of other requests."""
        self._threads = (access, readers, intake, bulk, publishers)

    def drain(self) -> None:
        """Answer all requests that wait for work: the server is about to end."""
        self.ending.set()
        self.waiting.close()
        self._callers.close()

    def close(self) -> None:
        self.waiting.close()
        self._callers.close()
        for threads in self._threads:
            threads.shutdown()

    async def rest(self) -> None:
        """When no request is being answered: wait until nothing is under way. The process may then
        stand still until the next request, if it has a `guard` of its own: access tokens are read
        in the background otherwise."""
        await self.waiting.rest()

    async def respond(self, request: Request) -> HttpAnswer | None:
        """The answer to a request; None: the client left before it was complete, or does not
        receive what it was to be given. The host then sends the answer and calls `note`."""
        request.began = self.clock.monotonic()
        try:
            route = self.router.find(request)
            request.route = route.path
            if route.scope is not None:
                await self.guard.require(request, route.scope)
            elif route.claim:
                await self.guard.refuse_foreign_page(request)
            request.read_query(route.query)
            answer = await route.run(self, request)
        except Gone:
            return None
        except asyncio.CancelledError:  # only the end of the server cuts a request short
            answer = problem_answer(problems.stopping())
        except Exception as error:
            answer = problem_answer(problem_of(error, request))
        if self._fits is not None and not self._fits(answer.body):
            answer = _too_large(answer)
        if answer.unread is not None and request.has_left():
            answer.unread()
            return None
        return answer

    def note(self, request: Request, status: int) -> None:
        """Count and log a request that was answered."""
        seconds = self.clock.monotonic() - request.began
        self.cue.telemetry.request(request.route, request.method, status, seconds)
        if logger.isEnabledFor(logging.INFO):
            _log(request, status, seconds)


def _too_large(answer: HttpAnswer) -> HttpAnswer:
    """Instead of an answer that the host cannot send."""
    if answer.unread is not None:
        answer.unread()
    text = (
        f"The answer has {len(answer.body):,} bytes, which is more than can be sent here. Ask for "
        "less at once: most requests have a `limit`."
    )
    return problem_answer(HttpProblem("too-large", text))


def problem_of(error: Exception, request: Request) -> HttpProblem:
    """The problem for the caller; details that the caller must not see go to the log."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, StoreError):
        logger.error("%s: %s", request.id, error, extra={"request_id": request.id})
    return problems.of(error) if isinstance(error, OncueError) else _crashed(error, request)


def _crashed(error: Exception, request: Request) -> HttpProblem:
    """A defect here: the place is logged, without the text, which may quote a payload."""
    place = "".join(traceback.format_tb(error.__traceback__))
    logger.error(
        "request %s: %s at\n%s",
        request.id,
        type(error).__name__,
        place,
        extra={"request_id": request.id},
    )
    return HttpProblem(
        "internal",
        f"Something went wrong here; the log tells more about request {request.id}.",
        request_id=request.id,
    )


def _log(request: Request, status: int, seconds: float) -> None:
    named = {"request_id": request.id, "method": request.method, "path": request.path}
    extra = {**named, "status": status, "ms": round(seconds * 1000, 2), "job_id": request.job_id}
    logger.info(
        "%s %s %d in %.1f ms", request.method, request.path, status, seconds * 1000, extra=extra
    )
