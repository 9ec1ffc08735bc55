"""A process that runs the loops: `python -m tests.integration.child_recurrer URL`."""

from __future__ import annotations

import sys
from threading import Event

from oncue import Scheduler


def main(url: str) -> None:
    cue = Scheduler(url)
    cue.run_loops()
    print("running", flush=True)
    Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
