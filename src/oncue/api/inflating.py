"""Bodies that were sent with `Content-Encoding: gzip`, inflated piece by piece: a few bytes may
stand for very many."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from oncue.api.problems import HttpProblem
from oncue.core.text import quoted

PIECE = 512 * 1024  # bytes that are inflated at once
SLICE = 4096  # bytes that are given to zlib at once: it copies those that it has not used yet
ENCODINGS = ("gzip", "identity")
_GZIP = 31  # the argument by which zlib expects the head and the checksum of gzip


class Inflating:
    """One body. `limit`: how many bytes it may have when it is inflated."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._member = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes of the body stand for, in pieces."""
        parts: list[bytes] = []
        size = 0
        for start in range(0, len(data), SLICE):
            for part in self._inflated(data[start : start + SLICE]):
                parts.append(part)
                size += len(part)
                if size >= PIECE:
                    yield b"".join(parts)
                    parts, size = [], 0
        if parts:
            yield b"".join(parts)

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        has_more = False  # inside zlib, which has stopped at the length of a piece
        while data or has_more:
            if self._member.eof:  # what follows it is another member of the same body
                self._member = zlib.decompressobj(_GZIP)
            try:
                part = self._member.decompress(data, PIECE)
            except zlib.error as problem:
                raise _malformed(f"is not gzip: {problem}") from None
            data = self._member.unused_data or self._member.unconsumed_tail
            has_more = len(part) == PIECE and not self._member.eof
            self._size += len(part)
            if self._size > self._limit:
                raise too_large(self._limit, "inflated, ")
            yield part

    def end(self) -> None:
        """The body is complete."""
        if not self._member.eof:
            raise _malformed("ends in the middle of its gzip encoding")

    def whole(self, body: bytes) -> bytes:
        """The same for a body that is there as a whole."""
        text = b"".join(self.feed(body))
        self.end()
        return text


def inflating(encoding: str | None, limit: int) -> Inflating | None:
    """For a body with this `Content-Encoding`; None: it is plain."""
    given = (encoding or "identity").strip().lower()
    if given == "identity":
        return None
    if given != "gzip":
        raise HttpProblem(
            "unsupported-media-type",
            f"The body's Content-Encoding is {quoted(given)}; send it with gzip, or as it is.",
            headers={"accept-encoding": ", ".join(ENCODINGS)},
        )
    return Inflating(limit)


def too_large(limit: int, when: str = "") -> HttpProblem:
    text = f"The body is too large; {when}at most {limit:,} bytes are read here."
    return HttpProblem("too-large", text)


def _malformed(why: str) -> HttpProblem:
    return HttpProblem("malformed", f"The body {why}.")
