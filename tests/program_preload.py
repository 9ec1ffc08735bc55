"""Imported by the process that forks (tests/program.py): everything a command may want."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import oncue
from oncue.api.routes.docs import load_docs
from oncue.core.zone import load_zones

LATE = ("uvloop", "tests.program")


def _import_all() -> None:
    for module in pkgutil.walk_packages(oncue.__path__, "oncue."):
        if not module.name.startswith("oncue.integrations") and "__main__" not in module.name:
            importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    load_docs()
    load_zones()


_import_all()
gc.freeze()  # a collection in a child would copy every page that the children share
