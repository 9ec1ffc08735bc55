"""`oncue reclaim`: look for claims that were silent too long, and take them back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import click

from oncue.cli import output
from oncue.cli.app import App, Finite, common
from oncue.cli.progress import ProgressBar, counted
from oncue.core import reclaim as runs
from oncue.core.reclaim import ReclaimFinding, ReclaimParameters, ReclaimReport
from oncue.wire import reclaim as wire

_IGNORED = "For tables of others; ignored here."


_HELP = {
    "reclaim_age_minutes": "How long a claim must have been silent; 0: since the run began.",
    "maximum_execution_seconds": "A soft end; 0: look, and reclaim nothing.",
    "scan_delay_millis": "The pause between pages.",
    "target_batch_size": "Claims gathered before any is reclaimed.",
    "object_scan_limit": "Claims looked at in a page.",
    "mode": "Retry while attempts remain, or fail at once.",
}


def _parameters(command: Callable[..., None]) -> Callable[..., None]:
    types = {
        "mode": click.Choice(["retry", "fail"]),
        **{name: Finite(0, most) for name, most in runs.NUMBERS.items()},
        **{name: click.IntRange(*bounds) for name, bounds in runs.WHOLE_NUMBERS.items()},
    }
    defaults = ReclaimParameters()
    for name in reversed(runs.FOREIGN):
        command = _option(name, metavar="TEXT", help=_IGNORED, hidden=True)(command)
    for name in reversed(_HELP):
        default = getattr(defaults, name)
        help_text = _HELP[name]
        option = _option(name, types[name], default=default, show_default=True, help=help_text)
        command = option(command)
    return command


def _option(name: str, kind: Any = None, **attributes: Any) -> Callable[..., Callable[..., None]]:
    return click.option(f"--{name.replace('_', '-')}", type=kind, **attributes)


@click.command()
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
def reclaim(app: App, /, **given: Any) -> None:
    """Reclaim jobs whose workers sent no heartbeat for some time: retried while attempts remain,
    else failed. Leases and timeouts are looked after by 'oncue serve' and every worker all the
    time; this is for what they leave alone, such as jobs without either.

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


def _foretell(findings: list[ReclaimFinding]) -> None:
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
