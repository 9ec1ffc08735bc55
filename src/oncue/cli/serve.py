"""`oncue serve`: the loops of a store, until told to stop."""

from __future__ import annotations

import logging
import os
from os.path import abspath
from typing import TYPE_CHECKING

import click

from oncue.cli.app import EXIT_FAILED, App, examples, refuse_json, with_store
from oncue.core.errors import InvalidInput, OncueError

if TYPE_CHECKING:
    from oncue.cli.progress import StatusLine
    from oncue.scheduler import Scheduler

STATUS_SECONDS = 10.0
GRACE_SECONDS = 30.0

logger = logging.getLogger("oncue.serve")


@click.command(
    help=examples(
        "oncue serve",
        "oncue serve --store sqlite:////var/lib/oncue/jobs.db",
        "ONCUE_LOG_LEVEL=INFO oncue serve",
    )
    + "\n\nDeliver due jobs to their queues' sinks. Also takes back lost claims and removes "
    "finished jobs past retention. Goes on until SIGTERM or Ctrl-C; deliveries under way are "
    "finished then. Run as many as you like on one store. Queues without a sink want 'oncue "
    "worker'."
)
@with_store
@click.pass_obj
def serve(app: App) -> None:
    from oncue.cli.progress import StatusLine
    from oncue.cli.stopping import Stopping

    refuse_json(app)
    cue = app.cue
    if cue.store.describe()["kind"] == "memory":
        raise InvalidInput(
            "a memory store has no jobs but those of this process, so there is nothing to serve. "
            "Name a file: --store sqlite:///jobs.db"
        )
    line = StatusLine()
    for handler in logging.getLogger().handlers:
        handler.addFilter(line.make_room)
    with Stopping("finishing deliveries under way") as stopping:
        began = cue.clock.monotonic()
        click.echo(f"oncue serve: pid {os.getpid()}, {place(cue)}; {_routes(cue)}.", err=True)
        cue.run_loops()
        _show(line, _status(cue, 0.0))
        while not stopping.wait(STATUS_SECONDS):
            _show(line, _status(cue, cue.clock.monotonic() - began))
        line.clear()
        finished = cue.engine.stop(GRACE_SECONDS)
    if not finished:
        click.echo(
            f"Some deliveries did not end within {GRACE_SECONDS:.0f} s; "
            "they will be repeated when their lease has ended.",
            err=True,
        )
        raise click.exceptions.Exit(EXIT_FAILED)
    click.echo("Stopped.", err=True)


def place(cue: Scheduler) -> str:
    """The store and its promises, in half a line."""
    facts = cue.store.describe()
    told = [f"store {facts['kind']}" + (f" {abspath(facts['path'])}" if "path" in facts else "")]
    told += [f"schema {facts['schema']}"] if "schema" in facts else []
    told += [f"{name} {facts[name]}" for name in ("journal_mode", "synchronous") if name in facts]
    return ", ".join(told)


def _routes(cue: Scheduler) -> str:
    routes = [f"{queue.name} → {queue.sink}" for queue in cue.queues() if queue.sink is not None]
    if not routes:
        return "no queue has a sink yet, so nothing is delivered"
    return f"delivering {', '.join(routes)}"


def _show(line: StatusLine, text: str) -> None:
    if line.shown:
        line.show(text)
    else:
        logger.info("%s", text)


def _status(cue: Scheduler, up_seconds: float) -> str:
    from oncue.cli import output
    from oncue.cli.progress import counted
    from oncue.core.lifecycle import LIVE, State

    try:
        stats = [cue.stats(queue.name) for queue in cue.queues()]
    except OncueError as trouble:  # the loops go on trying, and so does this line
        return f"up {output.length(up_seconds)} · {trouble}"
    now = cue.clock.now()
    waiting = sum(one.counts.get(State.SCHEDULED, 0) for one in stats)
    taken = sum(one.counts.get(state, 0) for one in stats for state in LIVE)
    oldest = min((one.oldest_due_at for one in stats if one.oldest_due_at is not None), default=now)
    late = f"{output.length((now - oldest) / 1000)} late" if oldest < now else "nothing late"
    up, queues = output.length(up_seconds), counted(len(stats), "queue")
    return f"up {up} · {queues} · {waiting:,} scheduled · {taken:,} taken · {late}"
