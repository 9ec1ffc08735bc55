"""Tasks of Celery that wait: what `install` costs where it does nothing, how many tasks it captures
and hands over in a second, and what a process grows by while they wait."""

from __future__ import annotations

from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from uuid import uuid4

from celery import Celery

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.integrations.celery import install
from oncue_bench import machine
from oncue_bench.machine import rss_kib
from oncue_bench.rounds import in_turns

DAY = 86_400
ARGUMENTS = ["x" * 200]
WARM = 20

Figures = dict[str, Any]


def native(broker: str, count: int, rounds: int) -> Figures:
    """Tasks below the threshold, with and without `install`. The two take turns, task by task."""
    with Scheduler("memory:") as cue:
        apps = {"mine": _app(broker), "its": _app(broker)}
        install(apps["mine"], cue, poll_seconds=0)
        ways = {name: partial(app.send_task, "remind", ARGUMENTS) for name, app in apps.items()}
        mine, its = in_turns(lambda name: ways[name](countdown=5), count, rounds)
        for app in apps.values():
            app.control.purge()
    return {"count": count, "seconds": mine, "raw_seconds": its}


def captured(broker: str, count: int) -> Figures:
    """Tasks captured in SQLite, and a day later handed over to the broker."""
    clock, app = FakeClock(SystemClock().now()), _app(broker)
    with TemporaryDirectory(dir=machine.disk_folder()) as folder:
        cue = Scheduler(f"sqlite:///{folder}/jobs.db", clock=clock)
        patient = install(app, cue)
        _sent(app, WARM, countdown=DAY)  # so that everything is there
        before = rss_kib()
        capturing, grown = _sent(app, count, countdown=DAY), rss_kib() - before
        clock.advance(DAY)
        began = perf_counter()
        patient.poller.step()
        handing = perf_counter() - began
        cue.close()
    arrived = app.control.purge()
    if arrived != count + WARM:
        raise AssertionError(f"{arrived} messages, not {count + WARM}")
    return {"count": count, "seconds": capturing, "handing": handing, "grown_kib": grown}


def _app(broker: str) -> Any:
    app = Celery("bench", broker=broker)
    app.conf.task_default_queue = f"bench-{uuid4().hex}"
    return app


def _sent(app: Any, count: int, countdown: int) -> float:
    """How many seconds it took to send so many tasks."""
    began = perf_counter()
    for _ in range(count):
        app.send_task("remind", ARGUMENTS, countdown=countdown)
    return perf_counter() - began
