"""The long form of the kill run: python -m tests.chaos [--jobs 100000] [--kills 100]."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.kills import KillRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=900, help="give up after so long")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"SQLite: {asked.jobs:,} jobs, at least {asked.kills} kills …", flush=True)
        run = KillRun(
            Path(folder),
            jobs=asked.jobs,
            kills=asked.kills,
            seconds=asked.seconds,
            seed=asked.seed,
        )
        card = run.run()
    print(card)
    return 0 if card.green else 1


if __name__ == "__main__":
    sys.exit(main())
