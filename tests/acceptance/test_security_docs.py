"""docs/security.md says who may call which route."""

from __future__ import annotations

from tests.http import scopes


def test_the_table_is_made_from_the_routes() -> None:
    text = scopes.PAGE.read_text("utf-8")
    assert text == scopes.page(text), "docs/security.md is out of date: python -m tests.http.scopes"
    assert scopes.table() in text
