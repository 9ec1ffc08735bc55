"""The program `oncue` on a hostile store: python -m tests.stores.program calm|SEED ARGUMENTS.

`calm` is slow and exact only where the port promises it; a number is the seed of a storm. The data
are where `--store` says, so others can open them as they are.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from unittest.mock import patch

from oncue.cli import main
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores import open_store
from tests.stores.hostile import HostileStore, stormy

LATENCY_SECONDS = 0.002
STARTING_CALLS = 50  # a program that finds no store when it starts ends, and that is right


def open_hostile(weather: str, url: str, clock: Clock | None = None) -> Store:
    store, latency = open_store(url, clock), partial(time.sleep, LATENCY_SECONDS)
    if weather == "calm":
        return HostileStore(store, latency=latency)
    return stormy(store, int(weather), latency=latency, after_n=STARTING_CALLS)


if __name__ == "__main__":
    with patch("oncue.scheduler.open_store", partial(open_hostile, sys.argv.pop(1))):
        main()
