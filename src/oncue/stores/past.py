"""What happened to a job, as JSON: attempts, how claims ended, diagnostics. For stores that keep it
as one text beside the job."""

from __future__ import annotations

from typing import Any

from oncue.core.fencing import End, Write
from oncue.core.job import Attempt, Diagnostic
from oncue.core.moment import from_datetime, maybe_datetime, to_datetime
from oncue.core.record import Record


def past_rows(record: Record, attempts: list[Attempt]) -> dict[str, Any]:
    """What was: these attempts, diagnostics, and how earlier claims ended. Empty parts are left
    out."""
    past = {
        "attempts": [attempt_row(one) for one in attempts],
        "diagnostics": [diagnostic_row(one) for one in record.diagnostics],
        "ends": [end_row(epoch, end, record) for epoch, end in record.ends.items()],
    }
    return {name: part for name, part in past.items() if part}


def read_past(record: Record, past: dict[str, Any]) -> None:
    """Give a record back what `past_rows` has of it. Its result is known."""
    record.attempts = [read_attempt(one) for one in past.get("attempts", ())]
    record.diagnostics = [read_diagnostic(one) for one in past.get("diagnostics", ())]
    record.ends = dict(read_end(one, record) for one in past.get("ends", ()))
    record.fenced = {
        (one.epoch, one.facts["write"]): one
        for one in record.diagnostics
        if one.code == "fenced" and isinstance(one.facts.get("write"), str)
    }


def attempt_row(one: Attempt) -> list[Any]:
    ended_at = None if one.ended_at is None else from_datetime(one.ended_at)
    claimed_at = from_datetime(one.claimed_at)
    return [one.attempt, one.epoch, claimed_at, one.worker, one.outcome, ended_at]


def read_attempt(row: list[Any]) -> Attempt:
    attempt, epoch, claimed_at, worker, outcome, ended_at = row
    return Attempt(
        attempt, epoch, to_datetime(claimed_at), worker, outcome, maybe_datetime(ended_at)
    )


def diagnostic_row(one: Diagnostic) -> list[Any]:
    at = from_datetime(one.at)
    return [at, one.code, one.detail, one.attempt, one.epoch, one.facts]


def read_diagnostic(row: list[Any]) -> Diagnostic:
    return Diagnostic(to_datetime(row[0]), *row[1:])


def end_row(epoch: int, end: End, record: Record) -> list[Any]:
    """The result of a completion is that of the job, and is not written again."""
    kind, content = (None, None) if end.write is None else end.write
    text = content if isinstance(content, str) else None
    places = (at for at, one in enumerate(record.diagnostics) if one is end.diagnostic)
    return [epoch, end.outcome, end.attempt, kind, text, next(places, None)]


def read_end(row: list[Any], record: Record) -> tuple[int, End]:
    epoch, outcome, attempt, kind, text, place = row
    content = record.result if kind == "complete" else text
    write = None if kind is None else Write(kind, content)
    diagnostic = None if place is None else record.diagnostics[place]
    return epoch, End(outcome, attempt, write, diagnostic)
