"""`oncue jobs` with one job: add, reschedule, show and explain."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from typing import Any

import click
import msgspec

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.times import LENGTH, TIME
from oncue.clock import SystemClock
from oncue.core import payload as payloads
from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.job import History, Job
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime, parse, to_datetime
from oncue.core.text import why_not_json
from oncue.usecases import intake
from oncue.wire import jobs as wire
from oncue.wire.converting import written

READ_LIMIT = 2 * payloads.LIMIT_BYTES  # spaces and escapes do not count


_at_option = click.option(
    "--at", type=TIME, help="Due then: RFC 3339, or 'YYYY-MM-DD HH:MM' local."
)
_delay_option = click.option(
    "--delay", type=LENGTH, help="Due after this: 90, 90s, 15m, 2h30m, 3d, PT15M."
)


@click.command()
@click.argument("payload", required=False)
@click.option("--queue", default="default", help="The queue of the job.")
@_at_option
@_delay_option
@click.option("--owner", metavar="TEXT", help="To whom the job belongs.")
@click.option("--key", metavar="TEXT", help="At most one unfinished job per queue and key.")
@click.option(
    "--if-exists",
    type=click.Choice(["keep", "replace"]),
    default="keep",
    help="When the key is taken: keep that job, or give it the new time and payload.",
)
@click.option("--priority", type=int, metavar="0-9", help="Among due jobs, higher runs first.")
@click.option("--expires-at", type=TIME, help="Cancel it if it was not claimed by then.")
@click.option("--max-attempts", type=int, metavar="1-20", help="Instead of that of the queue.")
@click.option("--timeout", "timeout_seconds", type=LENGTH, help="How long an attempt may take.")
@click.option("--id", metavar="ID", help="Choose the id: repeating the command stores it once.")
@common
def add(app: App, /, payload: str | None, **given: Any) -> None:
    """Store a job. PAYLOAD is JSON; '-', or none with something piped in, reads it from standard
    input. Without --at or --delay the job is due at once.

    $ oncue jobs add --queue mail --delay 2h30m '{"to": "ada"}'
    $ oncue jobs add --at '2026-12-24 18:00' --key tree '{}'
    $ cat order.json | oncue jobs add --queue orders --max-attempts 5
    """
    app.may_create = True
    fields = {name: value for name, value in given.items() if value is not None}
    fields["payload"] = _payload(payload)
    if app.is_missing:  # a job that is refused leaves no empty store behind
        intake.new_job(fields, SystemClock().now())
    job, existed = app.cue.store_job(fields)
    _tell_due(app, job)
    if existed:
        output.note(_existed(job, given))


@click.command()
@click.argument("job_id", metavar="ID")
@_at_option
@_delay_option
@common
def reschedule(app: App, job_id: str, at: datetime | None, delay: float | None) -> None:
    """Give a scheduled job another due time.

    $ oncue jobs reschedule ID --delay 2h
    $ oncue jobs reschedule ID --at '2026-12-24 18:00'
    """
    if (at is None) is (delay is None):
        raise click.UsageError("say when it is due: either --at or --delay.")
    _tell_due(app, app.cue.reschedule(job_id, at=at, delay=delay))


def _tell_due(app: App, job: Job) -> None:
    if app.as_json:
        output.document(written(wire.Job, job))
        return
    now = app.cue.clock.now()
    when = "now" if from_datetime(job.due_at) <= now else output.relative(job.due_at, now)
    due = f"{output.moment(job.due_at)} ({when})"
    output.pairs(("id", job.id), ("queue", job.queue), ("due", due))


def _existed(job: Job, given: dict[str, Any]) -> str:
    if job.id == given["id"]:
        return "This job was there already; nothing was stored."
    if given["if_exists"] == "replace":
        return f"The job that holds the key {job.key!r} got the new time and payload."
    return f"The key {job.key!r} is held by this unfinished job; nothing was stored."


def _payload(argument: str | None) -> Any:
    """The payload from the argument, or from what is piped in; nothing piped in is null."""
    text: str | bytes = argument or ""
    at_terminal = sys.stdin is None or sys.stdin.isatty()
    if argument == "-" or (argument is None and not at_terminal):
        text = sys.stdin.buffer.read(READ_LIMIT + 1)
        if len(text) > READ_LIMIT:
            raise TooLarge("standard input holds too much; at most 256 KiB are allowed.", "PAYLOAD")
    if argument is None and not text.strip():
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        quotes = " Text needs its own quotes: '\"like this\"'." if isinstance(text, str) else ""
        raise InvalidInput(f"is not JSON: {why_not_json(problem)}.{quotes}", "PAYLOAD") from None


@click.command()
@click.argument("job_id", metavar="ID")
@common
def show(app: App, job_id: str) -> None:
    """Show everything about one job, with a timeline.

    $ oncue jobs show ID
    $ oncue jobs show ID --json | jq .attempts
    """
    job = app.cue.job(job_id)
    history = _whole_history(app, job_id)
    if app.as_json:
        output.document(written(wire.JobWithHistory, job, history))
    else:
        from oncue.cli import timeline

        job = _with_put_off(app, job)
        timeline.draw(job, app.cue.queue(job.queue), history, app.cue.clock.now())


def _whole_history(app: App, job_id: str) -> History:
    """With all operations: one answer has only the first of very many."""
    history = app.cue.history(job_id)
    while history.operations_cursor is not None:
        rest = app.cue.history(job_id, history.operations_cursor)
        operations = history.operations + rest.operations
        cursor = rest.operations_cursor
        history = replace(history, operations=operations, operations_cursor=cursor)
    return history


def _with_put_off(app: App, job: Job) -> Job:
    """The job, with until when it is put off. A server does not tell that with the job, but
    explains it."""
    if app.url is None or job.state is not State.SCHEDULED or job.error is None:
        return job
    explanation = app.cue.explain(job.id)
    if explanation.reason != "put_off":
        return job
    not_before = to_datetime(parse(explanation.facts["not_before"]))
    return job._replace(not_before=not_before, refusals=explanation.facts["refusals"])


@click.command()
@click.argument("job_id", metavar="ID")
@common
def explain(app: App, job_id: str) -> None:
    """Explain why a job has not run, or is in its state.

    $ oncue jobs explain ID
    $ oncue jobs explain ID --json | jq -r .reason
    """
    explanation = app.cue.explain(job_id)
    if app.as_json:
        output.document(written(wire.Explanation, explanation))
        return
    click.echo(output.localised(output.clean(explanation.sentence)))
    click.echo()
    facts = explanation.facts.items()
    shown = [(name, _fact(value)) for name, value in facts if value is not None]
    output.pairs(("reason", explanation.reason), *shown)


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return output.localised(output.clean(str(value)))
