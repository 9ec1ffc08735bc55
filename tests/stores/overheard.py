"""A DynamoDB client that remembers what it was asked, so that a test can count or repeat it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.stores.dynamo import client


class OverheardClient:
    """Passes everything on. `asked` has each request as (method, arguments)."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[str, dict[str, Any]], None] = lambda _method, _asked: None
        """Called before each request is passed on."""
        self.real = client()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.real, name)

        def ask(**asked: Any) -> Any:
            self.before(name, asked)
            self.asked.append((name, asked))
            return method(**asked)

        return ask if name.endswith(("item", "items", "query", "statement", "scan")) else method

    def requests(self, method: str) -> list[dict[str, Any]]:
        return [asked for name, asked in self.asked if name == method]
