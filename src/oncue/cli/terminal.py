"""Terminals: whatever is written to one shows what cannot be printed.

Text of a dump, a job or a server may hold escape sequences, which a terminal would carry out, and
characters that reorder or hide what stands beside them. The program writes to standard output and
error as everywhere; where they are terminals, all of it goes through `visible`: tables, the JSON of
`--json`, errors and log lines alike. Files and pipes get everything as it is.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from typing import Any, BinaryIO, cast

_MARK = str(int.from_bytes(os.urandom(6), "big"))
"""Stands in the escape sequences of this process, so that no text can hold one of them."""
_OURS = re.compile(rf"\x1b\[{_MARK};(\d*[mK])")
_OURS_WHOLE = re.compile(rf"({_OURS.pattern})|[^\x1b]+|\x1b")


def clean(text: str | None) -> str:
    """Text that moves no cursor: what cannot be printed is escaped, line ends too."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text or "")


def ours(sequences: str) -> str:
    """Escape sequences for colours or to clear the line, as this program writes them: `visible`
    knows them from those of others."""
    return sequences.replace("\x1b[", f"\x1b[{_MARK};")


CLEAR_LINE = ours("\x1b[K")
PLAIN = ours("\x1b[0m")


def visible(text: str) -> str:
    """Text for a terminal: what cannot be printed is escaped as in JSON, so that JSON stays what it
    is. Line ends and what `ours` made stay."""
    if text.isprintable():
        return text
    parts = enumerate(_OURS.split(text))
    return "".join(_sequence(part) if place % 2 else _escaped(part, "\n") for place, part in parts)


def in_line(text: str) -> str:
    """Text for one line, which goes through `visible` later: line ends are escaped too."""
    return text if text.isprintable() else _OURS_WHOLE.sub(lambda m: m[1] or _escaped(m[0]), text)


def _sequence(kind: str) -> str:
    return "\r\x1b[K" if kind == "K" else f"\x1b[{kind}"


def _escaped(text: str, but: str = "") -> str:
    return "".join(c if c.isprintable() or c in but else json.dumps(c)[1:-1] for c in text)


class TerminalText(io.TextIOWrapper):
    """Standard output or error that is a terminal."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = stream.encoding
        # An old locale gets question marks, no traceback.
        super().__init__(stream.detach(), encoding, "replace", line_buffering=True)
        self._bytes = cast(BinaryIO, _TerminalBytes(self))

    def write(self, text: str) -> int:
        super().write(visible(text))
        return len(text)

    @property
    def buffer(self) -> BinaryIO:
        """For what writes bytes: they go the same way."""
        return self._bytes


class _TerminalBytes(io.RawIOBase):
    def __init__(self, text: TerminalText) -> None:
        self._text = text
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._text.write(self._decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        self._text.flush()


def guard() -> None:
    """From now on, standard output and error go through `visible`, where they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
            if stream.isatty():
                stream.flush()
                setattr(sys, name, TerminalText(stream))
