"""What was measured, and how it compares with the goals."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One goal and what came of it."""

    work: str
    """W1, W2, …"""
    title: str
    unit: str
    """Of `product` and `beside`: a rate such as `jobs/s`, `ms`, `µs`, `MiB` or `%`."""
    product: float
    beside: float | None = None
    """What `product` is compared with: the raw store, or the same work under less load."""
    beside_what: str = "raw"
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    """The lowest and the highest ratio of the rounds; without a ratio, of `product`."""
    goal: str = ""
    reached: bool | None = None
    """None: there is no goal for this."""
    peak_mib: float | None = None
    """The most memory held, above a process that has only imported the same things."""
    peak_goal_mib: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    """Further figures of the same thing, by unit."""

    @property
    def met(self) -> bool | None:
        """Whether goal and memory goal are met; None: there is none."""
        if self.peak_goal_mib is None or self.peak_mib is None:
            return self.reached
        return self.reached is not False and self.peak_mib <= self.peak_goal_mib


def without_goal(row: Row) -> Row:
    """The same figures, of which nothing is asked."""
    return replace(row, goal="", reached=None)


@dataclass(slots=True)
class Report:
    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def missed(self) -> list[Row]:
        return [row for row in self.rows if row.met is False]

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "machine": self.machine,
            "settings": self.settings,
            "seconds": round(self.seconds, 1),
            "missed": len(self.missed),
            "rows": [{**asdict(row), "met": row.met} for row in self.rows],
        }


HEADER = ("work", "", "product", "beside", "ratio", "of the rounds", "goal", "met", "peak MiB")


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, in the order of `HEADER`."""
    beside = "" if row.beside is None else f"{amount(row.beside, row.unit)} {row.beside_what}"
    beside = beside or ", ".join(amount(value, unit) for unit, value in row.more.items())
    return (
        row.work,
        row.title,
        amount(row.product, row.unit),
        beside,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        _spread(row),
        row.goal,
        {True: "yes", False: "NO", None: ""}[row.met],
        _peak(row),
    )


def amount(value: float, unit: str) -> str:
    if unit.endswith("/s"):
        return f"{value:,.0f}/s"
    return f"{value:.2f} {unit}"


def _spread(row: Row) -> str:
    if row.spread is None:
        return ""
    low, high = row.spread
    if row.ratio is None and row.unit.endswith("/s"):
        return f"{low:,.0f} – {high:,.0f}"
    return f"{low:.2f} – {high:.2f}"


def _peak(row: Row) -> str:
    if row.peak_mib is None:
        return ""
    goal = "" if row.peak_goal_mib is None else f" (≤ {row.peak_goal_mib:.0f})"
    return f"{row.peak_mib:.0f}{goal}"
