"""One measurement in a process of its own: `python -m oncue.bench.child NAME ARGUMENTS-AS-JSON`.

What it finds goes to standard output as one line of JSON, with the peak memory of the process.
"""

from __future__ import annotations

import asyncio  # noqa: F401  (so that every child has imported the same)
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oncue.aio  # noqa: F401
from oncue.bench import product, publishing, raw, receiving, seeds

Figures = dict[str, Any]


def idle() -> Figures:
    """Nothing but the imports: what the memory of the others is compared with."""
    return {}


MEASUREMENTS: dict[str, Callable[..., Figures]] = {
    f"{module.__name__.rpartition('.')[2]}.{function.__name__}": function
    for module, functions in {
        raw: (raw.in_groups, raw.drain, raw.on_time),
        product: (
            product.one_by_one,
            product.concurrently,
            product.in_bulk,
            product.to_sink,
            product.to_handler,
        ),
        receiving: (receiving.on_time, receiving.schedule_ahead),
        seeds: (seeds.seed,),
        publishing: (publishing.in_lists, publishing.one_by_one, publishing.seed_rules),
    }.items()
    for function in functions
} | {"idle": idle}


def peak_kib() -> int:
    """The most memory this process ever held. The kernel's own figure where it gives one:
    `ru_maxrss` also counts the parent's memory at the moment of the fork."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        status = ""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(name: str, arguments: str) -> None:
    figures = MEASUREMENTS[name](**json.loads(arguments))
    print(json.dumps({**figures, "peak_kib": peak_kib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
