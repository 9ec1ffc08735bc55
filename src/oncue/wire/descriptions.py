"""The docstrings under the fields of Structs; OpenAPI shows them as descriptions."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from msgspec import Struct, structs


def descriptions(shape: type[Struct]) -> dict[str, str]:
    """By the names that JSON has, inherited fields included."""
    found: dict[str, str] = {}
    for kind in reversed(shape.__mro__):
        found |= _docstrings(kind.__module__).get(kind.__name__, {})
    return {
        field.encode_name: found[field.name]
        for field in structs.fields(shape)
        if field.name in found
    }


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Those of a module, by class and field. Python keeps no docstring of an attribute, so they are
    read from the source."""
    if not module.startswith("oncue.wire."):
        return {}
    classes = ast.parse(inspect.getsource(sys.modules[module])).body
    return {one.name: _in_class(one) for one in classes if isinstance(one, ast.ClassDef)}


def _in_class(one: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, text in pairwise(one.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(value))):
                found[name] = " ".join(value.split())
    return found
