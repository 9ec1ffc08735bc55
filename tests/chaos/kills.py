"""The kill run: processes that ask, dispatch, work and report die at random points or stand still
for longer than their leases, until enough have. Then more is asked for, all that is left is done in
peace, and the checker says whether a promise was broken."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from oncue.core.queue import WEEK_SECONDS, Queue
from oncue.ports.store import Store
from oncue.usecases.queues import put_queue
from tests.chaos.child import CHUNK, OUT, QUEUES
from tests.chaos.places import CREDENTIALS, is_done, opened, terms_of
from tests.proof.checker import Card, verdict
from tests.proof.ends import ends_of
from tests.proof.entries import Struck
from tests.proof.logs import AskLog, RunLog
from tests.proof.points import VARIABLE

ANYWHERE = "anywhere"  # at no point of its own: it is killed whatever it is doing
STOPPED = "stopped"  # for twice its lease, then it goes on
OF_RANGES = ("after-claim-range", "mid-batch", "after-deliver-before-settle", "after-settle")
ASKERS = frozenset({"asker", "sender"})


class Crew(NamedTuple):
    """Who is there, and where each of them may die."""

    numbers: Mapping[str, int]
    fates: Mapping[str, Sequence[str]]
    keeps_history: bool = False
    """Whether jobs that were delivered are kept."""


EVERYBODY = Crew(
    {"dispatcher": 2, "worker": 2, "remote": 1, "asker": 1},
    {
        "asker": ("before-insert-commit", "after-insert-commit", "", "", ""),
        "dispatcher": (*OF_RANGES, "after-claim", "after-reclaim", STOPPED, ANYWHERE),
        "worker": ("after-claim", "after-settle", "after-touch", STOPPED, ANYWHERE, ANYWHERE),
        "remote": ("after-touch", "after-settle", STOPPED, ANYWHERE),
    },
)
_DISPATCHING = {"dispatcher": (*OF_RANGES, STOPPED, STOPPED, ANYWHERE, ANYWHERE), "sender": ("",)}
TWO_DISPATCHERS = Crew({"dispatcher": 2, "sender": 1}, _DISPATCHING)
"""Both deliver the jobs of one queue; that is all there is."""
FOUR_DISPATCHERS = Crew({"dispatcher": 4, "sender": 1}, _DISPATCHING, keeps_history=True)
LATEST = 4  # a point is passed so often at most before it strikes
LIFE_SECONDS = (0.8, 3.0)  # of those who are struck anywhere, once they have opened the store
UNBORN = float("inf")
BEFORE = 0.01  # seconds by which two processes may read the clock apart
AFTERWARDS = 200  # jobs that are asked for after the last fault


@dataclass
class Member:
    role: str
    name: str
    process: subprocess.Popen[bytes]
    fate: str = ""
    at: float = 0.0
    """When somebody has to do something about it."""


@dataclass
class KillRun:
    """`jobs` asked for, at least `kills` deaths and stops; over after `seconds` at the latest. With
    no kills it is the control: no job may be done twice. The jobs are in the store of that `url`,
    which is made for the run (empty: a SQLite file in `folder`), the logs in `folder`.
    `takeover_seconds` bounds how long after the end of its lease a lost claim is taken over; a busy
    machine needs more than the two seconds of the promise, since it must also start the process
    that does it."""

    folder: Path
    jobs: int
    kills: int
    seconds: float
    takeover_seconds: float
    seed: int = 0
    crew: Crew = EVERYBODY
    url: str = ""
    struck: int = 0
    _crew: list[Member] = field(default_factory=list)
    _born: int = 0
    _asked: int = 0

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.seconds
        self._random = random.Random(self.seed)
        self._log = RunLog(self.folder / "run.log")
        self._asks = AskLog(self.folder / "asks.log")
        [self._asker] = ASKERS & {*self.crew.numbers}
        self.url = self.url or f"sqlite:///{self.folder / 'jobs.db'}"
        self._terms = terms_of(self.url)
        self._looks_at = 0.0
        self._looked_done = False

    def run(self) -> Card:
        with opened(self.url) as store:
            for queue in QUEUES:
                put_queue(store, self._set(queue))
            return self._run(store)

    def _set(self, queue: Queue) -> Queue:
        """A queue of the children, with the settings of this run."""
        if self.crew.keeps_history and queue == OUT:
            queue = replace(queue, retention_seconds=WEEK_SECONDS)
        if not self.kills:  # then nothing may be taken away from a slow machine
            return replace(queue, lease_seconds=60.0, timeout_seconds=None)
        lease, timeout = self._terms.lease_seconds, queue.timeout_seconds
        return replace(queue, lease_seconds=lease, timeout_seconds=timeout and 5 * lease)

    def _run(self, store: Store) -> Card:
        try:
            self._spawn("reclaimer", "")
            self._until(self._enough, deadly=True)
            if self.kills:
                self._wake_all()
            self._spawn(self._asker, "", AFTERWARDS)
            self._until(lambda: self._all_done(store), deadly=False)
            self._stop_all()
            return self._card(store)
        finally:
            self._kill_all()

    def _enough(self) -> bool:
        return self.struck >= self.kills and self._asked >= self.jobs

    def _all_done(self, store: Store) -> bool:
        """Whether nothing was left at two looks in a row."""
        asking = any(member.role in ASKERS for member in self._crew)
        if asking or time.monotonic() < self._looks_at:
            return False
        before = self._looked_done
        self._looked_done = all(is_done(store, queue.name) for queue in QUEUES)
        self._looks_at = time.monotonic() + self._terms.look_seconds
        return before and self._looked_done

    def _until(self, done: Callable[[], bool], *, deadly: bool) -> None:
        while not done():
            if time.monotonic() > self._ends:
                raise TimeoutError(f"the kill run did not end in time ({self.struck} struck)")
            self._bury()
            self._strike()
            self._bear(deadly)
            time.sleep(0.02)

    def _bury(self) -> None:
        for member in [one for one in self._crew if one.process.poll() is not None]:
            self._crew.remove(member)
            if member.process.returncode == -signal.SIGKILL:
                self._note(member, "kill")
            elif member.process.returncode or member.role not in ASKERS:
                code = member.process.returncode
                raise RuntimeError(f"{member.name} ended by itself with {code}")

    def _strike(self) -> None:
        for member in self._crew:
            if member.at == UNBORN and (self.folder / member.name).exists():
                member.at = time.monotonic() + self._random.uniform(*LIFE_SECONDS)
            if not member.at or time.monotonic() < member.at:
                continue
            if member.fate == ANYWHERE:
                member.process.kill()
                member.at = 0.0
            elif member.fate == STOPPED:
                self._stop(member)
            else:  # it goes on, and dies later
                member.process.send_signal(signal.SIGCONT)
                member.fate = ANYWHERE
                member.at = time.monotonic() + self._random.uniform(*LIFE_SECONDS)

    def _stop(self, member: Member) -> None:
        """Stop it; it is written down once it stands still, so that it is known what it had."""
        member.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(member.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise RuntimeError(f"{member.name} ended when it was to be stopped")
        self._note(member, "stop")
        member.fate, member.at = "", time.monotonic() + 2 * self._terms.lease_seconds

    def _note(self, member: Member, how: str) -> None:
        self._log.record(Struck(member.name, how))
        self.struck += 1

    def _bear(self, deadly: bool) -> None:
        for role, number in self.crew.numbers.items():
            missing = number - sum(member.role == role for member in self._crew)
            if role in ASKERS:
                missing = min(missing, 1) if deadly and not self._enough() else 0
            for _ in range(missing):
                fate = self._random.choice(self.crew.fates[role]) if deadly and self.kills else ""
                self._spawn(role, fate, self._share(role) if role in ASKERS else self._born)

    def _share(self, role: str) -> int:
        """How many jobs one asker asks for. A sender does not die: it pays to let it do more."""
        askers = self.kills // 4 if role == "sender" else self.kills
        return max(CHUNK, self.jobs // max(askers, 2))

    def _spawn(self, role: str, fate: str, number: int = 0) -> None:
        self._born += 1
        name = f"{role}-{self._born}"
        environment = {**os.environ, **CREDENTIALS, "PYTHONFAULTHANDLER": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        environment.pop(VARIABLE, None)
        at = 0.0
        if fate in (ANYWHERE, STOPPED):
            at = UNBORN
        elif fate:
            environment[VARIABLE] = f"{fate}:{self._random.randint(1, LATEST)}"
        if role in ASKERS:
            self._asked += number
        command = [sys.executable, "-m", "tests.chaos.child", role, str(self.folder), self.url]
        process = subprocess.Popen([*command, name, str(number)], env=environment)
        self._crew.append(Member(role, name, process, fate, at))

    def _wake_all(self) -> None:
        """The last fault has passed: whoever was still to be struck is let go."""
        for member in self._crew:
            if member.role != "reclaimer":
                member.process.send_signal(signal.SIGCONT)
            if member.role not in {"reclaimer", *ASKERS}:
                member.process.terminate()
        for member in [one for one in self._crew if one.role != "reclaimer"]:
            code = member.process.wait(60)
            self._crew.remove(member)
            if code == -signal.SIGKILL:
                self._note(member, "kill")

    def _stop_all(self) -> None:
        for member in self._crew:
            member.process.terminate()
        for member in self._crew:
            member.process.wait(60)
        self._crew.clear()

    def _kill_all(self) -> None:
        for member in self._crew:
            member.process.kill()
            member.process.wait()
        self._crew.clear()

    def _card(self, store: Store) -> Card:
        history = self._asks.read()
        return verdict(
            history,
            self._log.read(),
            ends_of(store, history.jobs),
            max_duplicates=None if self.kills else 0,
            min_acknowledged=self.jobs // 2,
            min_faults=self.kills,
            faults_fired=self.struck,
            early_tolerance_ms=self._terms.early_ms,
            takeover_seconds=self.takeover_seconds,
            slack_seconds=BEFORE,
        )
