"""The size of the package's parts. Each bound only falls: a change that needs less lowers it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import oncue

PACKAGE = Path(oncue.__file__).parent


def test_the_store_port_has_no_more_methods_than_this() -> None:
    assert _port_methods() <= 56  # Every store's author writes each of them.


def test_no_more_modules_than_this_are_at_the_root_of_the_package() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_no_more_files_than_this_name_the_fields_of_a_job() -> None:
    named = [path for path in PACKAGE.rglob("*.py") if re.search(r"\bexpires_at\b", _text(path))]
    assert len(named) <= 8  # A new field of a job is written in each of them.


def test_a_class_shares_its_name_only_with_its_shape_in_json() -> None:
    """`wire.jobs.Job` describes `core.job.Job`; no other two classes have one name."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(_text(path))):
            if isinstance(node, ast.ClassDef):
                rooms.setdefault(node.name, []).append(path.relative_to(PACKAGE).parts[0])
    shared = {name: found for name, found in rooms.items() if len(found) > 1}
    allowed = (["core", "wire"], ["ports", "wire"], ["wire", "worker"])
    assert {name: found for name, found in shared.items() if found not in allowed} == {}


def _port_methods() -> int:
    """Methods and properties of the protocols whose names end in `Store`."""
    return sum(
        isinstance(field, ast.FunctionDef)
        for path in (PACKAGE / "ports").glob("*.py")
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Store")
        for field in node.body
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
