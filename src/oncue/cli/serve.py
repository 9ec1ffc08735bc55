"""`oncue serve`: the HTTP interface and the loops of a store, until told to stop."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import abspath
from typing import TYPE_CHECKING

import click

from oncue import config
from oncue.cli import output
from oncue.cli.app import App, refuse_json, setting, with_store
from oncue.cli.collection import spare_collector
from oncue.cli.failures import EXIT_FAILED
from oncue.cli.progress import StatusLine, counted
from oncue.cli.queues import lateness
from oncue.cli.stopping import Stopping, end_at_once
from oncue.core.errors import InvalidInput, OncueError
from oncue.core.lifecycle import LIVE, State
from oncue.sinks.elsewhere import CELERY

if TYPE_CHECKING:
    from oncue.api.server import HttpServer
    from oncue.scheduler import Scheduler

STATUS_SECONDS = 10.0
GRACE_SECONDS = 30.0
MIB = 1024 * 1024

logger = logging.getLogger("oncue.serve")


@click.command()
@setting("host", metavar="ADDRESS", help="Listen here (127.0.0.1).")
@setting("port", type=click.IntRange(0, 65535), help="At this port (8420); 0: a free one.")
@click.option("--no-engine", is_flag=True, help="Only HTTP; another process runs the loops.")
@click.option("--engine-only", is_flag=True, help="Only the loops, no HTTP.")
@with_store
def serve(app: App, no_engine: bool, engine_only: bool) -> None:
    """Run the HTTP server and the scheduler. Delivers due jobs to their queues' sinks, takes back
    lost claims, removes finished jobs past retention, and serves the HTTP interface; /docs
    describes it. Runs until SIGTERM or Ctrl-C, and then finishes the requests and deliveries that
    have begun. Any number of servers may run on one store.

    $ oncue serve
    $ oncue serve --store sqlite:////var/lib/oncue/jobs.db --port 9000
    $ oncue serve --host 0.0.0.0    # after 'oncue token create'
    $ ONCUE_LOG_LEVEL=INFO ONCUE_LOG_FORMAT=json oncue serve
    """
    refuse_json(app)
    app.may_create = True
    if no_engine and engine_only:
        raise click.UsageError("--no-engine and --engine-only leave nothing to do; give one.")
    host, port = app.settings["host"].value, app.settings["port"].value
    if app.is_missing and not engine_only:
        from oncue.api.server import check_address

        with _named(app):
            check_address(host, port)
    cue = app.scheduler
    if engine_only and cue.store.describe().kind == "memory":
        raise InvalidInput(
            "a memory store has no jobs but those of this process, so there is nothing to do. "
            "Name a file: --store sqlite:///jobs.db"
        )
    if app.settings["log_level"].origin == "default":
        # Deliveries to the sink `log:` are shown, also if nothing else is logged.
        logging.getLogger("oncue.sink.log").setLevel(logging.INFO)
    server = None if engine_only else _http_server(app, host, port)
    spare_collector()
    _run(cue, server, no_engine)
    output.note("Stopped.")


def _http_server(app: App, host: str, port: int) -> HttpServer:
    from oncue.api.connections import ConnectionLimits
    from oncue.api.descriptors import allow_open_files
    from oncue.api.server import HttpServer

    limits = ConnectionLimits(
        connections=app.settings["max_connections"].value,
        unread_bytes=app.settings["max_unread_mib"].value * MIB,
    )
    allow_open_files(limits.connections)
    with _named(app):
        return HttpServer(app.scheduler, host, port, limits=limits)


@contextmanager
def _named(app: App) -> Iterator[None]:
    """An address that is refused is named as it was given: as an option, or as a setting."""
    try:
        yield
    except InvalidInput as problem:
        setting = app.settings.get(problem.pointer.removeprefix("/"))
        if setting is None or setting.origin in ("default", "option"):
            raise
        name = config.written(setting, problem.pointer.removeprefix("/"))
        raise InvalidInput(problem.detail, name) from None


def _run(cue: Scheduler, server: HttpServer | None, no_engine: bool) -> None:
    """Until a signal, and then until all that was begun has ended."""
    with Stopping("finishing what is under way") as stopping, StatusLine() as line:
        began = cue.clock.monotonic()
        output.note(f"oncue serve: pid {os.getpid()}, {place(cue)}; {_routes(cue)}.")
        if not no_engine:
            cue.run_loops()
        if server is not None:
            server.start()
            output.note(f"Listening on {server.url}; {server.url}/docs describes every request.")
            if server.refuses_all:
                output.note(
                    "The last access token was revoked, so every request is refused: create one "
                    "with 'oncue token create', or accept requests from this machine without one, "
                    "by 'oncue token allow-loopback'."
                )
        _show(line, cue, began)
        while not stopping.wait(STATUS_SECONDS):
            _show(line, cue, began)
        line.clear()
        ends = cue.clock.monotonic() + GRACE_SECONDS
        answered = server is None or server.stop(GRACE_SECONDS)
        finished = no_engine or cue.engine.stop(max(1.0, ends - cue.clock.monotonic()))
    if not (answered and finished):
        what = "deliveries" if answered else "requests"
        output.note(
            f"Some {what} did not end within {GRACE_SECONDS:.0f} s; "
            "what was claimed is taken back when its lease has ended."
        )
        end_at_once(EXIT_FAILED)  # an exit would wait for the threads that did not end


def place(cue: Scheduler) -> str:
    """The store and its promises, in half a line."""
    facts = cue.store.describe().details
    path = f" {abspath(facts['path'])}" if "path" in facts else ""
    path = f" {facts['table']}" if "table" in facts else path
    path = f" {facts['place']} {facts['schema_name']}" if "place" in facts else path
    promises = [n for n in ("schema", "journal_mode", "synchronous") if n in facts]
    return ", ".join([f"store {facts['kind']}{path}", *(f"{n} {facts[n]}" for n in promises)])


def _routes(cue: Scheduler) -> str:
    sinks = {queue.name: queue.sink for queue in cue.queues() if queue.sink is not None}
    if not sinks:
        return "no queue has a sink yet: workers claim the jobs"
    routes = [f"{name} → {sink}" for name, sink in sinks.items() if sink != CELERY]
    left = [
        f"{name} is left to the workers of Celery" for name, sink in sinks.items() if sink == CELERY
    ]
    return "; ".join(([f"delivering {', '.join(routes)}"] if routes else []) + left)


def _show(line: StatusLine, cue: Scheduler, began: float) -> None:
    """The status, where anybody sees it: it counts all jobs."""
    up_seconds = cue.clock.monotonic() - began
    if line.shown:
        line.show(_status(cue, up_seconds))
    elif logger.isEnabledFor(logging.INFO):
        logger.info("%s", _status(cue, up_seconds))


def _status(cue: Scheduler, up_seconds: float) -> str:
    try:
        stats = [stats for _, stats in cue.queues_with_stats()]
    except OncueError as trouble:  # the loops go on trying, and so does this line
        return f"up {output.length(up_seconds)} · {trouble}"
    now = cue.clock.now()
    waiting = sum(one.counts.get(State.SCHEDULED, 0) for one in stats)
    taken = sum(one.counts.get(state, 0) for one in stats for state in LIVE)
    seconds = max((lateness(one, now) for one in stats), default=0)
    late = f"{output.length(seconds)} late" if seconds else "nothing late"
    up, queues = output.length(up_seconds), counted(len(stats), "queue")
    return f"up {up} · {queues} · {waiting:,} scheduled · {taken:,} taken · {late}"
