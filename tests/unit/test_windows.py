"""Validity as bars on one axis of time: what is shown, what is cut, and that nothing vanishes."""

from __future__ import annotations

from oncue.cli.rule_windows import LANE, axis_of, drawing
from oncue.core.event import Event, EventType, made_id
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import SECOND
from oncue.core.standing import Sighting, Sightings, Standing, explain

YEAR = 365 * 86_400
KINDS = (EventType.FILE, EventType.TABLE, EventType.TIME_BASED)


def standing(at: int, *seen: tuple[int, int | None]) -> Standing:
    """A rule with a dependency for each (life, time of its newest event), in seconds."""
    pairs = list(zip(KINDS, seen, strict=False))
    dependencies = tuple(Dependency(kind, str(kind), life) for kind, (life, _) in pairs)
    sightings = tuple(
        Sighting() if when is None else Sighting(event(kind, when)) for kind, (_, when) in pairs
    )
    return explain(Sightings(Rule("r", dependencies), sightings), at * SECOND)


def event(kind: EventType, when: int) -> Event:
    stamp = when * SECOND
    return Event(made_id(kind, str(kind), stamp), kind, str(kind), stamp)


def bars(standing: Standing) -> list[str]:
    lines = drawing(standing, None)[1 : 1 + len(standing.dependencies)]
    return [line[-LANE:] for line in lines]


def test_the_axis_reaches_from_the_first_event_to_the_last_end() -> None:
    axis = axis_of(standing(50, (100, 0), (0, 20)), 10)
    assert axis is not None
    assert (axis.start, axis.end) == (0, 100 * SECOND)
    assert [axis.column(at * SECOND) for at in (-1, 0, 55, 99, 100, 101)] == [0, 0, 5, 9, 9, 9]


def test_without_any_event_there_is_no_axis() -> None:
    never = standing(50, (100, None), (60, None))
    assert axis_of(never, 10) is None
    assert [line.split()[2] for line in drawing(never, None)[1:]] == ["NEVER_SEEN", "NEVER_SEEN"]


def test_a_life_of_years_does_not_make_the_others_vanish() -> None:
    long, short = bars(standing(40, (100 * YEAR, 0), (60, 20)))
    assert long.endswith("█▶")
    assert short.count("█") > 5


def test_a_dependency_that_lives_for_an_instant_is_seen() -> None:
    _, cron = bars(standing(100, (100, 0), (0, 50)))
    assert (cron.count("█"), cron.index("█")) == (1, LANE // 2)


def test_where_an_event_would_fire_the_rule_is_shown_on_its_line_even_before_the_others() -> None:
    files, cron = bars(standing(100, (100, None), (0, 100)))
    assert files == "░" * LANE
    assert cron == "·" * (LANE - 1) + "█"


def test_where_firing_reaches_back_too_far_an_arrow_says_so() -> None:
    files, cron = bars(standing(101, (YEAR, None), (1, 100)))
    assert files == "◀" + "░" * (LANE - 1)
    assert 0 < cron.count("█") < LANE


def test_a_time_long_after_everything_is_off_the_axis() -> None:
    lines = drawing(standing(YEAR, (100, 0), (60, 20)), None)
    assert lines[3].endswith("─▶")
    assert "   ▶ 197" in lines[-1]


def test_a_line_is_never_wider_than_the_terminal() -> None:
    one = standing(50, (100, 0), (60, 20), (0, 30))
    for width in range(30, 140):
        assert max(len(line) for line in drawing(one, width)) <= width
