"""Logs that survive the death of whoever writes them: append-only files, one JSON array per line.

Every record is one `write` to a file opened with O_APPEND, so many processes may share one log and
`kill -9` can tear the last line at most. Whoever opens a log next strikes a torn line out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from oncue.core.moment import Moment
from tests.proof.entries import Entry, from_row, to_row
from tests.proof.history import Ask, Asking, History, Said

_STRUCK = b"\x18\n"  # CAN: the line before it was never finished


class Log:
    """Lines of JSON arrays."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: int | None = None

    def append(self, *rows: Sequence[object]) -> None:
        """Append the rows in one write."""
        lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()
        if lines and os.write(self._opened(), lines) != len(lines):
            raise OSError(f"{self.path} took only a part of the record; is the disk full?")

    def rows(self) -> Iterator[list[object]]:
        """Every whole line. A torn one may only be the last, or struck out."""
        rows, _ = self.since(0)
        yield from rows

    def since(self, position: int) -> tuple[Iterator[list[object]], int]:
        """Every whole line after a position in the file, and the position after the last one."""
        if not self.path.exists():
            return iter(()), position
        with self.path.open("rb") as file:
            file.seek(position)
            whole, _, _torn = file.read().rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        rows = (json.loads(line) for line in lines if not line.endswith(_STRUCK[:1]))
        return rows, position + len(whole) + bool(whole)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, _STRUCK)
        return self._file


class AskLog(Asking):
    """The asking side of a process that may die: read it back as a `History`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.log = Log(path)

    def record(self, *asks: Ask) -> None:
        self.log.append(*asks)

    def read(self) -> History:
        return History(_ask(row) for row in self.log.rows())


class RunLog:
    """What happened in a run, in the order in which it was written down. All processes share it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.log = Log(path)

    def record(self, *entries: Entry) -> None:
        self.log.append(*(to_row(entry) for entry in entries))

    def read(self) -> list[Entry]:
        return [from_row(row) for row in self.log.rows()]


def _ask(row: list[object]) -> Ask:
    what, job_id, at, due_at, expires_at = row
    return Ask(Said(str(what)), str(job_id), _maybe(at), _maybe(due_at), _maybe(expires_at))


def _maybe(value: object) -> Moment | None:
    return value if isinstance(value, int) else None
