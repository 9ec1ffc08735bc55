"""`oncue top`: what every queue is doing, live; or one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from oncue.cli import live, output
from oncue.cli.app import App, Cue, Finite, common
from oncue.cli.progress import counted
from oncue.cli.queues import counts, late, lateness, with_stats
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import Moment, render, to_datetime
from oncue.core.queue import Queue, QueueStats
from oncue.wire import queues as wire

MINUTE_MS = 60_000
MINUTES = 60  # how far ahead the load is shown
LEAST_MINUTES = 12
LAYOUTS = (  # from wide to narrow: where states lack room, taken and ended stand for several
    (*(str(state) for state in State), "late", "taken/s", "done/s"),
    ("scheduled", "taken", "failed", "ended", "late", "taken/s", "done/s"),
    ("scheduled", "taken", "failed", "late", "done/s"),
    ("scheduled", "late"),
)


@click.command()
@click.option(
    "--interval",
    type=Finite(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@common
def top(app: App, interval: float) -> None:
    """Show what every queue is doing: counts, jobs taken and finished per second, how late the
    oldest due job is, and what is due in the next minutes. Redraws until q or Ctrl-C; without a
    terminal it prints once.

    $ oncue top
    $ oncue top --interval 5
    $ oncue top --json | jq '.queues[0]'
    """
    if app.as_json:
        _document(look(app.cue), app)
    elif not live.possible():
        for line in _lines(look(app.cue), Rates(), app.place, output.table_width()):
            click.echo(line)
    else:
        rates = Rates()

        def frame(columns: int, lines: int) -> list[str]:
            seen = look(app.cue)
            rates.update(seen)
            return _lines(seen, rates, f"q quits   {app.place}", columns, most=lines - 7)

        live.show(frame, interval)


@dataclass(frozen=True, slots=True)
class Seen:
    """A queue at one moment."""

    queue: Queue
    stats: QueueStats
    load: list[int]
    """Jobs that become due in each of the next minutes."""

    def number(self, states: frozenset[State]) -> int:
        return sum(self.stats.counts.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True)
class Look:
    now: Moment
    monotonic: float
    queues: list[Seen]

    @property
    def load(self) -> list[int]:
        return [sum(minute) for minute in zip(*(seen.load for seen in self.queues), strict=True)]


def look(cue: Cue) -> Look:
    """Every queue as it is now, the late and busy ones first."""
    now, monotonic = cue.clock.now(), cue.clock.monotonic()
    seen = [Seen(queue, stats, _load(cue, queue.name, now)) for queue, stats in with_stats(cue)]
    seen.sort(key=lambda s: (-lateness(s.stats, now), -s.number(LIVE), s.queue.name))
    return Look(now, monotonic, seen)


def _load(cue: Cue, name: str, now: Moment) -> list[int]:
    until = now + MINUTES * MINUTE_MS
    due = cue.due_counts(name, now, until, MINUTE_MS)
    return [due.get(start, 0) for start in range(now, until, MINUTE_MS)]


@dataclass(slots=True)
class Rates:
    """Jobs per second, from two looks. What is pruned in between is not seen, so a rate may be too
    low, never too high."""

    taken: dict[str, float] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    _last: Look | None = None

    def update(self, seen: Look) -> None:
        if self._last is not None and seen.monotonic > self._last.monotonic:
            seconds = seen.monotonic - self._last.monotonic
            before = {s.queue.name: s for s in self._last.queues}
            pairs = [(s, before[s.queue.name]) for s in seen.queues if s.queue.name in before]
            self.taken = {
                new.queue.name: max(0, new.number(LIVE | FINAL) - old.number(LIVE | FINAL))
                / seconds
                for new, old in pairs
            }
            self.done = {
                new.queue.name: max(0, new.number(FINAL) - old.number(FINAL)) / seconds
                for new, old in pairs
            }
        self._last = seen


def _lines(
    seen: Look, rates: Rates, title: str, width: int | None, most: int | None = None
) -> list[str]:
    top_line = f"oncue   {output.clock_time(seen.now)}   {title}"
    if not seen.queues:
        return [top_line, "", "There are no queues yet; the first job of a queue makes it."]
    shown = seen.queues if most is None else seen.queues[: max(1, most)]
    left_out = len(seen.queues) - len(shown)
    return [
        top_line,
        "",
        *_table([(s.load, _cells(s, seen.now, rates)) for s in shown], width),
        *([f"… and {left_out} more queues"] if left_out else []),
        "",
        _peak(seen),
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


def _cells(seen: Seen, now: Moment, rates: Rates) -> dict[str, str]:
    name = seen.queue.name
    delay = late(seen.stats, now)
    ended = seen.number(frozenset({State.SUCCEEDED, State.CANCELLED}))
    return {
        **dict(zip(map(str, State), counts(seen.stats), strict=True)),
        "queue": name + (output.paint(" (paused)", "yellow") if seen.queue.paused else ""),
        "taken": f"{seen.number(LIVE):,}",
        "ended": f"{ended:,}",
        "late": output.paint(delay, "red") if lateness(seen.stats, now) >= 1 else delay,
        "taken/s": _rate(rates.taken.get(name)),
        "done/s": _rate(rates.done.get(name)),
    }


def _rate(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _peak(seen: Look) -> str:
    """Where the load of the next hour is highest."""
    load = seen.load
    if not any(load):
        return f"Next {MINUTES} minutes: nothing is due."
    highest = max(load)
    at = to_datetime(seen.now + load.index(highest) * MINUTE_MS).astimezone()
    return (
        f"Next {MINUTES} minutes: {counted(sum(load), 'job')} due, "
        f"at most {highest:,} a minute ({at:%H:%M})."
    )


def _document(seen: Look, app: App) -> None:
    output.document(
        {
            "at": render(seen.now),
            "store": app.place if app.url is None else None,
            "url": app.url,
            "queues": [_queue_document(s, seen.now) for s in seen.queues],
        }
    )


def _queue_document(seen: Seen, now: Moment) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(wire.Queue.of(seen.queue, seen.stats)),
        "load": _load_document(seen.load, now),
    }


def _load_document(load: Sequence[int], now: Moment) -> list[dict[str, Any]]:
    return [
        {"from": render(now + minute * MINUTE_MS), "due": due} for minute, due in enumerate(load)
    ]
