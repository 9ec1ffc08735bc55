"""What the doctor looks at, whatever the store."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.cli import output
from oncue.cli.app import Cue
from oncue.cli.progress import counted
from oncue.cli.queues import with_stats
from oncue.core.moment import to_datetime
from oncue.ports.claims import ClaimFilter

if TYPE_CHECKING:
    from oncue.ports.clock import Clock
    from oncue.scheduler import Scheduler

LATE_MS = 60_000
CLAIMS_COUNTED = 1000
WAIT_SECONDS = 0.1
CLOCK_TOLERANCE_SECONDS = 0.05
YEARS = range(2025, 2100)
LITTLE_SPACE = 1024**3
NO_SPACE = 64 * 1024**2


class Finding(NamedTuple):
    level: str
    """ok, warn or bad."""
    name: str
    text: str
    todo: str = ""
    """What to do about it."""

    def fields(self) -> dict[str, str]:
        return self._asdict()


def ok(name: str, text: str) -> Finding:
    return Finding("ok", name, text)


def warn(name: str, text: str, todo: str) -> Finding:
    return Finding("warn", name, text, todo)


def bad(name: str, text: str, todo: str) -> Finding:
    return Finding("bad", name, text, todo)


def store(facts: dict[str, Any]) -> Finding:
    if facts["kind"] == "memory":
        return warn(
            "store",
            "in memory: everything ends with the process.",
            "Keep jobs in a file: --store sqlite:///jobs.db",
        )
    where = f" {os.path.abspath(facts['path'])}" if "path" in facts else ""
    return ok("store", f"{facts['kind']}{where} answers.")


def disk(path: Path) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(path.absolute().parent).free
    except OSError as error:
        yield bad("disk space", f"cannot be told: {error.strerror}.", "Check the path.")
        return
    text = f"{size(free)} free on the disk of {path}."
    if free < NO_SPACE:
        yield bad("disk space", text, "Free some: soon nothing can be stored.")
    elif free < LITTLE_SPACE:
        yield warn("disk space", text, "Free some before the disk is full.")
    else:
        yield ok("disk space", text)


def clock(clock: Clock) -> Iterator[Finding]:
    wall, steady = clock.now(), clock.monotonic()
    threading.Event().wait(WAIT_SECONDS)
    apart = (clock.now() - wall) / 1000 - (clock.monotonic() - steady)
    now = to_datetime(wall)
    if now.year not in YEARS:
        yield bad(
            "clock",
            f"says {now:%Y-%m-%d}, which cannot be.",
            "Set the clock of this machine, and keep it right with NTP.",
        )
    elif abs(apart) > CLOCK_TOLERANCE_SECONDS:
        yield warn(
            "clock",
            f"jumped by {output.length(apart)} while it was watched.",
            "See what sets it (NTP, a virtual machine's host); jobs may be late by as much.",
        )
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, and running evenly.")


def lateness(cue: Cue) -> Iterator[Finding]:
    now, late = cue.clock.now(), 0
    for queue, stats in with_stats(cue):
        oldest = stats.oldest_due_at
        if queue.paused or oldest is None or now - oldest <= LATE_MS:
            continue
        late += 1
        who = "'oncue serve'" if queue.sink is not None else "'oncue worker MODULE:SCHEDULER'"
        yield warn(
            "lateness",
            f"queue {queue.name} has work that is {output.length((now - oldest) / 1000)} late.",
            f"Start {who}; or, if one runs, start more.",
        )
    if not late:
        yield ok("lateness", "no queue has work that waits for more than a minute.")


def claims(cue: Scheduler) -> Iterator[Finding]:
    now = cue.clock.now()
    lost = ClaimFilter(lapsed_by=now - LATE_MS)
    stuck = cue.store.live_claims(lost, None, CLAIMS_COUNTED).lapses
    if not stuck:
        yield ok("claims", "none is lost and waiting to be taken back.")
        return
    count = f"{len(stuck)} or more" if len(stuck) == CLAIMS_COUNTED else str(len(stuck))
    since = output.length((now - stuck[0].lapses_at) / 1000)
    yield warn(
        "claims",
        f"{count} claims are lost, the first for {since}, and nobody takes them back.",
        "Start 'oncue serve' or a worker: both run the reclaimer.",
    )


def paused(cue: Cue) -> Iterator[Finding]:
    now, waiting = cue.clock.now(), 0
    for queue, stats in with_stats(cue):
        oldest = stats.oldest_due_at
        if queue.paused and oldest is not None and oldest <= now:
            waiting += 1
            since = output.length((now - oldest) / 1000)
            yield warn(
                "paused queues",
                f"queue {queue.name} is paused and has had due work for {since}.",
                f"Let it go: oncue queues resume {queue.name}",
            )
    if not waiting:
        yield ok("paused queues", "none has due work.")


def sinks(cue: Scheduler) -> Iterator[Finding]:
    from oncue.sinks import open_sink

    queues = [queue for queue in cue.queues() if queue.sink is not None]
    for queue in queues:
        assert queue.sink is not None
        try:
            open_sink(queue.sink, cue.clock).close()
        except Exception as error:
            yield bad(
                "sinks",
                f"the sink of queue {queue.name} cannot be opened: {error}",
                f"Give it another one: oncue queues set {queue.name} --sink URL",
            )
        else:
            yield ok("sinks", f"queue {queue.name} delivers to {queue.sink}")
        if put_off := cue.stats(queue.name).put_off:
            yield warn(
                "sinks",
                f"the sink of queue {queue.name} refused {counted(put_off, 'job')} for now.",
                f"See which, and why: oncue jobs list --queue {queue.name}, then oncue jobs "
                "explain ID",
            )
    if not queues:
        yield ok("sinks", "no queue has one; all are pulled by workers.")


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.0f} TiB"
