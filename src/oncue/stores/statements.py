"""SQL by name, from the `.sql` files of a store.

A file holds statements under `-- name: …` lines; comments in front of such a line belong to it.
`{other}` inside a statement stands for the text under that name, `{noun.other}` for one of another
file, so that a list of columns or a condition is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

_NAME = re.compile(r"^(?:-- .*\n)*-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"\{(?:(\w+)\.)?(\w+)\}")


class Statements:
    def __init__(self, module: str, convert: Callable[[str], str] = str) -> None:
        """Of the folder `sql` beside this file. `convert`: what the driver takes, of each text."""
        self._folder = Path(module).with_name("sql")
        self._convert = convert
        self._texts: dict[str, dict[str, str]] = {}
        self._loaded: dict[str, dict[str, str]] = {}

    def load(self, noun: str) -> dict[str, str]:
        """The statements of `sql/<noun>.sql`."""
        known = self._loaded.get(noun)
        if known is None:
            texts = self._text(noun)
            known = {name: self._convert(text) for name, text in texts.items()}
            self._loaded[noun] = known
        return known

    def _text(self, noun: str) -> dict[str, str]:
        known = self._texts.get(noun)
        if known is not None:
            return known
        pieces = _NAME.split((self._folder / f"{noun}.sql").read_text("utf-8"))[1:]
        raw = {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}

        def part(match: re.Match[str]) -> str:
            noun, name = match.groups()
            return whole(raw[name]) if noun is None else self._text(noun)[name]

        def whole(body: str) -> str:
            return _PART.sub(part, body)

        found = self._texts[noun] = {name: whole(body) for name, body in raw.items()}
        return found

    @cached_property
    def migrations(self) -> tuple[str, ...]:
        """The migrations in order; the schema's version is how many of them were applied."""
        files = sorted((self._folder / "migrations").glob("*.sql"))
        texts = (file.read_text("utf-8") for file in files)
        return tuple(self._convert(text) for text in texts)
