"""A worker is killed half-way through a job. The next one goes on where it stopped.

The order is charged in one step and packed in another. The first worker dies by `kill -9` while it
packs; after a lease of two seconds the job is given back, the second worker takes it, and the
charge, which was done, is not done again.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oncue import HandledJob, Scheduler


def charge(amount: int) -> str:
    print(f"  charging {amount} euros", flush=True)
    return "receipt 1001"


def pack(receipt: str) -> str:
    print(f"  packing for {receipt}", flush=True)
    time.sleep(1)
    print("  packed", flush=True)
    return "parcel 7"


def work(url: str) -> None:
    """What each worker process runs."""
    with Scheduler(url) as cue:

        @cue.handler("orders")
        def order(job: HandledJob) -> str:
            print(f"  attempt {job.attempt}", flush=True)
            receipt = job.step("charge", lambda: charge(job.payload["euros"]))
            return job.step("pack", lambda: pack(receipt))

        cue.work()


def worker_until(line: str, url: str) -> subprocess.Popen[str]:
    """A worker in a process of its own, which has just printed `line`."""
    command = [sys.executable, __file__, url]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    for printed in worker.stdout:
        print(printed, end="")
        if line in printed:
            break
    return worker


def main(url: str) -> None:
    with Scheduler(url) as cue:
        cue.set_queue("orders", lease_seconds=2)
        job = cue.schedule({"euros": 42}, queue="orders")

        print("The first worker:")
        with worker_until("packing", url) as worker:
            worker.kill()
            print("  … killed")

        print("The second worker:")
        with worker_until("packed", url) as worker:
            worker.terminate()

        print(f"The order {cue.job(job.id).state}: {cue.job(job.id).result}.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{Path(folder, 'orders.db')}")
