"""The names in the store port, read from its protocols: nothing has to be listed a second time, and
a method that the port gains cannot be forgotten."""

from __future__ import annotations

from types import FunctionType

from oncue.ports.store import Store

_MEMBERS = {
    name: member
    for part in Store.__mro__
    if part.__module__.startswith("oncue.ports.")
    for name, member in vars(part).items()
    if not name.startswith("_")
}
METHODS = frozenset(name for name, one in _MEMBERS.items() if isinstance(one, FunctionType))
PROPERTIES = frozenset(name for name, one in _MEMBERS.items() if isinstance(one, property))
