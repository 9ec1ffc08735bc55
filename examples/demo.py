"""A demonstration: `python examples/demo.py`.

Worker processes run four jobs of one SQLite file: one at a moment, one after a delay, one that
fails at first, and one whose worker is killed with `kill -9` half-way.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from oncue import HandledJob, Job, Scheduler, __version__
from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment, to_datetime
from oncue.engine.alarm import Alarm

LEASE_SECONDS = 2.0
PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.05
_COLOURED = sys.stdout.isatty() and "NO_COLOR" not in os.environ
_COLOURS = {"due": 2, "done": 32, "failed": 33, "killed": 31, "lost": 35}

NEXT = {
    "examples/reminder.py": "the same in fifteen lines",
    "examples/steps.py": "a job that continues where its worker died",
    "examples/sink.py": "jobs handed over without a worker",
    "-m pydoc oncue.Scheduler": "every method of a scheduler",
}


class Demo:
    """What parent and workers share: the store, and the moment of the start."""

    def __init__(self, url: str, began: Moment | None = None) -> None:
        self.url = url
        self.cue = Scheduler(url)
        self.began = self.cue.clock.now() if began is None else began

    def say(self, what: str, name: str, detail: str) -> None:
        seconds = (self.cue.clock.now() - self.began) / 1000
        line = f"{seconds:7.3f} s  {what:<7} {name:<8} {detail}"
        print(f"\033[{_COLOURS[what]}m{line}\033[0m" if _COLOURED else line, flush=True)


# -- a worker process ------------------------------------------------------------------------------


def work(url: str, began: Moment, name: str) -> None:
    """Run the jobs until the process is stopped or its parent is gone."""
    logging.disable(logging.WARNING)  # the handlers print failures themselves
    threading.Thread(target=_end_with_parent, daemon=True).start()
    demo = Demo(url, began)
    cue = demo.cue

    @cue.handler("demo")
    def done(job: HandledJob) -> str:
        demo.say("done", job.payload, f"{_lateness(job)}, by {name}, attempt {job.attempt}")
        return name

    @cue.handler("demo.flaky")
    def fail_once(job: HandledJob) -> str:
        if job.attempt == 1:
            demo.say("failed", job.payload, f"{_lateness(job)}, by {name}, attempt 1")
            raise ConnectionError("the mail server is away")
        return done(job)

    @cue.handler("demo.long")
    def take_long(job: HandledJob) -> str:
        if job.attempt == 1:
            job.progress(50, "half-way")
            Alarm(cue.clock).pause(PATIENCE_SECONDS)  # the process is killed meanwhile
        lost = cue.history(job.id).diagnostics[-1]
        demo.say("lost", job.payload, lost.detail)
        return done(job)

    cue.work(name=name, concurrency=2)
    cue.close()


def _lateness(job: HandledJob) -> str:
    milliseconds = round(job.lateness_seconds * 1000)
    return f"{milliseconds:,} ms late" if milliseconds else "less than 1 ms late"


def _end_with_parent() -> None:
    while os.read(0, 1):
        continue
    os._exit(1)


# -- the parent ------------------------------------------------------------------------------------


def main(url: str) -> None:
    demo = Demo(url)
    print(
        f"oncue {__version__}: four jobs in one SQLite file, workers in processes of their own.\n"
    )
    ada = _start(demo, "ada")
    try:
        jobs = _schedule(demo)
        _wait(demo, jobs[-1], lambda job: job.percent == 50)
        ada.kill()
        ada.wait()
        demo.say("killed", "long", f"kill -9 for ada (process {ada.pid}), half-way through the job")
        bob = _start(demo, "bob")
        try:
            _wait(demo, jobs[-1], lambda job: job.state in FINAL)
        finally:
            _stop(bob)
        _summary(demo, jobs)
    finally:
        _stop(ada)
        demo.cue.close()


def _schedule(demo: Demo) -> list[Job]:
    cue = demo.cue
    cue.set_queue("demo.flaky", retry={"initial_seconds": 1, "factor": 1})
    cue.set_queue("demo.long", lease_seconds=LEASE_SECONDS)
    in_two_seconds = to_datetime(cue.clock.now() + 2000)
    jobs = [
        cue.schedule("one-off", queue="demo", at=in_two_seconds),
        cue.schedule("delayed", queue="demo", delay=3),
        cue.schedule("flaky", queue="demo.flaky", delay=4),
        cue.schedule("long", queue="demo.long", delay=6),
    ]
    for job in jobs:
        demo.say("due", job.payload, f"at {job.due_at:%H:%M:%S.%f}"[:-3] + " UTC")
    return jobs


def _summary(demo: Demo, jobs: list[Job]) -> None:
    print()
    for job in [demo.cue.job(job.id) for job in jobs]:
        tries = f"{job.attempt} attempt{'s' if job.attempt > 1 else ''}"
        print(f"{job.payload:<8} {job.state} after {tries}, by {job.result}")


def _what_next() -> None:
    python = os.path.relpath(sys.executable)
    python = "python" if python.startswith("..") else python
    print("\nWhat to try next:")
    for command, text in NEXT.items():
        if command.startswith("-m") or Path(command).exists():
            print(f"  {python} {command:<25}  {text}")


def _wait(demo: Demo, job: Job, until: Callable[[Job], bool]) -> None:
    clock = demo.cue.clock
    alarm, ends = Alarm(clock), clock.monotonic() + PATIENCE_SECONDS
    while not until(demo.cue.job(job.id)):
        if clock.monotonic() > ends:
            raise SystemExit(f"The job {job.payload!r} is not getting on; is this machine busy?")
        alarm.pause(LOOK_SECONDS)


def _start(demo: Demo, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, demo.url, str(demo.began), name]
    # A group of its own: Ctrl-C is for the parent, which then ends its workers.
    return subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    worker.communicate()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        work(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        with tempfile.TemporaryDirectory(prefix="oncue-demo-") as folder:
            try:
                main(f"sqlite:///{Path(folder, 'jobs.db')}")
            except KeyboardInterrupt:
                print("\nStopped.")
            _what_next()
