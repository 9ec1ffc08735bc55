"""A process that works: `python -m tests.integration.child_worker URL LOG NAME`.

It writes down every job that it begins, then does what the payload says:
    hold FILE   go on only when that file exists
    die         kill this process, before a sign of life was sent
    report-die  the same, but after one
    stop        stop this process, as if somebody else had
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Event

from oncue import HandledJob, Scheduler
from oncue.stores import open_store
from tests.proof.history import Received
from tests.proof.logs import ReceiverLog
from tests.proof.points import KillingStore


def main(url: str, log: str, name: str) -> None:
    received = ReceiverLog(log)
    store = open_store(url)
    cue = Scheduler(KillingStore(store))

    @cue.handler("work")
    def work(job: HandledJob) -> str:
        received.record(Received(job.id, job.attempt, store.clock.now(), name))
        match str(job.payload or "").split():
            case ["hold", file]:
                while not Path(file).exists():
                    Event().wait(0.01)
            case ["die" | "report-die" as how]:
                if how == "report-die":
                    job.progress(1)
                os.kill(os.getpid(), signal.SIGKILL)
            case ["stop"] if job.attempt == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
                Event().wait(0.5)  # not every thread stops at once
        return name

    cue.work(name=name)
    cue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
