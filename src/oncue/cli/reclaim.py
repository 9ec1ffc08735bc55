"""`oncue reclaim`: look for claims that were silent too long, and take them back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import click

from oncue import reclaimwire
from oncue.cli import output
from oncue.cli.app import App, Finite, common, examples
from oncue.cli.place import require_file
from oncue.cli.progress import ProgressBar, counted
from oncue.core import reclaim as runs
from oncue.core.reclaim import Finding, ReclaimParameters, ReclaimReport

_IGNORED = "For tables of others; ignored here."


def _parameters(command: Callable[..., None]) -> Callable[..., None]:
    page = click.IntRange(1, runs.LARGEST_PAGE)
    for name in ("agenda-progress-endpoint-url", "time-field-name", "id-field-name", "table-name"):
        command = click.option(f"--{name}", metavar="TEXT", help=_IGNORED, hidden=True)(command)
    for decorate in (
        click.option(
            "--mode",
            type=click.Choice(["retry", "fail"]),
            default="retry",
            show_default=True,
            help="Retry while attempts remain, or fail at once.",
        ),
        click.option(
            "--object-scan-limit",
            type=page,
            default=50,
            show_default=True,
            help="Claims looked at in a page.",
        ),
        click.option(
            "--target-batch-size",
            type=page,
            default=50,
            show_default=True,
            help="Claims gathered before any is reclaimed.",
        ),
        click.option(
            "--scan-delay-millis",
            type=click.IntRange(0, runs.LONGEST_DELAY_MILLIS),
            default=0,
            show_default=True,
            help="The pause between pages.",
        ),
        click.option(
            "--maximum-execution-seconds",
            type=Finite(0, runs.LONGEST_RUN_SECONDS),
            default=60,
            show_default=True,
            help="A soft end; 0: look, and reclaim nothing.",
        ),
        click.option(
            "--reclaim-age-minutes",
            type=Finite(0, runs.OLDEST_MINUTES),
            default=0,
            show_default=True,
            help="How long a claim must have been silent; 0: since the run began.",
        ),
    ):
        command = decorate(command)
    return command


@click.command(
    help=examples(
        "oncue reclaim --dry-run --reclaim-age-minutes 30",
        "oncue reclaim --reclaim-age-minutes 4320 --mode fail",
        "oncue reclaim --url https://jobs.example.com --reclaim-age-minutes 60 --json",
    )
    + "\n\nTake back jobs whose workers were silent for longer than an age: retried while attempts "
    "remain, else failed. Leases and timeouts are looked after by 'oncue serve' and every worker "
    "all the time; this is for what they leave alone, such as jobs without either."
)
@_parameters
@click.option(
    "--dry-run",
    "-n",
    "--log-reclaim-only",
    "log_reclaim_only",
    is_flag=True,
    help="Say what would happen and why, change nothing.",
)
@common
@click.pass_obj
def reclaim(app: App, /, **given: Any) -> None:
    require_file(app)
    if app.settings["log_level"].origin == "default":  # the answer tells all of it
        logging.getLogger("oncue.engine").setLevel(logging.ERROR)
    report = _run(app, runs.parameters(given))
    if app.as_json:
        output.document(reclaimwire.report_members(report))
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
    from oncue.reclaiming import started

    run = started(app.scheduler, parameters)
    alarm = Alarm(app.scheduler.clock)
    bar: ProgressBar | None = None
    try:
        while (rest := run.step()) is not None:
            bar = bar or _bar(run.live)
            done = run.report.reclaimed + run.report.would_reclaim_count
            tail = f"{counted(run.report.scanned, 'claim')} seen, {done:,} decided"
            bar.update(run.report.scanned, tail)
            alarm.pause(rest)
    finally:
        if bar is not None:
            bar.clear()
    return run.report


def _bar(total: int | None) -> ProgressBar:
    bar = ProgressBar("Reclaiming", total)
    for handler in logging.getLogger().handlers:
        handler.addFilter(bar.make_room)
    return bar


def _foretell(findings: list[Finding]) -> None:
    head = ["id", "queue", "state", "attempt", "silent", "worker", "would", "why"]
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
    output.table(head, lines, right=[3, 4])


def _summary(report: ReclaimReport) -> str:
    told = [f"{counted(report.scanned, 'claim')} seen"]
    if report.would_reclaim is not None:
        told.append(f"{report.would_reclaim_count:,} would be reclaimed")
    else:
        told.append(
            f"{report.reclaimed:,} reclaimed ({report.retried:,} to be retried, "
            f"{report.failed:,} failed, {report.cancelled:,} cancelled)"
        )
    if report.lost_races:
        told.append(f"{report.lost_races:,} moved on meanwhile")
    if report.anomalies:
        told.append(f"{report.anomalies:,} last updated in the future")
    ended = "" if report.ended_by == "end" else " The time was over; run it again for the rest."
    return f"{', '.join(told)}.{ended}"
