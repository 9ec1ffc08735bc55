"""A worker is killed half-way through a job. The next one continues where it stopped.

The order is charged in one step and packed in another. The first worker is killed with `kill -9`
while it packs. After a lease of two seconds the job is reclaimed and the second worker takes it.
The charge was finished, so it is not repeated.
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
    """Run the handler; this is the main function of each worker process."""
    with Scheduler(url) as cue:

        @cue.handler("orders")
        def order(job: HandledJob) -> str:
            print(f"  attempt {job.attempt}", flush=True)
            receipt = job.step("charge", lambda: charge(job.payload["euros"]))
            return job.step("pack", lambda: pack(receipt))

        cue.work()


def worker_until(line: str, url: str) -> subprocess.Popen[str]:
    """Start a worker process and return when it has printed `line`."""
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
