"""The program `oncue` on a hostile store: python -m tests.stores.program calm|SEED ARGUMENTS.

`calm` is slow and exact only where the port promises it; a number is the seed of a storm; on a
`hung` one bulk verbs never end, and a server has one second to stop. The data are where `--store`
says, so others can open them as they are.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from unittest.mock import patch

from oncue.cli import main, serve
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores import open_store
from tests.stores.hostile import HostileStore, stormy
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")
LATENCY_SECONDS = 0.002
STARTING_CALLS = 50  # a program that finds no store when it starts ends, and that is right


class HungStore(WrappedStore):
    """Never comes back from looking for jobs to change."""

    def during(self, call: Call, go: Callable[[], T]) -> T:
        if call.method == "find_all":
            print("looking", file=sys.stderr, flush=True)
            threading.Event().wait()
        return go()


def open_hostile(weather: str, url: str, clock: Clock | None = None) -> Store:
    store, latency = open_store(url, clock), partial(time.sleep, LATENCY_SECONDS)
    if weather == "hung":
        return HungStore(store)
    if weather == "calm":
        return HostileStore(store, latency=latency)
    return stormy(store, int(weather), latency=latency, after_n=STARTING_CALLS)


if __name__ == "__main__":
    weather = sys.argv.pop(1)
    if weather == "hung":
        serve.GRACE_SECONDS = 1.0
    with patch("oncue.stores.open_store", partial(open_hostile, weather)):
        main()
