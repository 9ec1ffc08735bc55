"""Lines over time as SVG, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import NamedTuple

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 440, 280  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 44
DOTS = 120  # of a line; more cannot be seen
COLOURS = ("#0b5cad", "#c2410c", "#15803d", "#7e22ce", "#475569", "#a16207")
STYLE = (
    "text{font:12px sans-serif;fill:#1f2937}.t{font-weight:bold}"
    ".g{stroke:#e5e7eb}.a{stroke:#6b7280}.l{fill:none;stroke-width:2}"
)


class Panel(NamedTuple):
    title: str
    across: str
    up: str
    lines: dict[str, Points]
    is_log: bool = False
    """Whether the scale across is logarithmic, beginning with 1."""


def as_svg(panels: Sequence[Panel]) -> str:
    width = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img">',
        f"<title>{escape('; '.join(panel.title for panel in panels))}</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        parts += [f'<g transform="translate({place * WIDTH} 0)">', *_drawn(panel), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(panel: Panel) -> list[str]:
    scale = _Scale(panel)
    parts = [_text(LEFT, 20, panel.title, "t"), *scale.grid()]
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 8, panel.across, anchor="end"))
    parts.append(_text(LEFT - 6, TOP - 8, panel.up, anchor="end"))
    for colour, points in zip(COLOURS, panel.lines.values(), strict=False):
        parts.append(scale.line(points, colour))
    return parts + _legend(panel)


class _Scale:
    """Where a point of a panel is on the page."""

    def __init__(self, panel: Panel) -> None:
        points = [point for line in panel.lines.values() for point in line]
        self._is_log = panel.is_log
        self._far = max(x for x, _ in points)
        self._high = max(y for _, y in points)

    def x(self, value: float) -> float:
        share = log10(max(value, 1)) / log10(self._far) if self._is_log else value / self._far
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self._high * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Points, colour: str) -> str:
        step = max(1, len(points) // DOTS)
        chosen = [*points[:-1:step], points[-1]]
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in chosen)
        return f'<polyline class="l" stroke="{colour}" points="{path}"/>'

    def grid(self) -> list[str]:
        parts = []
        for value in self._across():
            x = self.x(value)
            parts.append(_rule(x, TOP, x, HEIGHT - BOTTOM, "g"))
            parts.append(_text(x, HEIGHT - BOTTOM + 16, _short(value), anchor="middle"))
        for value in _ticks(self._high):
            y = self.y(value)
            parts.append(_rule(LEFT, y, WIDTH - RIGHT, y, "a" if value == 0 else "g"))
            parts.append(_text(LEFT - 6, y + 4, _short(value), anchor="end"))
        return parts

    def _across(self) -> list[float]:
        if not self._is_log:
            return _ticks(self._far)
        return [10.0**power for power in range(int(log10(self._far)) + 1)]


def _legend(panel: Panel) -> list[str]:
    """Where lines that fall leave room: at the top right, or at the bottom left if they fall late,
    as they do on a logarithmic scale."""
    x = LEFT + 8 if panel.is_log else WIDTH - RIGHT - 150
    first = HEIGHT - BOTTOM - 16 * len(panel.lines) if panel.is_log else TOP + 14
    parts = []
    for place, (colour, name) in enumerate(zip(COLOURS, panel.lines, strict=False)):
        y = first + 16 * place
        parts.append(f'<path class="l" stroke="{colour}" d="M{x} {y - 4}h18"/>')
        parts.append(_text(x + 24, y, name))
    return parts


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to at most `most`, about five."""
    rough = most / 5
    power = 10.0 ** int(log10(rough)) if rough >= 1 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * n for n in range(int(most / step) + 1)]


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
