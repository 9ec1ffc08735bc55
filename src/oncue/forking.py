"""Objects that start anew in a forked child: locks may have been copied there while taken, and none
of the parent's threads is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_known: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def now_and_after_fork(one: T, renew: Callable[[T], None]) -> None:
    """Call `renew(one)`, and again in every child that this process forks."""
    renew(one)
    _known[one] = renew


def around_fork(
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Like `os.register_at_fork`, as if called when this module was imported. Hooks that a program
    registers later can use its store: they are called earlier than `before`, and later than the
    other two."""
    _around.append((before, after_in_parent, after_in_child))


_around: list[tuple[Callable[[], None], Callable[[], None], Callable[[], None]]] = []


def _call_all(position: int) -> None:
    for hooks in _around:
        hooks[position]()


def _after_in_child() -> None:
    _call_all(2)
    for one, renew in list(_known.items()):
        renew(one)


os.register_at_fork(
    before=lambda: _call_all(0),
    after_in_parent=lambda: _call_all(1),
    after_in_child=_after_in_child,
)
