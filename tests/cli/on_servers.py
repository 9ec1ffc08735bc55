"""The program on stores that a server keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from oncue.stores import open_store

from . import on_dynamodb, on_postgresql
from .terminal import Ended, run

ServedKind = Literal["dynamodb", "postgresql"]


@dataclass
class Place:
    """A folder in which the settings name a new store. No command shows what is secret of it."""

    kind: ServedKind
    folder: Path
    url: str
    secret: str
    env: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env |= {"ONCUE_STORE": self.url, "ONCUE_LOG_LEVEL": "INFO"}

    def run(self, *arguments: str, code: int = 0) -> Ended:
        ended = run(*arguments, cwd=self.folder, env=self.env)
        assert ended.code == code, ended.err
        assert self.secret not in ended.out + ended.err
        assert "Traceback" not in ended.err
        return ended

    def write(self, name: str, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_text(text)


def empty(folder: Path) -> Place:
    """In PostgreSQL, without tables."""
    url = on_postgresql.with_password(on_postgresql.unused_url())
    return Place("postgresql", folder, url, on_postgresql.CANARY)


def ready(kind: ServedKind, folder: Path) -> Place:
    if kind == "postgresql":
        place = empty(folder)
        open_store(place.url).close()
        return place
    secret = str(on_dynamodb.CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    return Place(kind, folder, on_dynamodb.new_url(), secret, {**on_dynamodb.CREDENTIALS})
