"""Markdown as these tests read it: fenced blocks, tables and links."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PATIENCE_SECONDS = 120.0
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)")
_MEASURED = re.compile(r"\b[\d.,]+ ms\b")


class Block(NamedTuple):
    document: str
    line: int
    language: str
    text: str
    output: str | None
    """What it prints: the `text` block right behind it."""

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def read(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def blocks(document: str, language: str) -> list[Block]:
    text = read(document)
    found = list(_FENCE.finditer(text))
    output = {
        before.start(): after[2]
        for before, after in itertools.pairwise(found)
        if after[1] == "text" and not text[before.end() : after.start()].strip()
    }
    return [
        Block(document, text.count("\n", 0, m.start()) + 1, m[1], m[2], output.get(m.start()))
        for m in found
        if m[1] == language
    ]


def links(document: Path) -> list[str]:
    """The relative links of a document."""
    return [link for link in _LINK.findall(document.read_text("utf-8")) if "://" not in link]


def without_measures(text: str) -> str:
    """The same whatever the machine: every number of milliseconds becomes a sign."""
    return _MEASURED.sub("# ms", text)


def run_python(folder: Path, *arguments: str) -> str:
    """What a Python program prints; it must end well and warn of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
