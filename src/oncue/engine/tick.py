"""A tick: everything that is due by the next one, done in one go.

It is for processes that do not live between two ticks, such as a Lambda function that is invoked
every minute. The loops of the engine are the same; their steps are made here, until nothing is left
to do or the time is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from oncue.core.errors import OncueError
from oncue.engine.alarm import Alarm
from oncue.engine.collector import Collector
from oncue.engine.dispatcher import Dispatcher
from oncue.ports.clock import Clock

logger = logging.getLogger("oncue.engine")

Step = Callable[[], float | None]
LONGEST_PAUSE_SECONDS = 5.0  # for a sink in trouble; after a longer one, the next tick tries again


class Tick:
    def __init__(self, clock: Clock, is_over: Callable[[], bool], seconds: float) -> None:
        """`is_over`: there is no time to begin more. `seconds`: until the next tick."""
        self._clock = clock
        self._ends = clock.monotonic() + seconds
        self._alarm = Alarm(clock)
        self._is_over = is_over
        self._trouble: Exception | None = None

    def work_off(self, steps: Sequence[Step]) -> None:
        """Make these steps until each of them rests."""
        for step in steps:
            while not self._is_over() and self._made(step) == 0:
                continue

    def deliver(self, dispatchers: Sequence[Dispatcher], collector: Collector | None) -> None:
        """Until nothing is due that can be delivered, and nothing is under way."""
        for one in dispatchers:
            one.woken = self._alarm.wake
        steps: list[Step] = [one.step for one in dispatchers]
        if collector is not None:
            steps.append(collector.step)
        while not self._is_over():
            self._alarm.arm()
            was_flying = any(one.is_flying for one in dispatchers)
            rests = [self._made(step) for step in steps]
            if 0 in rests:
                continue
            pauses = [one.pause_seconds for one in dispatchers]
            pauses = [one for one in pauses if 0 < one <= LONGEST_PAUSE_SECONDS]
            if any(one.is_flying for one in dispatchers):
                self._alarm.rest(None)
            elif was_flying:  # a step has to be made after the last flight
                continue
            elif pauses:
                self._alarm.pause(min(pauses))
            else:
                break
        self._keep_pace(dispatchers)
        for one in dispatchers:
            one.finish(None)
            self._made(one.check_flights)

    def _keep_pace(self, dispatchers: Sequence[Dispatcher]) -> None:
        """Deliver jobs that wait for their turn, because their queue has a rate: until none does,
        or the next tick goes on with them."""
        paced = [one for one in dispatchers if one.turn_seconds is not None]
        while not self._is_over() and self._clock.monotonic() < self._ends:
            self._alarm.arm()
            was_flying = any(one.is_flying for one in paced)
            rests = [self._made(one.step) for one in paced]
            turns = [one.turn_seconds for one in paced if one.turn_seconds is not None]
            if 0 in rests:
                continue
            if turns or any(one.is_flying for one in paced):
                self._alarm.rest(min(turns, default=None))
            elif not was_flying:
                break

    def end(self) -> None:
        """Raise the first trouble that there was."""
        if self._trouble is not None:
            raise self._trouble

    def _made(self, step: Step) -> float | None:
        """Make a step. Trouble with one part does not keep the others from their work."""
        try:
            return step()
        except Exception as error:
            with suppress(Exception):
                text = error if isinstance(error, OncueError) else type(error).__name__
                logger.error("tick: %s", text)
            self._trouble = self._trouble or error
            return None
