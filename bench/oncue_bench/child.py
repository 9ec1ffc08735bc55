"""One measurement in a process of its own: `python -m oncue_bench.child NAME ARGUMENTS-AS-JSON`.

What it finds goes to standard output as one line of JSON, with the peak memory of the process.
"""

from __future__ import annotations

import asyncio  # noqa: F401  (so that every child has imported the same)
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import oncue.aio  # noqa: F401
from oncue_bench import (
    cancelling,
    hostile,
    http_load,
    product,
    publishing,
    raw,
    receiving,
    reclaim_load,
    recurring,
    seeds,
)
from oncue_bench.machine import peak_kib

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
        http_load: (
            http_load.posts,
            http_load.batch,
            http_load.work,
            http_load.work_in_batches,
            http_load.waiting,
        ),
        reclaim_load: (
            reclaim_load.run,
            reclaim_load.look,
            reclaim_load.raw_updates,
            reclaim_load.beats,
            reclaim_load.raw_beats,
        ),
        hostile: (hostile.drain, hostile.raw_drain),
        cancelling: (cancelling.bare, cancelling.by_filter, cancelling.meanwhile),
        seeds: (seeds.seed,),
        publishing: (publishing.in_lists, publishing.one_by_one, publishing.seed_rules),
        recurring: (recurring.seed_schedules, recurring.occurrences),
    }.items()
    for function in functions
} | {"idle": idle}


NEEDS_MORE = ("dynamodb.", "sqs.", "celery.", "postgresql.")
"""Measurements of these names (`dynamodb.MODULE.FUNCTION`) are imported when they are asked for."""


def _found(name: str) -> Callable[..., Figures]:
    if not name.startswith(NEEDS_MORE):
        return MEASUREMENTS[name]
    module, _, function = name.rpartition(".")
    found: Callable[..., Figures] = getattr(import_module(f"oncue_bench.{module}"), function)
    return found


def main(name: str, arguments: str) -> None:
    figures = _found(name)(**json.loads(arguments))
    print(json.dumps({**figures, "peak_kib": peak_kib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
