"""Work that was stored, and those who want to be told of it.

Listeners are told of what this process wrote by the thread that wrote it. What other processes
wrote is found by a thread that looks about every second, from the first listener on: DynamoDB tells
nobody by itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from random import uniform

from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.forking import now_and_after_fork
from oncue.ports.store import Awaited, Listener
from oncue.stores.listeners import awaited_by, tell

log = logging.getLogger("oncue.store")

LOOK_SECONDS = 1.0  # a look that takes longer is not waited for
POLL_SECONDS = 0.9  # so that what another process wrote is noticed within a second

Dues = dict[str, Moment]
"""By queue, when something can next be taken from it."""
Look = Callable[[Collection[str] | None], tuple[str, Dues]]
"""What the table says of these queues (None: of all): a mark that changes with the settings, and
when each is next due."""


class News:
    """Collected while a call writes, and told when the call is over."""

    def __init__(self) -> None:
        now_and_after_fork(self, News._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[tuple[Listener, Awaited | None]] = []
        self._unsaid: dict[str | None, Moment] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._looking = threading.Lock()

    def watch(self, listener: Listener, queues: Awaited | None, look: Look) -> Callable[[], None]:
        entry = (listener, queues)
        with self._lock:
            self._listeners.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._poll, args=[look], name="oncue-dynamodb-news", daemon=True
                )
                self._thread.start()

        def stop() -> None:
            with self._lock:
                if entry in self._listeners:
                    self._listeners.remove(entry)
            # A look under way, perhaps for this listener, ends first, unless it hangs.
            if self._looking.acquire(timeout=LOOK_SECONDS):
                self._looking.release()

        return stop

    def add(self, queue: str | None, due_at: Moment) -> None:
        with self._lock:
            self._unsaid[queue] = min(due_at, self._unsaid.get(queue, due_at))

    def tell(self) -> None:
        """Tell what is known by now: it is durable."""
        with self._lock:
            news, self._unsaid = self._unsaid, {}
            listeners = [listener for listener, _ in self._listeners]
        for queue, due_at in news.items():
            tell(listeners, queue, due_at)

    def close(self) -> None:
        self._closing.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _poll(self, look: Look) -> None:
        last: str | None = None
        while not self._closing.wait(uniform(0.9, 1.0) * POLL_SECONDS):
            with self._looking:
                with self._lock:
                    listeners = list(self._listeners)
                if not listeners:
                    continue
                try:
                    mark, dues = look(awaited_by(listeners))
                except StoreError as error:
                    log.debug("looking for news failed: %s", error)
                    continue
            if mark != last:
                self.add(None, 0)
            last = mark
            for queue, due_at in dues.items():
                self.add(queue, due_at)
            self.tell()
