"""Telling the listeners of a store, after the write."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oncue.core.errors import is_ctrl_c
from oncue.core.moment import Moment
from oncue.ports.store import Awaited, Listener

log = logging.getLogger("oncue.store")


def awaited_by(listeners: Sequence[tuple[Listener, Awaited | None]]) -> set[str] | None:
    """The queues that these listeners wait for; None: all."""
    wanted: set[str] = set()
    for _, awaited in listeners:
        if awaited is None:
            return None
        wanted.update(awaited())
    return wanted


def tell(listeners: Sequence[Listener], queue: str | None, due_at: Moment) -> None:
    """Tell every listener. If one raises, that is logged and does not reach the caller: the write
    is done, and the others are told as well. Only Ctrl-C is raised, afterwards: Python raises it in
    the code that the main thread runs at the moment, so it is not an error of the listener."""
    ctrl_c: BaseException | None = None
    for listener in listeners:
        try:
            listener(queue, due_at)
        except BaseException as error:
            if is_ctrl_c(error):
                ctrl_c = error
            else:
                log.exception("a listener of the store failed")
    if ctrl_c is not None:
        raise ctrl_c
