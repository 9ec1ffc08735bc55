"""`oncue forecast`: what is due ahead, and how late the last of it will be."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click

from oncue.cli import output
from oncue.cli.app import App, Cue, Finite, common
from oncue.cli.progress import counted
from oncue.core import forecast as core
from oncue.core.errors import NotSupported
from oncue.core.forecast import Step
from oncue.core.moment import Moment, render, to_datetime
from oncue.core.queue import Queue

SECOND_MS = 1000
STEPS_MS = {"minute": 60_000, "hour": 3_600_000}
FINEST = 100_000  # moments that are told apart over the whole time ahead
MOST_OCCURRENCES = 50_000  # of schedules; a few seconds' work
NOTICEABLE_SECONDS = 1.0
SENTENCES = 3
HOURS = Finite(0, 24 * 366, min_open=True)


@dataclass(slots=True)
class Ahead:
    """What the store knows of the time ahead."""

    now: Moment
    until: Moment
    begins: list[Moment]
    dues: Counter[Moment] = field(default_factory=Counter)
    """How many are due at each moment; what is overdue counts as due now."""
    overdue: int = 0
    overdue_since: Moment | None = None
    paused: dict[str, int] = field(default_factory=dict)
    """Jobs that are due by then in queues that are paused; not in `dues`."""
    occurrences: int = 0
    """How many in `dues` are occurrences of schedules that are not jobs yet."""
    cut_at: Moment | None = None
    """From here on, occurrences were too many to count."""
    running: bool = True
    """Whether any process runs the loops or a worker."""
    uncounted: str = ""
    """Why the jobs that are stored are not known, if they are not."""


@click.command()
@click.option("--hours", type=HOURS, default=24.0, help="How far to look ahead.")
@click.option("--step", type=click.Choice(list(STEPS_MS)), help="How long each line is.")
@click.option("--rate", type=Finite(0.001), metavar="N", help="Jobs handed over per second.")
@common
def forecast(app: App, hours: float, step: str | None, rate: float | None) -> None:
    """Forecast what is due ahead, jobs and occurrences of schedules, and how late it will be. Every
    line is one step (by default a minute up to 2 hours, else an hour) and the lateness of its last
    job. Without --rate, the rate is what oncue hands over on this machine, measured for about a
    second in a file beside the store (of a server, in one here), or what a queue of a DynamoDB
    table allows; handlers and sinks may be slower than that.

    $ oncue forecast
    $ oncue forecast --hours 2 --step minute
    $ oncue forecast --rate 5000
    """
    step = step or ("minute" if hours <= 2 else "hour")
    ahead = look_ahead(app, round(hours * 3_600_000), STEPS_MS[step])
    origin = "option"
    if rate is None:
        rate, origin = _rate(app)
    steps = core.forecast(ahead.dues, ahead.begins, ahead.until, rate)
    if app.as_json:
        _document(ahead, steps, rate, origin)
        return
    _show(ahead, steps, rate, step)
    if note := _ORIGINS.get(origin):
        where = "this machine" if app.url is None else "this machine, not on the server's"
        output.note(
            f"The rate, {_pace(rate)}, {note.format(where)}, into a sink that takes everything; if "
            "yours or your handlers are slower, say so with --rate."
        )


_ORIGINS = {
    "measured": "was measured just now on {}",
    "shards": "is what the partitions of a queue with the usual shards allow",
}


def _rate(app: App) -> tuple[float, str]:
    """Jobs per second, and how that is known. A table is not measured: that would cost money."""
    if app.url is None and app.scheduler.store.describe().kind == "dynamodb":
        from oncue.stores.dynamodb.health import DRAINED_PER_SECOND

        return DRAINED_PER_SECOND, "shards"
    from oncue.cli.drain import measured_rate

    return measured_rate(_folder(app)), "measured"


def _folder(app: App) -> Path | None:
    """Where to measure: beside the store, if it is a file; for a server, on any disk here."""
    if app.url is not None:
        return Path(tempfile.gettempdir())
    return None if app.file is None else app.file.absolute().parent


def look_ahead(app: App, length_ms: int, step_ms: int) -> Ahead:
    now = -(-app.cue.clock.now() // SECOND_MS) * SECOND_MS  # so that 09:00 is a moment of its own
    until = now + length_ms
    offset = to_datetime(now).astimezone().utcoffset()
    shift = 0 if offset is None else round(offset.total_seconds() * 1000)
    first = (now + shift) // step_ms * step_ms - shift  # steps begin on the full local hour
    ahead = Ahead(now, until, [now, *range(first + step_ms, until, step_ms)])
    fine_ms = -(-length_ms // (FINEST * SECOND_MS)) * SECOND_MS
    try:
        for queue, stats in app.cue.queues_with_stats():
            _add(ahead, app.cue, queue, stats.oldest_due_at, fine_ms)
    except NotSupported as lack:
        ahead.uncounted = str(lack)
    _add_occurrences(ahead, app.cue, fine_ms)
    ahead.running = any(node.engine or node.works for node in app.cue.nodes())
    return ahead


def _add_occurrences(ahead: Ahead, cue: Cue, fine_ms: int) -> None:
    """Schedules make their jobs only shortly before they are due."""
    paused = {queue.name for queue in cue.queues() if queue.paused}
    found = core.coming(cue.schedules(), ahead.now, ahead.until, MOST_OCCURRENCES)
    ahead.cut_at = found.cut_at
    for at, queue in found.occurrences:
        if queue in paused:
            ahead.paused[queue] = ahead.paused.get(queue, 0) + 1
        else:
            ahead.occurrences += 1
            ahead.dues[max(ahead.now, at - (at - ahead.now) % fine_ms)] += 1


def _add(ahead: Ahead, cue: Cue, queue: Queue, oldest: Moment | None, fine_ms: int) -> None:
    dues = Counter(cue.due_counts(queue.name, ahead.now, ahead.until, fine_ms))
    # Not from `oldest` on: jobs that are put off may have been due before it.
    overdue = sum(cue.due_counts(queue.name, 0, ahead.now, ahead.now).values())
    if queue.paused:
        if waiting := dues.total() + overdue:
            ahead.paused[queue.name] = waiting
        return
    ahead.dues.update(dues)
    if overdue:
        ahead.dues[ahead.now] += overdue
    if overdue and oldest is not None and oldest < ahead.now:
        ahead.overdue += overdue
        ahead.overdue_since = min(oldest, ahead.overdue_since or oldest)


def sentences(ahead: Ahead, steps: list[Step], rate: float) -> list[str]:
    """What is worth saying: the steps whose last job comes noticeably late, the worst first."""
    texts, pace = [], _pace(rate)
    if ahead.overdue_since is not None:
        since = output.length((ahead.now - ahead.overdue_since) / 1000)
        jobs = f"{counted(ahead.overdue, 'job')} {'is' if ahead.overdue == 1 else 'are'}"
        takes = f"at {pace} this backlog takes {output.length(ahead.overdue / rate)}"
        texts.append(f"{jobs} overdue, the oldest by {since}; {takes}.")
    late = [one for one in steps if one.late_seconds >= NOTICEABLE_SECONDS]
    for one in sorted(late, key=lambda one: -one.late_seconds)[:SENTENCES]:
        last = f"at {pace} the last is {output.length(one.late_seconds)} late"
        texts.append(f"{_what_is_due(one, ahead)} are due; {last}.")
    if not texts and (ahead.dues or not ahead.uncounted):
        texts.append(f"At {pace} nothing is noticeably late.")
    if ahead.uncounted:
        texts.append(f"Jobs that are stored are left out. {ahead.uncounted}")
    if ahead.occurrences:
        texts.append(
            f"Occurrences of schedules are included ({ahead.occurrences:,}); they become jobs "
            "shortly before they are due."
        )
    if ahead.cut_at is not None:
        texts.append(f"Those from {_clock(ahead.cut_at, ahead.now)} on were too many to count.")
    if ahead.dues and not ahead.running:
        texts.append(
            "Neither 'oncue serve' nor work() runs now; this holds once somebody hands over jobs."
        )
    for queue, count in ahead.paused.items():
        texts.append(f"Queue {queue} is paused: {counted(count, 'job')} left out.")
    return texts


def _pace(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.3g}/s"  # 0.5/s is not 0/s


def _what_is_due(step: Step, ahead: Ahead) -> str:
    """When, and how many: at the peak itself, or up to it where no moment stands out."""
    assert step.peak_at is not None
    at_peak = ahead.dues[step.peak_at]
    by_then = sum(n for at, n in ahead.dues.items() if step.begins_at <= at <= step.peak_at)
    peak = _clock(step.peak_at, ahead.now)
    if 2 * at_peak >= by_then:
        return f"At {peak} {at_peak:,}"
    return f"From {_clock(step.begins_at, ahead.now)} to {peak} {by_then:,}"


def _clock(moment: Moment, now: Moment) -> str:
    return output.time_of(to_datetime(moment), to_datetime(now))


def _show(ahead: Ahead, steps: list[Step], rate: float, step: str) -> None:
    click.echo("\n".join(sentences(ahead, steps, rate)))
    shown = [one for one in steps if one.due or one.backlog]
    if shown:
        most = max(one.due for one in shown)
        lines = [
            (
                _clock(one.begins_at, ahead.now),
                f"{one.due:,}",
                output.bar(one.due / most if most else 0),
                f"{one.backlog:,}",
                output.length(one.late_seconds) if one.due else "–",
            )
            for one in shown
        ]
        click.echo()
        output.table((step, "due", "", "left over", "last is late"), lines, right=(1, 3, 4))
    elif not ahead.overdue and not ahead.uncounted:
        click.echo(f"Nothing is due until {_clock(ahead.until, ahead.now)}.")


def _document(ahead: Ahead, steps: list[Step], rate: float, origin: str) -> None:
    output.document(
        {
            "begins_at": render(ahead.now),
            "ends_at": render(ahead.until),
            "rate_per_second": round(rate, 1),
            "rate_origin": origin,
            "overdue": None if ahead.uncounted else ahead.overdue,
            "paused": ahead.paused,
            "occurrences": ahead.occurrences,
            "occurrences_until": None if ahead.cut_at is None else render(ahead.cut_at),
            "running": ahead.running,
            "steps": [
                {
                    "begins_at": render(step.begins_at),
                    "due": step.due,
                    "backlog": step.backlog,
                    "late_seconds": round(step.late_seconds, 3),
                }
                for step in steps
            ],
            "sentences": sentences(ahead, steps, rate),
        }
    )
