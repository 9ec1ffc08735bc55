"""Text from outside, made storable where it comes in, so that no store refuses it later."""

from __future__ import annotations

TEXT_LIMIT = 2000


def legible(text: str, limit: int = TEXT_LIMIT) -> str:
    """As much of a text as is kept. What not every store can keep, NUL and half a character (a lone
    surrogate), is written as an escape. A settlement that carries such a text as it is would be
    refused again and again, and its queue would stand still."""
    text = text[:limit].replace("\0", "\\0")
    return text.encode("utf-8", "backslashreplace").decode()[:limit]


def escaped(name: str) -> str:
    """A field's name as a part of a JSON pointer (RFC 6901)."""
    return name.encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")


def why_not_json(problem: Exception) -> str:
    """What a decoder found wrong, to be said after "is not JSON"."""
    return str(problem).removeprefix("JSON is malformed: ").rstrip(".")


def exception_text(error: BaseException) -> str:
    """The kind and the message of an exception. One whose message cannot be read has none."""
    kind = type(error).__name__
    try:
        return legible(f"{kind}: {error}")
    except BaseException:  # foreign code makes the message, and may raise anything
        return legible(kind)
