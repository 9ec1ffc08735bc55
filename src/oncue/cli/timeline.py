"""`oncue jobs show`: a job's fields, then what happened to it, drawn on one scale of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import click

from oncue.cli import output
from oncue.cli.output import Cells
from oncue.core.job import Attempt, Diagnostic, History, Job, Operation
from oncue.core.moment import Moment, from_datetime
from oncue.core.queue import Queue

LANE = 30  # columns of the drawing; on a terminal too narrow for it, it is left out
INDENT = "  "
_OUTCOMES = {"succeeded": "green", "failed": "red", "retried": "red", "reclaimed": "red"}


def draw(job: Job, queue: Queue, history: History, now: Moment) -> None:
    output.pairs(*_fields(job, queue, now))
    _section("Timeline", _timeline(job, history, now))
    _section("Operations", _operations(history.operations))
    _section("Diagnostics", _diagnostics(history.diagnostics))


def _section(title: str, lines: list[str]) -> None:
    if lines:
        click.echo("\n".join(["", output.paint(title, bold=True), *lines]))


def _fields(job: Job, queue: Queue, now: Moment) -> Iterable[tuple[str, str]]:
    def at(when: datetime | None) -> str:
        return "" if when is None else f"{output.moment(when)} ({output.relative(when, now)})"

    timeout = job.timeout_seconds or queue.timeout_seconds
    allowed = job.max_attempts or queue.max_attempts
    earlier = f" ({job.attempt_base:,} more not counted)" if job.attempt_base else ""
    wanted = " (cancel requested)" if job.cancel_requested else ""
    return [
        ("id", job.id),
        ("queue", job.queue + (" (paused)" if queue.paused else "")),
        ("state", output.state(job.state) + wanted),
        ("due", at(job.due_at)),
        ("put off", _put_off(job, at(job.not_before))),
        ("expires", at(job.expires_at)),
        ("owner", output.clean(job.owner)),
        ("key", output.clean(job.key)),
        ("priority", str(job.priority)),
        ("attempt", f"{job.attempt - job.attempt_base} of {allowed}{earlier}"),
        ("timeout", "" if timeout is None else output.length(timeout)),
        ("worker", output.clean(job.worker)),
        ("lease", at(job.lease_until)),
        ("created", at(job.created_at)),
        ("updated", at(job.updated_at)),
        ("finished", at(job.finished_at)),
        ("payload", output.clean(job.payload_json.decode())),
        ("result", "" if job.result_json is None else output.clean(job.result_json.decode())),
        ("error", output.paint(output.clean(job.error), "red") if job.error else ""),
        ("message", output.clean(job.message)),
        ("percent", "" if job.percent is None else _percent(job.percent)),
    ]


def _put_off(job: Job, until: str) -> str:
    times = "once" if job.refusals == 1 else f"{job.refusals:,} times"
    return f"until {until}, refused {times}" if until else ""


def _timeline(job: Job, history: History, now: Moment) -> list[str]:
    if not history.attempts:
        return []
    start = min(from_datetime(job.due_at), from_datetime(history.attempts[0].claimed_at))
    end = now if job.finished_at is None else from_datetime(job.finished_at)
    head = ["attempt", "start", "end", "took", "outcome", "worker", ""]
    uncounted = {d.attempt for d in history.diagnostics if d.facts.get("uses_attempt") is False}
    lines = [
        _attempt_line(a, start, max(end, start + 1), now, counts=a.attempt not in uncounted)
        for a in history.attempts
    ]
    drawn = _indented(head, lines, right=[0, 3])
    width = output.table_width()
    if width is not None and max(map(output.breadth, drawn)) > width:
        drawn = _indented(head[:-1], [line[:-1] for line in lines], right=[0, 3])
    return drawn


def _attempt_line(
    attempt: Attempt, start: Moment, end: Moment, now: Moment, *, counts: bool
) -> list[str]:
    claimed = from_datetime(attempt.claimed_at)
    ended = now if attempt.ended_at is None else from_datetime(attempt.ended_at)
    outcome = attempt.outcome or "under way"
    colour = _OUTCOMES.get(outcome, "yellow")
    return [
        str(attempt.attempt),
        output.moment(attempt.claimed_at)[:23],
        "" if attempt.ended_at is None else output.moment(attempt.ended_at)[11:23],
        output.length((ended - claimed) / 1000),
        output.paint(outcome if counts else f"{outcome}, not counted", colour),
        output.clean(attempt.worker),
        _lane((claimed - start) / (end - start), (ended - start) / (end - start)),
    ]


def _lane(begins: float, ends: float) -> str:
    """Where an attempt lies in the life of the job; never invisible."""
    left = min(LANE - 1, max(0, int(begins * LANE)))
    right = min(LANE, max(left + 1, round(ends * LANE)))
    return "·" * left + "█" * (right - left) + "·" * (LANE - right)


def _operations(operations: Iterable[Operation]) -> list[str]:
    lines = [
        [
            operation.name,
            _percent(100.0 if operation.state == "succeeded" else operation.percent or 0.0),
            output.paint(operation.state, _OUTCOMES.get(operation.state, "yellow")),
            output.moment(operation.updated_at)[:23],
            output.clean(operation.message),
        ]
        for operation in operations
    ]
    return _indented(["name", "progress", "state", "updated", "message"], lines)


def _diagnostics(diagnostics: Iterable[Diagnostic]) -> list[str]:
    lines = [
        [output.moment(d.at)[:23], d.code, str(d.attempt), output.clean(_detail(d))]
        for d in diagnostics
    ]
    return _indented(["at", "code", "attempt", "detail"], lines, right=[2])


def _detail(diagnostic: Diagnostic) -> str:
    error = diagnostic.facts.get("error")
    return f"{diagnostic.detail} {error}" if error else diagnostic.detail


def _percent(percent: float) -> str:
    return f"{output.bar(percent / 100)} {percent:3.0f} %"


def _indented(head: Cells, lines: Sequence[Cells], right: Iterable[int] = ()) -> list[str]:
    drawn = output.columned(head, lines, right=right) if lines else []
    return [INDENT + line for line in drawn]
