"""W12: what the import of a Lambda handler adds to the start of its sandbox.

boto3 is part of Lambda's runtime and every function of oncue needs it, so its import is measured in
the same process, first, and is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median

from oncue.aws import HANDLERS
from oncue_bench.report import Row
from oncue_bench.rounds import Ground

GOAL_MS = 500.0
STORE = "oncue.stores.dynamodb.store"
_CHILD = """
import json, sys, time
times = [time.perf_counter()]
import boto3
times.append(time.perf_counter())
for name in sys.argv[1:]:
    __import__(name)
    times.append(time.perf_counter())
print(json.dumps([(after - before) * 1000 for before, after in zip(times, times[1:])]))
"""


def existing() -> list[str]:
    """The handlers whose module is there."""
    return [name for name, module in HANDLERS.items() if find_spec(module) is not None]


def rows(ground: Ground) -> Iterator[Row]:
    for name in existing():
        ground.progress(f"W12 import of oncue.aws.{name}")
        _timed(HANDLERS[name], STORE)  # so that all of it is compiled and in memory
        rounds = [_timed(HANDLERS[name], STORE) for _ in range(ground.sizes.rounds)]
        boto3, handler, store = (median(times) for times in zip(*rounds, strict=True))
        ratios = [one[1] / one[0] for one in rounds]
        yield Row(
            "W12",
            f"oncue.aws.{name}",
            "ms",
            handler,
            boto3,
            "boto3",
            median(ratios),
            (min(ratios), max(ratios)),
            goal=f"≤ {GOAL_MS:g} ms",
            reached=handler <= GOAL_MS,
        )
        title = f"oncue.aws.{name} and the store on DynamoDB"
        yield Row("W12", title, "ms", handler + store, boto3, "boto3", (handler + store) / boto3)


def _timed(*modules: str) -> list[float]:
    """Milliseconds for boto3 and then for each of these, in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *modules],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found
