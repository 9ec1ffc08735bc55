"""Text from outside, made storable where it comes in, so that no store refuses it later."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from unicodedata import category

TEXT_LIMIT = 2000
_JOINER = "\u200d"  # makes one emoji of two
_AS_EMOJI = "\ufe0f"  # the character before it is shown as an emoji
QUOTED_LIMIT = 200  # characters of somebody's input in an error


def legible(text: str, limit: int = TEXT_LIMIT) -> str:
    """As much of a text as is kept. What not every store can keep, NUL and half a character (a lone
    surrogate), is written as an escape. A settlement that carries such a text as it is would be
    refused again and again, and its queue would stand still."""
    text = text[:limit].replace("\0", "\\0")
    return text.encode("utf-8", "backslashreplace").decode()[:limit]


def is_printable(text: str) -> bool:
    """Whether a name may have these characters: none that cannot be seen or that change how others
    are shown. A joiner is part of an emoji, and of nothing else."""
    if text.isprintable():
        return True
    parts = text.split(_JOINER)
    return all(map(str.isprintable, parts)) and all(
        _is_joined(before[-1:], after[:1]) for before, after in pairwise(parts)
    )


def _is_joined(before: str, after: str) -> bool:
    if not before or not after:
        return False
    is_emoji = before == _AS_EMOJI or category(before) in ("So", "Sk")  # Sk: the colour of a skin
    return is_emoji and category(after) in ("So", "Sm")  # Sm: arrows


def cut(text: str, limit: int = QUOTED_LIMIT) -> str:
    """As much of a text from outside as an error repeats."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(text: object) -> str:
    """A text from outside, in quotation marks, as an error repeats it."""
    return cut(repr(cut(text) if isinstance(text, str) else text))


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


def suggestion(name: str, names: Iterable[str]) -> str:
    """The nearest of these names as a question, with a space before it; nothing if none is near."""
    import difflib

    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
