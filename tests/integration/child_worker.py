"""A process that works: `python -m tests.integration.child_worker URL LOG NAME`.

It writes down every job that it begins, then does what the payload says:
    hold FILE   go on only when that file exists
    die         kill this process, before a sign of life was sent
    report-die  the same, but after one
    stop        stop this process, as if somebody else had; when it goes on, report all the same
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Event

from oncue import HandledJob, Scheduler
from oncue.core.fencing import Settlement
from oncue.core.lifecycle import Verb
from oncue.stores import open_store
from oncue.stores.sqlite import SqliteStore
from oncue.worker.worker import Worker
from tests.proof.entries import Received
from tests.proof.logs import RunLog
from tests.proof.points import KillingStore
from tests.proof.witness import Witness


class TellingWorker(Worker):
    """Says when it has begun to stop: from then on it begins no job."""

    def stop(self) -> None:
        super().stop()
        print("stopping", flush=True)


def stop(connection: object) -> bool:
    """Stop this process between two of its transactions: while it stands still inside one, the file
    is locked for everybody."""
    os.kill(os.getpid(), signal.SIGSTOP)
    Event().wait(0.5)  # not every thread stops at once
    return True


def main(url: str, log: str, name: str) -> None:
    run = RunLog(log)
    opened = open_store(url)
    assert isinstance(opened, SqliteStore)
    store = Witness(opened, run.record, name)
    cue = Scheduler(KillingStore(store))

    @cue.handler("work")
    def work(job: HandledJob) -> str:
        run.record(Received(job.id, job.attempt, store.clock.now(), name))
        match str(job.payload or "").split():
            case ["hold", file]:
                while not Path(file).exists():
                    Event().wait(0.01)
            case ["die" | "report-die" as how]:
                if how == "report-die":
                    job.progress(1)
                os.kill(os.getpid(), signal.SIGKILL)
            case ["stop"] if job.attempt == 1:
                while opened.db.writer.probe(stop) is None:
                    Event().wait(0.01)
                late = Settlement(job.id, job.claim.epoch, Verb.COMPLETE, result=b'"late"')
                store.settle([late], store.clock.now())
        return name

    cue.run_loops()
    TellingWorker(cue, name=name).run()
    cue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
