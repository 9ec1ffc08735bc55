"""docs/cli.md is what the program says of itself."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance import cli_page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_made_from_the_program() -> None:
    assert PAGE.read_text("utf-8") == cli_page.page(), (
        "docs/cli.md is out of date: python -m tests.acceptance.cli_page > docs/cli.md"
    )
