"""`oncue reclaim`: look for claims that were silent too long, and take them back."""

from __future__ import annotations

import logging
from typing import Any

import click

from oncue.cli import output
from oncue.cli.app import App, Command, Finite, common
from oncue.cli.nouns import dry_run_option
from oncue.cli.progress import ProgressBar, counted
from oncue.core import reclaim as runs
from oncue.core.reclaim import Candidate, ReclaimParameters, ReclaimReport
from oncue.wire import reclaim as wire
from oncue.wire.descriptions import descriptions

_TYPES = {
    "mode": click.Choice(["retry", "fail"]),
    **{name: Finite(0, most) for name, most in runs.NUMBERS.items()},
    **{name: click.IntRange(*bounds) for name, bounds in runs.WHOLE_NUMBERS.items()},
}


def _parameters(command: Command) -> Command:
    """An option for each parameter of a reclaim run. Those for tables of others are accepted and
    ignored."""
    defaults, texts = ReclaimParameters(), descriptions(wire.ReclaimParameters)
    for shown, name in reversed(wire.PARAMETERS.items()):
        if name != "log_reclaim_only":  # it is --dry-run
            command = click.option(
                f"--{name.replace('_', '-')}",
                type=_TYPES.get(name),
                default=getattr(defaults, name),
                help=texts.get(shown),
                hidden=name in runs.FOREIGN,
            )(command)
    return command


@click.command()
@_parameters
@dry_run_option("happen and why", "--log-reclaim-only", "log_reclaim_only")
@common
def reclaim(app: App, /, **given: Any) -> None:
    """Reclaim jobs whose workers sent no heartbeat for some time: retried while attempts remain,
    else failed. 'oncue serve' and every worker check leases and timeouts all the time; this command
    is for claims that they do not reclaim, such as those with neither.

    $ oncue reclaim --dry-run --reclaim-age-minutes 30
    $ oncue reclaim --reclaim-age-minutes 4320 --mode fail
    $ oncue reclaim --url https://jobs.example.com --reclaim-age-minutes 60 --json
    """
    if app.settings["log_level"].origin == "default":  # the answer tells all of it
        logging.getLogger("oncue.engine").setLevel(logging.ERROR)
    report = _run(app, runs.parameters(given))
    if app.as_json:
        output.document(wire.ReclaimReport.of(report))
        return
    for warning in report.warnings:
        output.note(f"Warning: {warning}")
    if report.would_reclaim:
        _foretell(report.would_reclaim)
    click.echo(_summary(report))


def _run(app: App, parameters: ReclaimParameters) -> ReclaimReport:
    """Here, step by step, with a bar; a server does it by itself."""
    if app.url is not None:
        return app.client.reclaim(**{name: getattr(parameters, name) for name in runs.NAMES})
    from oncue.engine.alarm import Alarm
    from oncue.usecases.reclaim import started

    run = started(app.scheduler, parameters)
    alarm = Alarm(app.scheduler.clock)
    with ProgressBar("Reclaiming", None) as bar:
        while (rest := run.step()) is not None:
            bar.total = run.live
            decided = run.report.reclaimed + run.report.would_reclaim_count
            tail = f"{counted(run.report.scanned, 'claim')} seen, {decided:,} decided"
            bar.update(run.report.scanned, tail)
            alarm.pause(rest)
    return run.report


def _foretell(findings: list[Candidate]) -> None:
    lines = [
        [
            one.id,
            one.queue,
            output.state(one.state),
            str(one.attempt),
            output.length(one.age_seconds),
            output.clean(one.worker),
            one.decision,
            output.clean(one.why),
        ]
        for one in findings
    ]
    head = ["id", "queue", "state", "attempt", "silent", "worker", "would", "why"]
    output.table(head, lines, right=[3, 4])


def _summary(report: ReclaimReport) -> str:
    parts = [f"{counted(report.scanned, 'claim')} seen"]
    if report.would_reclaim is not None:
        parts.append(f"{report.would_reclaim_count:,} would be reclaimed")
    else:
        parts.append(
            f"{report.reclaimed:,} reclaimed ({report.retried:,} to be retried, "
            f"{report.failed:,} failed, {report.cancelled:,} cancelled)"
        )
    if report.lost_races:
        parts.append(f"{report.lost_races:,} moved on meanwhile")
    if report.anomalies:
        parts.append(f"{report.anomalies:,} last updated in the future")
    ended = "" if report.ended_by == "end" else " The time was over; run it again for the rest."
    return f"{', '.join(parts)}.{ended}"
