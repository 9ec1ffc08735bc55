"""Is the database file still the one that was opened?"""

from __future__ import annotations

import os
from pathlib import Path

from oncue.clock import SystemClock
from oncue.core.errors import StoreUnusable

LOOK_SECONDS = 0.5  # a deleted file is noticed within a second

Identity = tuple[int, int]

_monotonic = SystemClock().monotonic


class Presence:
    """Compares the files at the path with those that were opened. A process goes on writing to a
    file that was deleted, and all of it is gone when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = os.path.abspath(path)  # whatever becomes of the working directory
        self._opened: dict[str, Identity | None] = {}
        self.log = ""
        """Of the file that was opened; SQLite puts it beside the file itself, not beside a link."""
        self._next_look = 0.0
        self._missing = False

    @property
    def place(self) -> Path:
        return Path(self._place)

    @property
    def file(self) -> Identity | None:
        return self._opened.get(self._place)

    def note_file(self) -> None:
        """The file was opened."""
        self._opened[self._place] = identity(self._place)

    def note_log(self, *, opened: bool) -> None:
        """The log was opened, or is to be forgotten: it is made anew when all have closed it."""
        self._opened.pop(self.log, None)
        if opened:
            self.log = f"{os.path.realpath(self._place)}-wal"
            self._opened[self.log] = identity(self.log)

    def check(self) -> None:
        """Look twice a second; raise from the moment the file is missing until it is back."""
        now = _monotonic()
        if now < self._next_look and not self._missing:
            return
        self._next_look = now + LOOK_SECONDS
        opened = dict(self._opened)
        gone = [name for name, noted in opened.items() if identity(name) != noted]
        self._missing = bool(gone)
        if self._place in gone:
            raise StoreUnusable(
                f"{self._path}: the file was deleted or replaced while it was in use. Nothing is "
                "stored in it any more. Put the same file back; or restart this program, which "
                "then uses what is there."
            )
        if gone:
            raise StoreUnusable(
                f"{self._path}: its write-ahead log {self.log} was deleted or replaced while "
                "it was in use, and with it what was stored last. Nothing is stored any more. "
                "Restart all programs that use the file, then ask 'oncue doctor' about it."
            )


def identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
