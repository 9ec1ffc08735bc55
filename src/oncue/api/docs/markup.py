"""HTML from texts: all text that is not `Markup` is escaped."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")


class Markup(str):
    """HTML as it is."""

    __slots__ = ()


def tag(name: str, *contents: str | None, **attributes: str) -> Markup:
    """An element; `class_` stands for the attribute `class`."""
    written = "".join(
        f' {key.rstrip("_")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{join(*contents)}</{name}>")


def join(*contents: str | None) -> Markup:
    """All contents that are not None, one after the other."""
    return Markup(
        "".join(
            one if isinstance(one, Markup) else html.escape(one, quote=False)
            for one in contents
            if one is not None
        )
    )


def prose(text: str) -> Markup:
    """A sentence in which `words` between backticks are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", html.escape(text, quote=False)))


def table(*rows: Markup, head: Markup | None = None) -> Markup:
    """A table that scrolls by itself where the page is narrow."""
    return tag(
        "div", tag("table", head and tag("thead", head), tag("tbody", *rows)), class_="table"
    )
