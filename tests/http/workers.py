"""Remote workers: `oncue worker --url` in processes of their own, and what they have begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.http.patience import until
from tests.program import Program

# What a job does is in its payload: hold FILE, stop (as if somebody had), steps FILE, or nothing.
MODULE = """
import os, signal
from pathlib import Path
from threading import Event

from oncue import Client

cue = Client("http://127.0.0.1:9")  # the option names the real one


def wait_for(file):
    while not Path(file).exists():
        Event().wait(0.01)


def note(what, job):
    with open("begun.log", "a") as log:
        log.write(f"{what} {job.id} {job.attempt} {os.environ['WORKER']}\\n")


@cue.handler("work")
def work(job):
    note("job", job)
    match str(job.payload or "").split():
        case ["hold", file]:
            wait_for(file)
        case ["stop"] if job.attempt == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
            Event().wait(0.5)  # not every thread stops at once
        case ["steps", file]:
            first = job.step("first", lambda: note("first", job) or "one")
            wait_for(file)
            return [first, job.step("second", lambda: note("second", job) or "two")]
    return os.environ["WORKER"]
"""


class Begun(NamedTuple):
    what: str
    id: str
    attempt: int
    worker: str


class RemoteWorker:
    """One process. It is not left behind."""

    def __init__(self, folder: Path, url: str, name: str, *options: str) -> None:
        self._said_path = folder / f"{name}.log"
        self._said = self._said_path.open("w")
        command = ["worker", "tasks:cue", "--url", url, "--name", name, *options]
        self.process = Program(
            *command,
            cwd=folder,
            env={**os.environ, "WORKER": name},
            stdout=self._said,
            stderr=self._said,
        )

    @property
    def said(self) -> str:
        return self._said_path.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        until(lambda: self.process.poll() is not None)
        return self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._said.close()


class Crew:
    """The workers of a test, in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._workers: list[RemoteWorker] = []
        (folder / "tasks.py").write_text(MODULE)

    def worker(self, url: str, name: str, *options: str) -> RemoteWorker:
        self._workers.append(RemoteWorker(self.folder, url, name, *options))
        return self._workers[-1]

    def begun(self, what: str, job_id: str) -> list[Begun]:
        """Every beginning of a job, or of one of its steps."""
        log = self.folder / "begun.log"
        lines = log.read_text().splitlines() if log.exists() else []
        all_of_them = [Begun(w, i, int(n), name) for w, i, n, name in map(str.split, lines)]
        return [one for one in all_of_them if (one.what, one.id) == (what, job_id)]

    def end(self) -> None:
        for worker in self._workers:
            worker.end()


@contextmanager
def crew_in(folder: Path) -> Iterator[Crew]:
    crew = Crew(folder)
    try:
        yield crew
    finally:
        crew.end()
