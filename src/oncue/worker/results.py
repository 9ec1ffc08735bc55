"""Results of handlers: as JSON, and written again while the store or the server is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from oncue.core import payload as payloads
from oncue.core.errors import InvalidInput, NonRetryable
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock
from oncue.worker.source import AWAY

T = TypeVar("T")
INSIST_SECONDS = 300.0
PAUSE_SECONDS = 0.25
CUT_OFF_TIMES = 3  # that use no attempt of a job; the next one does
CUT_OFF_NOTED = 1000  # jobs whose times are counted

logger = logging.getLogger("oncue.worker")


class Results:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarm = Alarm(clock)  # not stopped with the worker: the last results are written then
        self._cut_off: dict[str, int] = {}  # how often, by job

    def costs_attempt(self, job_id: str) -> bool:
        """Whether an attempt is used if a job was cut off from the store. Mostly the job is not the
        cause, so the first times use none. A handler that ends its connection each time must still
        come to its last attempt."""
        times = self._cut_off.pop(job_id, 0)
        if times == CUT_OFF_TIMES:
            return True
        if len(self._cut_off) >= CUT_OFF_NOTED:
            self._cut_off.clear()
        self._cut_off[job_id] = times + 1
        return False

    def hurry(self) -> None:
        """From now on nothing is tried again: there is no time left."""
        self._alarm.stop()

    def insist(self, write: Callable[[], T], in_vain: Callable[[], bool] = lambda: False) -> T:
        """Call `write` again while the store or the server is away: the work is done and should not
        be lost. At most for five minutes, and not once it is `in_vain`."""
        ends = self._clock.monotonic() + INSIST_SECONDS
        troubled = False
        while True:
            try:
                answer = write()
            except AWAY as trouble:
                if self._alarm.stopped or self._clock.monotonic() >= ends or in_vain():
                    raise
                if not troubled:
                    logger.warning("writing results: %s (trying again)", trouble)
                troubled = True
                self._alarm.pause(PAUSE_SECONDS)
            else:
                if troubled:
                    logger.warning("writing results: works again")
                return answer


def bodies(results: Any, count: int) -> list[bytes | None]:
    """The stored results of a batch handler: None for all, or one for each."""
    if results is None:
        return [None] * count
    if not isinstance(results, list | tuple) or len(results) != count:
        returned = f"a value of type {type(results).__name__}"
        if isinstance(results, list | tuple):
            returned = f"a list of {len(results):,}"
        raise NonRetryable(
            "a batch handler returns None, or a list with one result for each job. "
            f"This one was given {count:,} and returned {returned}."
        )
    return [body(result) for result in results]


def body(result: object) -> bytes | None:
    """A handler's result as it is stored. One that cannot be stored now cannot be later either."""
    if result is None:
        return None
    try:
        return payloads.encode(result, "/result")
    except InvalidInput as problem:
        raise NonRetryable(f"the result {problem.detail}") from None
