"""Flights: batches of a dispatcher that are delivered and settled at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Flights:
    """Each in a thread of its own, which ends with it: they are few, and each takes long."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way = 0
        self._trouble: BaseException | None = None
        self._ended = threading.Condition()

    @property
    def full(self) -> bool:
        return self._under_way >= self._most

    @property
    def any(self) -> bool:
        return self._under_way > 0

    def check(self) -> None:
        """Raise what a flight has raised since the last time."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def begin(self, fly: Callable[[], None], ended: Callable[[], None]) -> bool:
        """Begin a flight, and call `ended` when it is over. False: it was not begun, as there is
        room for one at a time, or the system lets no thread be started now."""
        if self._most < 2:
            return False

        def run() -> None:
            try:
                fly()
            except BaseException as error:  # told to the dispatcher, whose loop logs it
                self._trouble = error
            finally:
                with self._ended:
                    self._under_way -= 1
                    self._ended.notify_all()
                ended()

        with self._ended:
            self._under_way += 1
        try:
            threading.Thread(target=run, name="oncue-delivery", daemon=True).start()
        except RuntimeError:
            with self._ended:
                self._under_way -= 1
            return False
        return True

    def finish(self, timeout: float | None) -> bool:
        """Wait until none is under way. Whether none is."""
        with self._ended:
            return self._ended.wait_for(lambda: not self._under_way, timeout)
