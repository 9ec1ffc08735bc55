"""Is the database file still the one that was opened?"""

from __future__ import annotations

import os
from contextlib import suppress
from glob import glob
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
        self.place = os.path.abspath(path)  # whatever becomes of the working directory
        self._opened: dict[str, Identity | None] = {}
        self.log = ""
        """Of the file that was opened."""
        self._next_look = 0.0
        self._missing = False

    @property
    def file(self) -> Identity | None:
        return self._opened.get(self.place)

    def note_file(self) -> None:
        """The file was opened."""
        self._opened[self.place] = identity(self.place)

    def note_log(self, *, opened: bool) -> None:
        """The log was opened, or is to be forgotten: it is made anew when all have closed it."""
        self._opened.pop(self.log, None)
        if opened:
            self.log = log_beside(self.place)
            self._opened[self.log] = identity(self.log)

    def check(self) -> None:
        """Look twice a second; raise from the moment the file is missing until it is back."""
        now = _monotonic()
        if now >= self._next_look or self._missing:
            self._next_look = now + LOOK_SECONDS
            self.look()

    def look(self) -> None:
        """Raise if the file or its log is missing."""
        opened = dict(self._opened)
        gone = [name for name, noted in opened.items() if identity(name) != noted]
        self._missing = bool(gone)
        if self.place in gone:
            raise StoreUnusable(
                f"{self._path}: the file was deleted or replaced while it was in use. Nothing is "
                "stored in it any more. Put the same file back; or ask 'oncue doctor' how to save "
                f"its data before this program ends. For a backup: {steps(self._path)}"
            )
        if gone:
            raise StoreUnusable(
                f"{self._path}: its write-ahead log {self.log} was deleted or replaced while "
                "it was in use, and with it what was stored last. Nothing is stored any more. "
                "Restart all programs that use the file, then ask 'oncue doctor' about it."
            )

    def is_replaced(self) -> bool:
        """Whether the file at the path is gone or another one, looked at now."""
        return self.file is not None and identity(self.place) != self.file

    def owns_log(self) -> bool:
        """Whether the log at the path is that of the file that was replaced, and certainly not in
        use by the new one. Without a new file it is kept: the old one may be put back."""
        log = log_beside(self.place)
        opened = self._opened.get(log)
        if opened is None or identity(log) != opened or identity(self.place) is None:
            return False
        return _is_unused(self.place)

    def remove_log(self) -> None:
        """SQLite would write it over the new file."""
        for side in side_files(self.place):
            with suppress(OSError):
                os.unlink(side)


def log_beside(path: str | Path) -> str:
    """The log of a database file. SQLite puts it beside the file itself, not beside a link."""
    return f"{os.path.realpath(path)}-wal"


def side_files(path: str | Path) -> list[str]:
    """The log of a database file, and the index of the log."""
    return [log_beside(path), f"{os.path.realpath(path)}-shm"]


def steps(path: str | Path) -> str:
    """How a backup is put in place. SQLite would write a log that is left there into the backup."""
    place = os.path.realpath(path) if os.path.islink(path) else path
    return (
        f"Stop every program that uses it, remove {place}-wal and {place}-shm, put the backup in "
        "place, start again."
    )


def _is_unused(place: str) -> bool:
    """Whether no process has the file open. False where the system does not tell."""
    files, real = glob("/proc/[0-9]*/fd/*"), os.path.realpath(place)
    return bool(files) and not any(target_of(file) == real for file in files)


def users_of_another(path: str | Path) -> list[int]:
    """Processes that use the log beside this file for another file, which was here before. Empty
    where the system does not tell."""
    # Looked at twice: while others open and close the file, its log is removed and made again, and
    # may get the inode number that another file had at the first look.
    pids = _users_of_another(path)
    return sorted(pids & _users_of_another(path)) if pids else []


def _users_of_another(path: str | Path) -> set[int]:
    place = os.path.realpath(path)
    index = identity(f"{place}-shm")
    if index is None:
        return set()
    # SQLite locks a byte of the log's index as long as the log is open, and a part of the file.
    users, owners = (_holders_of(one) for one in (index, identity(place)))
    return {pid for pid in users - owners if _uses(pid, index, but_not=identity(place))}


def _holders_of(file: Identity | None) -> set[int]:
    """Processes with a lock on the file, or on one of the same number in another file system."""
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            lines = [line.split() for line in locks]
    except OSError:
        return set()
    number = None if file is None else str(file[1])
    held = [line for line in lines if line[1] == "POSIX"]
    return {int(pid) for _, _, _, _, pid, place, *_ in held if place.rpartition(":")[2] == number}


def _uses(pid: int, file: Identity, *, but_not: Identity | None) -> bool:
    """Whether a process has this file open, and not the other one."""
    opened = {identity(file) for file in glob(f"/proc/{pid}/fd/*")}
    return file in opened and but_not not in opened


def target_of(link: str) -> str:
    """The path of an open file, by its link in /proc; empty if it was closed meanwhile."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
