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


def _renew_all() -> None:
    for one, renew in list(_known.items()):
        renew(one)


os.register_at_fork(after_in_child=_renew_all)
