"""A store seen through a wrapper: every call of the port passes `during`, which may interfere. The
methods are found in the port, so a wrapper has those that the port will gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, Store
from tests.stores.port import METHODS, PROPERTIES

WholeStore: Any = object
"""To a type checker, what derives from this has every method of the port."""

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """One call of a port's method, about to be made."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class WrappedStore(WholeStore):  # type: ignore[misc]
    clock: Clock

    def __init__(self, store: Store) -> None:
        self.store = store
        for name in PROPERTIES:
            setattr(self, name, getattr(store, name))
        for name in METHODS - set(dir(WrappedStore)):
            setattr(self, name, self._around(getattr(store, name)))

    def during(self, call: Call, go: Callable[[], T]) -> T:
        """Make the call by `go()`, or not."""
        return go()

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self.store.watch(listener, queues)

    def close(self) -> None:
        self.store.close()

    def _around(self, method: Callable[P, T]) -> Callable[P, T]:
        name = method.__name__

        @wraps(method)
        def around(*args: P.args, **kwargs: P.kwargs) -> T:
            return self.during(Call(name, args, kwargs), partial(method, *args, **kwargs))

        return around
