"""The guide's section on clients, run as it stands against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.documents import Block, blocks, run_python
from tests.http.server import Server

BLOCKS = blocks("docs/python.md", "py")
WRITTEN = "http://127.0.0.1:8420"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_snippet_prints_what_it_says(block: Block, server: Server, tmp_path: Path) -> None:
    assert WRITTEN in block.text
    assert run_python(tmp_path, "-c", block.text.replace(WRITTEN, server.url)) == block.output
