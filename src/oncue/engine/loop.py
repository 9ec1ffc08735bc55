"""A thread that makes steps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from oncue.core.errors import OncueError, StoreUnavailable
from oncue.core.moment import Moment
from oncue.engine.alarm import LONGEST_REST_SECONDS, Alarm
from oncue.ports.clock import Clock

Step = Callable[[], float | None]
"""One pass of a loop. Answers how many seconds it may rest; None means until it is woken."""

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 30.0
LONGEST_AWAY_SECONDS = 5.0  # while the store is away: work goes on soon after it is back
OVERSLEPT_SECONDS = 5.0  # more than a busy machine delays a thread

logger = logging.getLogger("oncue.engine")


class Loop:
    """Calls `step`, rests as long as it says or until woken, and goes on until stopped.

    No wake-up is lost: one that comes during a step shortens the rest after it. A step that raises,
    whatever it is (also `SystemExit`, `asyncio.CancelledError`, …), is logged (once per change of
    message) and tried again after a back-off that wake-ups do not cut short. Steps look at the
    clock again themselves: waking early costs nothing but the look.

    `overslept` is called before a step that comes much later than planned, because the process did
    not run in the meantime. `longest` says how long a rest may be.

    If the thread ends all the same, because it could neither work nor wait, the next call of
    `start` starts another.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        clock: Clock,
        overslept: Callable[[], None] = lambda: None,
        longest: Callable[[], float] = lambda: LONGEST_REST_SECONDS,
    ) -> None:
        self.name = name
        self.step = step
        self._overslept = overslept
        self._longest = longest
        self._alarm = Alarm(clock)
        self._trouble = ""
        self._backoff_seconds = FIRST_BACKOFF_SECONDS
        self._starting = threading.Lock()
        self._thread = self._new_thread()

    def start(self) -> bool:
        """Start the thread, or another one if it has ended without `stop`. Whether it was replaced.
        If the system lets no thread be started now, that is logged: call again."""
        with self._starting:
            if self._alarm.stopped or self._thread.is_alive():
                return False
            replaces = self._thread.ident is not None
            if replaces:
                self._thread = self._new_thread()
                logger.error("%s: its thread had ended; a new one goes on", self.name)
            try:
                self._thread.start()
            except RuntimeError as error:
                logger.error("%s: its thread cannot be started: %s", self.name, error)
            return replaces

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

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self) -> None:
        while not self._alarm.stopped:
            try:
                self._alarm.arm()
                rest = self.step()
                self._recovered()
                if self._alarm.rest(rest, self._longest()) > OVERSLEPT_SECONDS:
                    self._overslept()
            except BaseException as error:  # whatever a step raises must not end the thread
                self._back_off(error)

    def _back_off(self, error: BaseException) -> None:
        is_away = isinstance(error, StoreUnavailable)
        longest = LONGEST_AWAY_SECONDS if is_away else LONGEST_BACKOFF_SECONDS
        seconds = min(self._backoff_seconds, longest)
        self._backoff_seconds = seconds * 2
        with suppress(BaseException):  # the log, or the text of the error, may be in trouble too
            self._complain(error)
        self._alarm.pause(seconds)

    def _complain(self, error: BaseException) -> None:
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self._trouble:
            self._trouble = trouble
            unexpected = None if isinstance(error, OncueError) else error
            logger.error("%s: %s (trying again)", self.name, trouble, exc_info=unexpected)

    def _recovered(self) -> None:
        self._backoff_seconds = FIRST_BACKOFF_SECONDS
        if self._trouble:
            self._trouble = ""
            logger.warning("%s: works again", self.name)  # seen by all who saw the trouble
