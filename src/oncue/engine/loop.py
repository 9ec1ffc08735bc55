"""A thread that makes steps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from oncue.core.errors import OncueError
from oncue.core.moment import Moment
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock

Step = Callable[[], float | None]
"""One pass of a loop. Answers how many seconds it may rest; None means until it is woken."""

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 30.0

logger = logging.getLogger("oncue.engine")


class Loop:
    """Calls `step`, rests as long as it says or until woken, and goes on until stopped.

    No wake-up is lost: one that comes during a step shortens the rest after it. A step that raises
    is logged (once per change of message) and tried again after a back-off that wake-ups do not cut
    short. Steps look at the clock again themselves: waking early costs nothing but the look.
    """

    def __init__(self, name: str, step: Step, clock: Clock) -> None:
        self.name = name
        self._step = step
        self._alarm = Alarm(clock)
        self._trouble = ""
        self._backoff_seconds = FIRST_BACKOFF_SECONDS
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Let the step under way finish and make no other. Whether it ended within `timeout`."""
        self._alarm.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Make a step now."""
        self._alarm.wake()

    def wake_for(self, due_at: Moment) -> None:
        """Make a step at `due_at`, unless one is planned by then."""
        self._alarm.wake_for(due_at)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until stopped."""
        self._alarm.pause(seconds)

    def _run(self) -> None:
        while not self._alarm.stopped:
            self._alarm.arm()
            try:
                rest = self._step()
            except Exception as error:
                self._back_off(error)
            else:
                self._recovered()
                self._alarm.rest(rest)

    def _back_off(self, error: Exception) -> None:
        seconds = self._backoff_seconds
        self._backoff_seconds = min(seconds * 2, LONGEST_BACKOFF_SECONDS)
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self._trouble:
            self._trouble = trouble
            unexpected = None if isinstance(error, OncueError) else error
            logger.error("%s: %s (trying again)", self.name, trouble, exc_info=unexpected)
        self._alarm.pause(seconds)

    def _recovered(self) -> None:
        if self._trouble:
            logger.info("%s: works again", self.name)
            self._trouble = ""
            self._backoff_seconds = FIRST_BACKOFF_SECONDS
