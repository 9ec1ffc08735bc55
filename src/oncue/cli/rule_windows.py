"""When each dependency of a rule is valid, as bars on one axis of time."""

from __future__ import annotations

from typing import NamedTuple

from oncue.cli import output
from oncue.core import stamp as stamps
from oncue.core.stamp import SECOND, Stamp
from oncue.core.standing import DependencyStanding, Interval, Standing, Validity

LANE = 40  # columns of the drawing where there is no terminal to fill
WIDEST = 72
NARROWEST = 20  # on a terminal that leaves less, it is left out
HEAD = ["dependency", "validity", "until", "life"]
FAR = 4  # a time that is further off than so many times what there is to see is off the axis
COLOURS = {
    Validity.MET: "green",
    Validity.EXPIRED: "red",
    Validity.NOT_OVERLAPPING: "red",
    Validity.ONLY_STALE: "yellow",
    Validity.NEVER_SEEN: "bright_black",
}


class Axis(NamedTuple):
    """Columns for the time from `start` to `end`; what lies outside is at the rim."""

    start: Stamp
    end: Stamp
    columns: int

    def column(self, at: Stamp) -> int:
        place = (at - self.start) * self.columns // (self.end - self.start)
        return min(self.columns - 1, max(0, place))

    def holds(self, at: Stamp) -> bool:
        return self.start <= at <= self.end


def drawing(standing: Standing, width: int | None) -> list[str]:
    """A line for each dependency, with its bar if there is room in so many columns, and the axis
    below. None: there is no terminal, and room for everything."""
    lines = [_cells(one, standing.at, width) for one in standing.dependencies]
    least = 0 if axis_of(standing, NARROWEST) is None else NARROWEST + 2
    for kept in range(len(HEAD), 1, -1):  # without room for all, the bars tell more
        table = [HEAD[:kept], *(line[:kept] for line in lines)]
        breadth = max(map(output.breadth, output.columned(table[0], table[1:])))
        if width is None or breadth + least <= width:
            break
    room = LANE if width is None else width - breadth - 2
    axis = axis_of(standing, min(room, WIDEST)) if room >= NARROWEST else None
    if axis is None:
        return output.columned(table[0], table[1:], width=width)
    return _with_bars(standing, table, axis, width)


def _with_bars(
    standing: Standing, table: list[list[str]], axis: Axis, width: int | None
) -> list[str]:
    head, *lines = table
    pairs = zip(lines, standing.dependencies, strict=True)
    drawn = [[*line, _bar(axis, one, standing)] for line, one in pairs]
    empty = [""] * len(head)
    drawn += [[*empty, _scale(axis, standing.at)], [*empty, _ends(axis, standing.at)]]
    legend = "█ valid   " + ("░ an event stamped here fires it   " if standing.window else "")
    shown = axis.holds(standing.at)
    legend += f"▲ {_time(standing.at, standing.at)}" if shown else f"▶ {output.stamp(standing.at)}"
    fitting = legend if width is None else output.fit(legend, width)
    return [*output.columned([*head, ""], drawn), output.paint(fitting, "bright_black")]


def axis_of(standing: Standing, columns: int) -> Axis | None:
    """The axis shows where every interval begins, and the time asked about unless that is far off.
    Where an interval ends is shown as long as that does not make all the others too small to be
    seen. None: nothing was ever seen of any dependency."""
    seen = [interval for interval in map(_interval, standing.dependencies) if interval is not None]
    if not seen:
        return None
    shown = seen if standing.window is None else [*seen, standing.window]
    starts = [one.start for one in seen]
    last = max(one.end for one in seen)
    if standing.at - last <= FAR * max(last - min(starts), SECOND):
        starts.append(standing.at)
    lengths = [one.end - one.start for one in shown if one.end > one.start]
    reach = 2 * max(max(starts) - min(starts), min(lengths, default=SECOND))
    points = [*starts, *(point for one in shown for point in one)]
    start = max(min(points), min(starts) - reach)
    end = min(max(points), max(starts) + reach)
    return Axis(start, max(end, start + SECOND), columns)


def _interval(one: DependencyStanding) -> Interval | None:
    if one.event is None or one.valid_until is None:
        return None
    return Interval(one.event.stamp, one.valid_until)


def _cells(one: DependencyStanding, at: Stamp, width: int | None) -> list[str]:
    name = output.clean(f"{one.dependency.type} {one.dependency.resource}")
    by = "" if one.missed_by_seconds is None else f" by {output.length(one.missed_by_seconds)}"
    return [
        name if width is None else output.fit(name, max(16, width // 3)),
        output.paint(str(one.validity), COLOURS[one.validity]) + by,
        "–" if one.valid_until is None else _time(one.valid_until, at),
        life(one.dependency.life_seconds),
    ]


def life(seconds: int) -> str:
    """How long an event of a dependency makes it valid."""
    return output.length(seconds) if seconds else "an instant"


def _bar(axis: Axis, one: DependencyStanding, standing: Standing) -> str:
    """Where it is valid, and where an event of it would fire the rule. Never invisible; an arrow
    where it goes on beyond the axis."""
    cells = ["·"] * axis.columns
    firing = standing.window if one.dependency == standing.waits_for else None
    for interval, sign in ((firing, "░"), (_interval(one), "█")):
        if interval is not None and interval.start <= axis.end and interval.end >= axis.start:
            first, last = axis.column(interval.start), axis.column(interval.end)
            cells[first : last + 1] = sign * (last + 1 - first)
            if interval.start < axis.start:
                cells[0] = "◀"
            if interval.end > axis.end:
                cells[-1] = "▶"
    return output.paint("".join(cells), COLOURS[one.validity])


def _scale(axis: Axis, at: Stamp) -> str:
    cells = ["├", *"─" * (axis.columns - 2), "┤"]
    cells[axis.column(at) if axis.holds(at) else -1] = "▲" if axis.holds(at) else "▶"
    return "".join(cells)


def _ends(axis: Axis, at: Stamp) -> str:
    """The times at both ends, or at the first if there is no room for both."""
    first, last = _time(axis.start, at), _time(axis.end, at)
    gap = axis.columns - len(first) - len(last)
    return f"{first}{' ' * gap}{last}" if gap >= 1 else first


def _time(when: Stamp, at: Stamp) -> str:
    """Local time; the day is told where it is another one than the day asked about."""
    try:
        return output.time_of(stamps.to_datetime(when), stamps.to_datetime(at))
    except OverflowError:
        return stamps.render(when)
