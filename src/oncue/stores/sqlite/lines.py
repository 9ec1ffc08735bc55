"""The lines in which the jobs of a queue wait in SQLite: one for each rank, and one more for each
rank whose jobs are put off (`jobs.line`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from oncue.core.moment import Moment
from oncue.core.putoff import back_in_line_until
from oncue.stores.sqlite import rows

LINES = rows.load("jobs")["lines"]
RANGES = rows.load("ranges")
FIRST_WAITING_LINE = 10  # below it: reclaimed work
FIRST_PUT_OFF_LINE = 100
AFTER_EVERY_LINE = 200
# Put-off jobs are brought back in the order of their moments, and handed over in another. At least
# so many are brought back together, so that those with a better place are among them.
BACK_TOGETHER = 1000
READ_TOGETHER = 64  # rows that are read before their size is looked at


class Through(NamedTuple):
    """The last place that a range covers, in the order in which jobs are handed over."""

    through_line: int
    through_due: Moment
    through_id: str


class OpenRange(NamedTuple):
    """How far a dispatcher's open claim goes, in the order of `ranges.sql: range`."""

    lease_until: Moment
    cutoff: Moment
    """It covers the jobs due by then …"""
    through_line: int
    """… up to this line, and in this line up to this job."""
    through_due: Moment
    through_id: str
    in_flight: int
    fence: int

    @property
    def through(self) -> Through:
        return Through(self.through_line, self.through_due, self.through_id)

    def end_in(self, line: int) -> dict[str, Any] | None:
        """Due time and id of the last place that it covers in a line; None: it covers none."""
        if line > self.through_line:
            return None
        if line == self.through_line:
            return {"due_at": self.through_due, "id": self.through_id}
        return {"due_at": self.cutoff, "id": rows.AFTER_EVERY_TEXT}


def all_lines(tx: rows.Tx, queue: str) -> list[tuple[int, Moment]]:
    """Every line that holds a scheduled job, in order, with its earliest due time."""
    return rows.fetch(tx, LINES, {"queue": queue, "below": AFTER_EVERY_LINE})


def hand_over_lines(tx: rows.Tx, queue: str) -> list[tuple[int, Moment]]:
    """The lines from which jobs may be handed over: those of jobs that are not put off."""
    return rows.fetch(tx, LINES, {"queue": queue, "below": FIRST_PUT_OFF_LINE})


def due_lines(tx: rows.Tx, queue: str, until: Moment) -> list[tuple[int, Moment]]:
    """Those of them whose first job is due by `until`."""
    return [line for line in hand_over_lines(tx, queue) if line[1] <= until]


def open_range(tx: rows.Tx, queue: str) -> OpenRange | None:
    row = rows.first(tx, RANGES["range"], {"queue": queue})
    return None if row is None else OpenRange._make(row)


def waiting_dues(
    tx: rows.Tx, queue: str, lines: Sequence[tuple[int, Moment]], held: OpenRange | None
) -> list[Moment]:
    """The first due time in each of these lines, outside an open range."""
    dues: list[Moment] = []
    for line, due in lines:
        covered = None if held is None else held.end_in(line)
        if covered is None:
            dues.append(due)
        else:
            params = {"queue": queue, "line": line, **covered}
            dues += [row[0] for row in rows.fetch(tx, RANGES["after"], params)]
    return dues


def first_jobs(
    tx: rows.Tx,
    statement: str,
    params: Mapping[str, Any],
    lines: Sequence[int],
    limit: int,
    payload: int,
) -> Iterator[tuple[int, list[Any]]]:
    """The first rows that the statement finds in these lines, in groups, each with its line. No
    more rows than fit in memory. `payload` is the number of that column."""
    room, payload_of = rows.BATCH_BYTES, itemgetter(payload)
    for line in lines:
        cursor = tx.execute(statement, {**params, "line": line, "limit": limit})
        while some := list(islice(cursor, READ_TOGETHER)):
            yield line, some
            limit -= len(some)
            room -= sum(map(len, map(payload_of, some)))
            if room <= 0 or limit <= 0:
                return


def bring_back(
    tx: rows.Tx, queue: str, limit: int, now: Moment, in_flight: Collection[str] | None
) -> None:
    """Give put-off jobs whose moment has come their place in line again, as many as may be needed
    to find the first `limit` of them. `in_flight` as in `readying.py: make_ready`."""
    line, first_due = _first_waiting(tx, queue, now, in_flight)
    most = max(limit, BACK_TOGETHER)
    params = {"queue": queue, "limit": most, "until": back_in_line_until(now, first_due)}
    found = rows.fetch(tx, RANGES["returning"], params)
    if first_due is not None:
        better: list[Any] = []
        params["until"] = back_in_line_until(now, None)
        for put_off, _ in all_lines(tx, queue):
            if FIRST_PUT_OFF_LINE <= put_off < FIRST_PUT_OFF_LINE + line:
                params |= {"line": put_off, "limit": most - len(better)}
                better += rows.fetch(tx, RANGES["returning_in_line"], params)
        found += better
    if found:
        tx.execute(RANGES["back_in_line"], {"ns": rows.numbers([row[0] for row in found])})


def _first_waiting(
    tx: rows.Tx, queue: str, now: Moment, in_flight: Collection[str] | None
) -> tuple[int, Moment | None]:
    """The line and due time of the job to be handed over next, if one is due."""
    held = open_range(tx, queue)
    for line in due_lines(tx, queue, now):
        if in_flight is None:
            dues = waiting_dues(tx, queue, [line], held)
        else:
            params = {"queue": queue, "line": line[0], "ids": rows.texts(in_flight), "now": now}
            dues = [due for [due] in rows.fetch(tx, RANGES["first_not_in_flight"], params)]
        if dues and dues[0] <= now:
            return line[0], dues[0]
    return AFTER_EVERY_LINE, None
