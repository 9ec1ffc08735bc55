"""HTML that cannot be broken by what is put into it: whatever is not markup already is escaped."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")


class Markup(str):
    """HTML as it is."""

    __slots__ = ()


Content = str | Markup | None


def tag(name: str, *contents: Content, **attributes: str | None) -> Markup:
    """An element. An attribute that is None is left out; `class_` stands for `class`."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{join(contents)}</{name}>")


def join(contents: tuple[Content, ...] | list[Markup]) -> Markup:
    return Markup("".join(_markup(one) for one in contents if one is not None))


def prose(text: str) -> Markup:
    """A sentence in which `words` between backticks are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", html.escape(text, quote=False)))


def _markup(content: str) -> str:
    return content if isinstance(content, Markup) else html.escape(content, quote=False)
