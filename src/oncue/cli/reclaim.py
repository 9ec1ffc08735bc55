"""`oncue reclaim`: look for claims that were silent too long, and take them back."""

from __future__ import annotations

import logging
from typing import Any

import click

from oncue.cli import output
from oncue.cli.app import App, Command, Finite, common
from oncue.cli.nouns import confirm, dry_run_option, require_terminal, yes_option
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
    """An option for each parameter of a reclaim run. Those for tables of others are known, to be
    refused with the reason."""
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
@yes_option
@dry_run_option("happen and why", "--log-reclaim-only", "log_reclaim_only")
@common
def reclaim(app: App, /, yes: bool, **given: Any) -> None:
    """Reclaim jobs whose workers sent no heartbeat for some time: retried while attempts remain,
    else failed. 'oncue serve' and every worker check leases and timeouts all the time; this command
    is for claims that they do not reclaim, such as those with neither. It needs an age, or --yes:
    without an age it takes jobs from healthy workers too.

    $ oncue reclaim --dry-run --reclaim-age-minutes 30
    $ oncue reclaim --reclaim-age-minutes 4320 --mode fail
    $ oncue reclaim --url https://jobs.example.com --reclaim-age-minutes 60 --json
    """
    if app.settings["log_level"].origin == "default":  # the answer tells all of it
        logging.getLogger("oncue.engine").setLevel(logging.ERROR)
    parameters = runs.parameters(given)
    _require_own_store(parameters)
    if not yes and not parameters.log_reclaim_only and not _is_age_given():
        _ask()
    report = _run(app, parameters)
    if app.as_json:
        output.document(wire.ReclaimReport.of(report))
        return
    for warning in report.warnings:
        output.note(f"Warning: {warning}")
    if report.would_reclaim:
        _show_candidates(report.would_reclaim)
    click.echo(_summary(report))


def _require_own_store(parameters: ReclaimParameters) -> None:
    given = [name for name in runs.FOREIGN if getattr(parameters, name) is not None]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise click.UsageError(
            f"{option} is for tables of other systems, and this command reclaims jobs of oncue's "
            "own store. Leave it out; or, for such a table: oncue aws invoke reclaim --event FILE"
        )


def _is_age_given() -> bool:
    source = click.get_current_context().get_parameter_source("reclaim_age_minutes")
    return source is not click.core.ParameterSource.DEFAULT


def _ask() -> None:
    require_terminal(
        "without an age, jobs are taken from healthy workers too. Add --reclaim-age-minutes N; or "
        "--yes to take all of them, or --dry-run to see them."
    )
    confirm("Without --reclaim-age-minutes, jobs are taken from healthy workers too. Go on?")


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


def _show_candidates(findings: list[Candidate]) -> None:
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
