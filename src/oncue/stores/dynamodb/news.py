"""Work that was stored, and those who want to be told of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from threading import Lock

from oncue.core.moment import Moment
from oncue.forking import now_and_after_fork
from oncue.ports.store import Listener
from oncue.stores.listeners import tell


class News:
    """Collected while a call writes, and told when the call is over. Each thread has its own."""

    def __init__(self) -> None:
        now_and_after_fork(self, News._renew)

    def _renew(self) -> None:
        self._lock = Lock()
        self._listeners: list[Listener] = []
        self._unsaid: dict[str | None, Moment] = {}
        self.marks: set[str] = set()

    def watch(self, listener: Listener) -> Callable[[], None]:
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def mark(self) -> str:
        """Marks a change of settings as one of this process."""
        return secrets.token_hex(8)

    def add(self, queue: str | None, due_at: Moment) -> None:
        with self._lock:
            self._unsaid[queue] = min(due_at, self._unsaid.get(queue, due_at))

    def tell(self) -> None:
        """Tell what is known by now: it is durable."""
        with self._lock:
            news, self._unsaid = self._unsaid, {}
            listeners = list(self._listeners)
        for queue, due_at in news.items():
            tell(listeners, queue, due_at)
