"""The lines in which the jobs of a queue wait in SQLite: one for each rank, and one more for each
rank whose jobs are put off (`jobs.line`)."""

from __future__ import annotations

import apsw

from oncue.core.moment import Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

LINES = load("jobs")["lines"]
FIRST_WAITING_LINE = 10  # below it: reclaimed work
FIRST_PUT_OFF_LINE = 100
AFTER_EVERY_LINE = 200


def all_lines(tx: apsw.Connection, queue: str) -> list[tuple[int, Moment]]:
    """Every line that holds a scheduled job, in order, with its earliest due time."""
    return rows.fetch(tx, LINES, {"queue": queue, "below": AFTER_EVERY_LINE})


def hand_over_lines(tx: apsw.Connection, queue: str) -> list[tuple[int, Moment]]:
    """The lines from which jobs may be handed over: those of jobs that are not put off."""
    return rows.fetch(tx, LINES, {"queue": queue, "below": FIRST_PUT_OFF_LINE})
