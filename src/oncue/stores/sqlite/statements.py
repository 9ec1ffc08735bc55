"""The statements of SQLite."""

from __future__ import annotations

from oncue.stores.statements import Statements

_OWN = Statements(__file__)
load = _OWN.load


def migrations() -> tuple[str, ...]:
    return _OWN.migrations
