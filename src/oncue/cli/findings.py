"""What the doctor looks at, whatever the store."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue import __version__, config
from oncue.cli import output
from oncue.cli.app import Cue
from oncue.cli.nodes import runs
from oncue.cli.progress import counted
from oncue.core import upkeep
from oncue.core.errors import NotSupported, OncueError, SinkDown
from oncue.core.lacks import uncounted
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import Queue
from oncue.core.upkeep import LATE_SECONDS, START_LOOPS
from oncue.ports.claims import ClaimFilter

if TYPE_CHECKING:
    from oncue.ports.clock import Clock
    from oncue.scheduler import Scheduler

CLAIMS_COUNTED = 1000
WAIT_SECONDS = 0.1
CLOCK_TOLERANCE_SECONDS = 0.05
YEARS = range(2025, 2100)
LITTLE_SPACE = 1024**3
NO_SPACE = 64 * 1024**2
OTHERS = "and its other settings, which go back to their defaults if left out"


class DoctorFinding(NamedTuple):
    level: str
    """ok, warn or bad."""
    name: str
    """Of the check."""
    text: str
    todo: str = ""
    """What to do about it."""


Checks = dict[str, Iterable[DoctorFinding]]
"""What each check finds, by its name; looked for when it is iterated over."""


def checked(checks: Checks) -> Iterator[DoctorFinding]:
    """All that the checks find. A check that fails is an error itself, but not one that the store
    cannot answer."""
    for name, found in checks.items():
        try:
            yield from (one._replace(name=name) for one in found)
        except NotSupported as lack:
            yield ok(f"not known. {lack}")._replace(name=name)
        except OncueError as error:
            yield bad(str(error))._replace(name=name)


def ok(text: str) -> DoctorFinding:
    return DoctorFinding("ok", "", text)


def warn(text: str, todo: str) -> DoctorFinding:
    return DoctorFinding("warn", "", text, todo)


def bad(text: str, todo: str = "") -> DoctorFinding:
    return DoctorFinding("bad", "", text, todo)


def store(facts: dict[str, Any]) -> Iterator[DoctorFinding]:
    if facts["kind"] == "memory":
        todo = "Keep jobs in a file: --store sqlite:///jobs.db"
        yield warn("in memory: everything ends with the process.", todo)
    else:
        where = f" {os.path.abspath(facts['path'])}" if "path" in facts else ""
        where = f" table {facts['table']}" if "table" in facts else where
        where = f" {facts['place']}" if "place" in facts else where
        yield ok(f"{facts['kind']}{where} answers.")


def secrets() -> Iterator[DoctorFinding]:
    """In the file of settings. Nothing is found if it has none."""
    found = config.secrets_in_file()
    if not found.names:
        return
    text = f"{config.FILE} has a password or a token in it ({', '.join(found.names)})"
    if found.are_exposed:
        yield warn(f"{text}, and other users can read it.", f"Run: chmod 600 {config.FILE}")
    else:
        yield ok(f"{text}; only its owner can read it.")


def disk(path: Path) -> Iterator[DoctorFinding]:
    try:
        free = shutil.disk_usage(path.absolute().parent).free
    except OSError as error:
        yield bad(f"cannot be read: {error.strerror}.", "Check the path.")
        return
    text = f"{size(free)} free on the disk of {path}."
    if free < NO_SPACE:
        yield bad(text, "Free some: soon nothing can be stored.")
    elif free < LITTLE_SPACE:
        yield warn(text, "Free some before the disk is full.")
    else:
        yield ok(text)


def clock(clock: Clock) -> Iterator[DoctorFinding]:
    wall, steady = clock.now(), clock.monotonic()
    threading.Event().wait(WAIT_SECONDS)
    apart = (clock.now() - wall) / 1000 - (clock.monotonic() - steady)
    now = to_datetime(wall)
    if now.year not in YEARS:
        todo = "Set the clock of this machine, and keep it right with NTP."
        yield bad(f"says {now:%Y-%m-%d}, which cannot be right.", todo)
    elif abs(apart) > CLOCK_TOLERANCE_SECONDS:
        todo = "See what sets it (NTP, a virtual machine's host); jobs may be late by as much."
        yield warn(f"jumped by {output.length(apart)} while it was watched.", todo)
    else:
        yield ok(f"{now:%Y-%m-%d %H:%M:%S} UTC, and running evenly.")


def nodes(cue: Cue) -> Iterator[DoctorFinding]:
    found = cue.nodes()
    yield from (warn(*trouble) for trouble in upkeep.version_troubles(found, __version__))
    for node in found:
        yield ok(output.clean(f"{node.id} runs: {runs(node)}."))
    if not found:
        text = "no engine (`oncue serve`, `oncue worker`, work()) runs on this store now"
        is_due = _has_due(cue)
        yield warn(f"{text}, and jobs are due.", START_LOOPS) if is_due else ok(f"{text}.")


def _has_due(cue: Cue) -> bool:
    """Whether jobs wait that might be taken; False if the store cannot say."""
    try:
        return bool(_waiting(cue, None, paused=False))
    except NotSupported:
        return False


def schedules(cue: Cue) -> Iterator[DoctorFinding]:
    found = upkeep.schedule_troubles(cue.schedules(), cue.nodes(), cue.clock.now())
    yield from (warn(*trouble) for trouble in found)
    if not found:
        yield ok("none is overdue by a minute.")


Oldest = Iterable[tuple[Queue, Moment | None]]
"""Every queue, and when the first of its jobs that wait was or is due."""


def lateness(cue: Cue, oldest: Oldest | None = None) -> Iterator[DoctorFinding]:
    """`oldest`: where the store has another way to know it than `queues_with_stats`."""
    late = [found for found in _waiting(cue, oldest, paused=False) if found[1] > LATE_SECONDS]
    running = cue.nodes() if late else []
    for queue, seconds in late:
        yield warn(*upkeep.late_trouble(queue, seconds, running))
    if not late:
        yield ok("no queue has work that waits for more than a minute.")


def paused(cue: Cue, oldest: Oldest | None = None) -> Iterator[DoctorFinding]:
    due = _waiting(cue, oldest, paused=True)
    for queue, seconds in due:
        text = f"queue {queue.name} is paused and has had due work for {output.length(seconds)}."
        yield warn(text, f"Resume it: oncue queues resume {queue.name}")
    if not due:
        yield ok("none has due work.")


def _waiting(cue: Cue, oldest: Oldest | None, *, paused: bool) -> list[tuple[Queue, float]]:
    """The queues that have due work, and for how many seconds the oldest of it has waited."""
    # The oldest is also told of a queue whose jobs are all due later.
    now = cue.clock.now()
    return [
        (queue, (now - due_at) / 1000)
        for queue, due_at in (_oldest(cue) if oldest is None else oldest)
        if queue.paused is paused and due_at is not None and due_at < now
    ]


def _oldest(cue: Cue) -> Oldest:
    found = cue.queues_with_stats()
    if not all(stats.knows_oldest for _, stats in found):
        raise uncounted()
    return [(queue, stats.oldest_due_at) for queue, stats in found]


def claims(cue: Scheduler) -> Iterator[DoctorFinding]:
    now = cue.clock.now()
    lost = ClaimFilter(lapsed_by=now - round(LATE_SECONDS * 1000))
    stuck = cue.store.live_claims(lost, None, CLAIMS_COUNTED).items
    if not stuck:
        yield ok("none is lost and waiting to be taken back.")
        return
    since = output.length((now - stuck[0].lapses_at) / 1000)
    if len(stuck) == 1:
        text = f"1 claim is lost for {since}, and no process takes it back."
    else:
        count = f"{len(stuck)} or more" if len(stuck) == CLAIMS_COUNTED else len(stuck)
        text = f"{count} claims are lost, the first for {since}, and no process takes them back."
    yield warn(text, "Start 'oncue serve' or a worker: both run the reclaimer.")


def sinks(cue: Scheduler) -> Iterator[DoctorFinding]:
    from oncue.sinks import open_sink

    pulled = True
    for queue in cue.queues():
        if queue.sink is None:
            continue
        pulled = False
        try:
            with closing(open_sink(queue.sink, cue.clock)) as sink:
                if check := getattr(sink, "check", None):
                    check()
        except SinkDown as error:
            yield warn(
                f"queue {queue.name} cannot be delivered from here: {error}",
                f"If another sink is meant: oncue queues set {queue.name} --sink URL, {OTHERS}",
            )
        except Exception as error:
            yield bad(
                f"the sink of queue {queue.name} cannot be opened: {error}",
                f"Give it another one: oncue queues set {queue.name} --sink URL, {OTHERS}",
            )
        else:
            yield ok(f"queue {queue.name} delivers to {queue.sink}")
        if put_off := cue.stats(queue.name).put_off:
            yield warn(
                f"the sink of queue {queue.name} refused {counted(put_off, 'job')} for now.",
                f"See which, and why: oncue jobs list --queue {queue.name}, then oncue jobs "
                "explain ID",
            )
    if pulled:
        yield ok("no queue has one; all are pulled by workers.")


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.0f} TiB"
