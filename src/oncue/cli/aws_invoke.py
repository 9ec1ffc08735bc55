"""`oncue aws invoke`: a Lambda handler on this machine."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

import oncue.aws
from oncue.aws import HANDLERS, sandbox
from oncue.aws.invocation import LocalContext, scheduled_event
from oncue.cli import output
from oncue.cli.app import App, Finite, store_only
from oncue.cli.failures import EXIT_FAILED
from oncue.clock import SystemClock
from oncue.core.errors import OncueError
from oncue.core.text import suggestion

ON_A_SCHEDULE = ("dispatch", "start_scheduled_tasks")
PREFIX = "oncue.aws."
LONGEST_SECONDS = 900  # of a Lambda function


@click.command()
@click.argument("name")
@click.option("--event", "file", metavar="FILE", help="The event as JSON; - is standard input.")
@click.option(
    "--timeout",
    "seconds",
    type=Finite(1, LONGEST_SECONDS),
    metavar="SECONDS",
    default=60,
    help="The time that the function has.",
)
@click.option("--quiet", is_flag=True, help="Without the lines of metrics.")
@store_only
def invoke(app: App, name: str, file: str | None, seconds: float, quiet: bool) -> None:
    """Run a Lambda handler on this machine, and print its answer. NAME is api, dispatch,
    forward_started, reclaim or start_scheduled_tasks. The answer goes to standard output as JSON;
    what the function would log, its metrics too, to standard error. Sinks come from ONCUE_SINK_… or
    from the queues, as in Lambda.

    Without --event, dispatch and start_scheduled_tasks get the event that EventBridge would send
    now, and reclaim gets {}, which is a reclaim run on the store. The handler is not stopped when
    its time is over, as Lambda would do; it is told how much is left.

    $ oncue aws invoke dispatch
    $ oncue aws invoke start_scheduled_tasks --event - <<< '{"date": "2022-02-01"}'
    $ oncue aws invoke api --event request.json --quiet
    """
    name = _known(name)
    event = _event(name, file)
    if not _is_foreign(event):
        app.require_store()
    os.environ["ONCUE_STORE"] = app.place
    try:
        with redirect_stdout(io.StringIO() if quiet else sys.stderr):
            answer = getattr(oncue.aws, name)(event, LocalContext(name, seconds))
    except Exception as error:
        if not isinstance(error, OncueError):
            traceback.print_exc()
        click.echo(f"Error: {name} failed: {type(error).__name__}: {error}", err=True)
        raise click.exceptions.Exit(EXIT_FAILED) from None
    finally:
        sandbox.close()
    output.document(answer)


def _known(name: str) -> str:
    name = name.removeprefix(PREFIX)
    if name not in HANDLERS:
        hint = suggestion(name, HANDLERS) or f" There are {', '.join(sorted(HANDLERS))}."
        raise click.UsageError(f"there is no handler {name!r}.{hint}")
    return name


def _event(name: str, file: str | None) -> Any:
    if file is not None:
        return _read(file)
    if name in ON_A_SCHEDULE:
        return scheduled_event(SystemClock().now())
    if name == "reclaim":
        return {}
    raise click.UsageError(f"{name} needs an event: give --event FILE, or --event - for stdin.")


def _read(file: str) -> Any:
    shown = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{shown}, line {error.lineno}, column {error.colno}"
        raise click.UsageError(f"--event: {place}: not JSON: {error.msg}.") from None
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--event: {shown} is not UTF-8: {error.reason}.") from None
    except OSError as error:
        raise click.UsageError(f"--event: {shown}: {error.strerror}.") from None


def _is_foreign(event: Any) -> bool:
    """Whether it is a reclaim run on a table of another system: then no store is opened."""
    parameters = event.get("detail") or event if isinstance(event, Mapping) else {}
    return isinstance(parameters, Mapping) and "tableName" in parameters
