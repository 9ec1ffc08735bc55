"""A queue with a sink: oncue delivers the jobs when they are due, and no worker is needed.

The sink `log:` writes one line per job. A job of such a queue is complete when it is delivered. It
is kept, so the program can list it afterwards.
"""

import logging
import tempfile
import time
from pathlib import Path

from oncue import Scheduler, State

logging.basicConfig(format="%(message)s")
logging.getLogger("oncue.sink.log").setLevel(logging.INFO)

with (
    tempfile.TemporaryDirectory() as folder,
    Scheduler(f"sqlite:///{Path(folder, 'invoices.db')}") as cue,
):
    cue.set_queue("invoices", sink="log:")
    invoices = ({"payload": {"invoice": n}, "delay": n / 5} for n in range(1, 11))
    tally = cue.schedule_many(invoices, queue="invoices")
    cancelled = cue.cancel(tally.ids[-1])

    cue.run_loops()
    while cue.stats("invoices").counts[State.SUCCEEDED] < 9:
        time.sleep(0.1)

    print(f"{cancelled.id} was cancelled in time and not delivered.")
    for job in cue.jobs(queue="invoices", state="succeeded"):
        print(f"invoice {job.payload['invoice']}: {job.state} at {job.finished_at:%H:%M:%S.%f}")
