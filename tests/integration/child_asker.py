"""A process that asks: `python -m tests.integration.child_asker URL LOG ASKS`.

For every line `COUNT` on its standard input it asks for that many jobs, due within half a second.
What it asks for, and what was acknowledged, it writes down in ASKS, on disk, where its death cannot
reach it.
"""

from __future__ import annotations

import sys

from oncue.stores import open_store
from oncue.usecases import intake
from tests.proof.history import Ask, Said
from tests.proof.logs import AskLog
from tests.proof.points import KillingStore


def main(url: str, _log: str, asks: str) -> None:
    store = KillingStore(open_store(url))
    log = AskLog(asks)
    for line in sys.stdin:
        now = store.clock.now()
        jobs = [
            intake.new_job({"queue": "work", "delay": n % 500 / 1000}, now)
            for n in range(int(line))
        ]
        log.record(*(Ask(Said.INVOKED, job.id, now, job.due_at) for job in jobs))
        clashes = store.insert(jobs, now)
        assert not clashes
        log.record(*(Ask(Said.ACKNOWLEDGED, job.id) for job in jobs))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
