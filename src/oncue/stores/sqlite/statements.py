"""SQL by name, from the `.sql` files of this dialect.

A file holds statements under `-- name: …` lines; comments in front of such a line belong to it.
`{other}` inside a statement stands for the text under that name, `{noun.other}` for one of another
file, so that a list of columns or a condition is written once.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^(?:-- .*\n)*-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"\{(?:(\w+)\.)?(\w+)\}")


@cache
def load(noun: str) -> dict[str, str]:
    """The statements of `sql/<noun>.sql`."""
    text = (_folder() / f"{noun}.sql").read_text("utf-8")
    pieces = _NAME.split(text)[1:]
    raw = {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}

    def part(match: re.Match[str]) -> str:
        noun, name = match.groups()
        return whole(raw[name]) if noun is None else load(noun)[name]

    def whole(body: str) -> str:
        return _PART.sub(part, body)

    return {name: whole(body) for name, body in raw.items()}


@cache
def migrations() -> tuple[str, ...]:
    """The migrations in order; the schema's version is how many of them were applied."""
    files = [f for f in (_folder() / "migrations").iterdir() if f.name.endswith(".sql")]
    return tuple(f.read_text("utf-8") for f in sorted(files, key=lambda f: f.name))


def _folder() -> resources.abc.Traversable:
    return resources.files("oncue.stores.sqlite") / "sql"
