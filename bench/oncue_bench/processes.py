"""Starting measurements, each in its own process, and what they found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Measured(NamedTuple):
    figures: dict[str, Any]
    peak_kib: int

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return float(self.figures["count"] / self.figures["seconds"])


class MeasurementFailed(Exception):
    """A measurement ended without figures; its own last words are in the text."""


def environment() -> dict[str, str]:
    """For the processes of the benchmark: this package lies beside the installed one."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def measure(name: str, **arguments: Any) -> Measured:
    """Run one of `child.MEASUREMENTS` in a new process."""
    command = [sys.executable, "-m", "oncue_bench.child", name, json.dumps(arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if ended.returncode != 0:
        raise MeasurementFailed(f"{name} {arguments}: {ended.stderr[-2000:]}")
    figures = json.loads(ended.stdout.splitlines()[-1])
    return Measured(figures, figures.pop("peak_kib"))
