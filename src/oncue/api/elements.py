"""A batch as its jobs: the lines of NDJSON or the elements of a JSON array, part by part.

Nothing is decoded here. Between parts, only the incomplete job is kept; a job that is longer than
`LIMIT` is not kept and is answered as None.
"""

from __future__ import annotations

import re

from oncue.api.problems import HttpProblem

LIMIT = 2 * 1024 * 1024  # a payload of 256 KiB may be written with many escapes and spaces
BLANK = b" \t\r\n"

# Everything up to the next character that matters, whole strings included; a string that is not
# complete yet stops them at its quotation mark, and so does the one after a thousand. The strings
# are not repeated possessively: Python before 3.11.5 then passes over the incomplete one.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_INSIDE = re.compile(rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+){0,1000}', re.DOTALL)
_BETWEEN = re.compile(rb'[^"\[\]{},]*+(?:' + _STRING + rb'[^"\[\]{},]*+){0,1000}', re.DOTALL)
_QUOTE, _OPENING = ord('"'), b"[{"
_CUT_SHORT = "the array is not closed: the body ends in the middle."
_TOO_MUCH = "something follows the end of the array."
_UNMATCHED = "a '}' without its '{': the rest of the array was not read."


class Lines:
    """NDJSON. The last line may do without its newline."""

    trouble: str | None = None
    """Why the rest of the body could not be split; known at the end."""

    def __init__(self) -> None:
        self._rest = b""
        self._too_long = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that this part of the body completes."""
        first, *others = data.split(b"\n")
        lines = [self._rest + first, *others]
        self._rest = lines.pop()
        found = [None if len(line) > LIMIT else line for line in lines]
        if found and self._too_long:
            found[0], self._too_long = None, False
        if len(self._rest) > LIMIT:
            self._rest, self._too_long = b"", True
        return found

    def end(self) -> list[bytes | None]:
        """The line that the end of the body completes, if any."""
        if self._too_long:
            return [None]
        return [self._rest] if self._rest else []


class Elements:
    """A JSON array."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self._rest = b""
        self._looked_at = 0  # how much of the rest
        self._depth = 0  # of brackets inside the element
        self._too_long = False
        self._opened = self._closed = False
        self._count = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        text = self._rest + data
        if not self._opened:
            text = self._open(text)
        if not self._opened or self.trouble is not None:
            return []
        found: list[bytes | None] = []
        start = 0
        if not self._closed:
            start = self._split(text, found)
            self._count += len(found)
        if self._closed:
            self._rest = b""
            if text[start:].strip(BLANK):
                self.trouble = self.trouble or _TOO_MUCH
        return found

    def end(self) -> list[bytes | None]:
        if self._opened and not self._closed:
            self.trouble = self.trouble or _CUT_SHORT
        return []

    def _open(self, text: bytes) -> bytes:
        """The text after the opening bracket."""
        text = text.lstrip(BLANK)
        if not text:
            return text
        if not text.startswith(b"["):
            raise HttpProblem(
                "malformed",
                "The body is not a JSON array. Send [{…}, {…}], "
                "or one job a line with Content-Type: application/x-ndjson.",
            )
        self._opened = True
        return text[1:]

    def _split(self, text: bytes, found: list[bytes | None]) -> int:
        """Add complete elements to `found`; where the rest begins."""
        start, at = 0, self._looked_at
        while True:
            at = _stop(_INSIDE if self._depth else _BETWEEN, text, at)
            if at == len(text) or text[at] == _QUOTE:
                self._keep(text, start, at)
                return start
            mark = text[at]
            at += 1
            if mark in _OPENING:
                self._depth += 1
            elif self._depth and mark != ord(","):
                self._depth -= 1
            elif mark == ord("}"):
                self._closed, self.trouble = True, _UNMATCHED
                return at
            else:
                self._closed = mark == ord("]")
                found.append(self._whole(text[start : at - 1]))
                start = at
                if self._closed:
                    self._forget_nothing(found)
                    return start

    def _whole(self, element: bytes) -> bytes | None:
        too_long = self._too_long or len(element) > LIMIT
        self._too_long = False
        return None if too_long else element

    def _forget_nothing(self, found: list[bytes | None]) -> None:
        """The space between the brackets of an empty array is no element."""
        if self._count or len(found) > 1:
            return
        if found[0] is not None and not found[0].strip(BLANK):
            found.clear()

    def _keep(self, text: bytes, start: int, at: int) -> None:
        self._rest, self._looked_at = text[start:], at - start
        if self._too_long or len(self._rest) > LIMIT:
            self._too_long = True
            self._rest, self._looked_at = _open_string(text[at:]), 0


def _stop(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """Where the next character that matters is, an incomplete string, or the end."""
    while True:
        between = pattern.match(text, at)
        assert between is not None  # it matches nothing, too
        end = between.end()
        if end in (at, len(text)) or text[end] != _QUOTE:
            return end
        at = end


def _open_string(text: bytes) -> bytes:
    """As much of an incomplete string as is needed to find its end."""
    if not text:
        return b""
    backslashes = len(text) - len(text.rstrip(b"\\"))
    return b'"\\' if backslashes % 2 else b'"'


Splitter = Lines | Elements
"""Both are fed the parts of a body and answer with the jobs that are complete."""
