"""`oncue top`: what every queue is doing, live; or one snapshot."""

from __future__ import annotations

from typing import NamedTuple

import click
import msgspec

from oncue.cli import live, output
from oncue.cli.app import App, Cue, Finite, common
from oncue.cli.progress import counted
from oncue.cli.queues import NO_QUEUES, counts, late, lateness
from oncue.core.errors import NotSupported
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import Moment, render, to_datetime
from oncue.core.queue import Queue, QueueStats
from oncue.wire import queues as wire

MINUTE_MS = 60_000
MINUTES = 60  # how far ahead the load is shown
LEAST_MINUTES = 12
INTERVAL = Finite(0.1, 3600)
LAYOUTS = (  # from wide to narrow: where states lack room, taken and ended stand for several
    (*(str(state) for state in State), "late", "taken/s", "done/s"),
    ("scheduled", "taken", "failed", "ended", "late", "taken/s", "done/s"),
    ("scheduled", "taken", "failed", "late", "done/s"),
    ("scheduled", "late"),
)


@click.command()
@click.option("--interval", type=INTERVAL, default=1.0, help="Seconds between two looks.")
@common
def top(app: App, interval: float) -> None:
    """Show what every queue is doing: counts, jobs taken and finished per second, how late the
    oldest due job is, and what is due in the next minutes. Redraws until q or Ctrl-C; without a
    terminal it prints once.

    $ oncue top
    $ oncue top --interval 5
    $ oncue top --json | jq '.queues[0]'
    """
    rates = Rates()
    if app.as_json:
        _document(look(app.cue), app)
    elif not live.possible():
        click.echo("\n".join(_lines(look(app.cue), rates, app.shown_place, output.table_width())))
    else:

        def frame(columns: int, lines: int) -> list[str]:
            snapshot = look(app.cue)
            rates.update(snapshot)
            return _lines(snapshot, rates, f"q quits   {app.shown_place}", columns, most=lines - 7)

        live.show(frame, interval)


class QueueSnapshot(NamedTuple):
    """A queue at one moment."""

    queue: Queue
    stats: QueueStats
    load: list[int]
    """Jobs that become due in each of the next minutes; empty: unknown."""

    def number(self, states: frozenset[State]) -> int | None:
        """None: unknown."""
        counts = self.stats.counts
        return sum(counts[state] for state in states) if states <= counts.keys() else None


class Snapshot(NamedTuple):
    now: Moment
    monotonic: float
    queues: list[QueueSnapshot]


def look(cue: Cue) -> Snapshot:
    """Every queue as it is now, the late and busy ones first."""
    now, monotonic = cue.clock.now(), cue.clock.monotonic()
    found = [
        QueueSnapshot(queue, stats, _load(cue, queue.name, now))
        for queue, stats in cue.queues_with_stats()
    ]
    found.sort(key=lambda s: (-lateness(s.stats, now), -(s.number(LIVE) or 0), s.queue.name))
    return Snapshot(now, monotonic, found)


def _load(cue: Cue, name: str, now: Moment) -> list[int]:
    until = now + MINUTES * MINUTE_MS
    try:
        due = cue.due_counts(name, now, until, MINUTE_MS)
    except NotSupported:
        return []
    return [due.get(start, 0) for start in range(now, until, MINUTE_MS)]


class Rates:
    """Jobs per second, from two looks. Jobs that are pruned in between are not seen, so a rate may
    be too low, never too high."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self._last: Snapshot | None = None

    def update(self, snapshot: Snapshot) -> None:
        last, self._last = self._last, snapshot
        if last is None or snapshot.monotonic <= last.monotonic:
            return
        before = {one.queue.name: one for one in last.queues}
        for rates, states in ((self.taken, LIVE | FINAL), (self.done, FINAL)):
            rates.clear()
            for one in snapshot.queues:
                old, number = before.get(one.queue.name), one.number(states)
                earlier = None if old is None else old.number(states)
                if number is not None and earlier is not None:
                    more = max(0, number - earlier)
                    rates[one.queue.name] = more / (snapshot.monotonic - last.monotonic)


def _lines(
    snapshot: Snapshot, rates: Rates, title: str, width: int | None, most: int | None = None
) -> list[str]:
    now, queues = snapshot.now, snapshot.queues
    top_line = f"oncue   {output.clock_time(now)}   {title}"
    if not queues:
        return [top_line, "", NO_QUEUES]
    shown = queues if most is None else queues[: max(1, most)]
    left_out = len(queues) - len(shown)
    return [
        top_line,
        "",
        *_table([(one.load, _cells(one, now, rates)) for one in shown], width),
        *([f"… and {left_out} more queues"] if left_out else []),
        "",
        _peak(snapshot),
    ]


def _table(rows: list[tuple[list[int], dict[str, str]]], width: int | None) -> list[str]:
    """The widest layout that leaves the histogram some room, and the histogram in the rest."""
    for layout in LAYOUTS:
        head = ["queue", *layout, "next minutes"]
        lines = [[cells.get(name, "") for name in head] for _, cells in rows]
        if output.has_room(head, lines, least=LEAST_MINUTES, width=width):
            break
    others = output.columned(head[:-1], [line[:-1] for line in lines])
    room = MINUTES if width is None else width - max(map(output.breadth, others)) - 2
    minutes = max(LEAST_MINUTES, min(MINUTES, room))
    lines = [
        [*line[:-1], output.spark(load[:minutes])]
        for line, (load, _) in zip(lines, rows, strict=True)
    ]
    return output.columned(head, lines, right=range(1, len(head) - 1), width=width)


def _cells(one: QueueSnapshot, now: Moment, rates: Rates) -> dict[str, str]:
    name = one.queue.name
    delay = late(one.stats, now)
    return {
        **dict(zip(map(str, State), counts(one.stats), strict=True)),
        "queue": name + (output.paint(" (paused)", "yellow") if one.queue.paused else ""),
        "taken": _number(one.number(LIVE)),
        "ended": _number(one.number(FINAL - {State.FAILED})),
        "late": output.paint(delay, "red") if lateness(one.stats, now) >= 1 else delay,
        "taken/s": _rate(rates.taken.get(name)),
        "done/s": _rate(rates.done.get(name)),
    }


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _peak(snapshot: Snapshot) -> str:
    """Where the load of the next hour is highest."""
    if not all(one.load for one in snapshot.queues):
        return f"Next {MINUTES} minutes: not known, because this store cannot count its jobs."
    load = [sum(minute) for minute in zip(*(one.load for one in snapshot.queues), strict=True)]
    if not any(load):
        return f"Next {MINUTES} minutes: nothing is due."
    highest = max(load)
    at = to_datetime(snapshot.now + load.index(highest) * MINUTE_MS).astimezone()
    return (
        f"Next {MINUTES} minutes: {counted(sum(load), 'job')} due, "
        f"at most {highest:,} a minute ({at:%H:%M})."
    )


def _document(snapshot: Snapshot, app: App) -> None:
    now = snapshot.now
    queues = [
        {
            **msgspec.structs.asdict(wire.Queue.of(one.queue, one.stats)),
            "load": [
                {"from": render(now + minute * MINUTE_MS), "due": due}
                for minute, due in enumerate(one.load)
            ],
        }
        for one in snapshot.queues
    ]
    store = app.shown_place if app.url is None else None
    output.document(
        {
            "at": render(now),
            "store": store,
            "url": None if store else app.shown_place,
            "queues": queues,
        }
    )
