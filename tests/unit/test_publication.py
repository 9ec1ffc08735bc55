"""What a rule makes of an event, as data for the store to apply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from oncue.clock import FakeClock
from oncue.core.event import Bounds, Event, EventType
from oncue.core.firing import Decision
from oncue.core.publication import Conclusion, Fired, conclude
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import SECOND, Stamp

NOW = FakeClock().now()
A, B = (Dependency(EventType.TABLE, name, 60) for name in ("a", "b"))
RULE = Rule("both", (A, B))


def event(resource: str, seconds: int) -> Event:
    return Event(f"{resource}-{seconds}", EventType.TABLE, resource, seconds * SECOND)


def concluded(
    it: Event, known: Mapping[int, Event], rule: Rule = RULE, validated: tuple[int, ...] = (0,)
) -> Conclusion:
    """What the rule makes of the event, of whose dependencies these events were accepted."""

    def newest(place: int, t: Stamp) -> Stamp | None:
        found = known.get(place)
        return found.stamp if found is not None and found.stamp <= t else None

    def first_at(place: int, stamp: Stamp) -> Event | None:
        found = known.get(place)
        return found if found is not None and found.stamp == stamp else None

    last = max((one.stamp for one in known.values()), default=None)
    return conclude(rule, it, validated, last, Bounds(), NOW, newest, first_at)


def test_an_event_that_the_store_does_not_have_yet_counts() -> None:
    it, other = event("a", 100), event("b", 90)
    decision, [decided], job = concluded(it, {1: other})
    assert decision is decided.decision is Decision.ACCEPTED
    assert job is not None
    assert decided.job_id == job.job.id
    included = json.loads(job.job.payload)["events"]
    assert [one["eventId"] for one in included] == [it.id, other.id]
    assert concluded(it, {}).job is None


def test_an_earlier_event_of_the_same_moment_is_the_one_that_is_included() -> None:
    first, other = replace(event("a", 100), id="first"), event("b", 90)
    job = concluded(event("a", 100), {0: first, 1: other}).job
    assert job is not None
    assert json.loads(job.job.payload)["events"][0]["eventId"] == "first"


def test_a_stale_event_is_accepted_nowhere_and_fires_nothing() -> None:
    rule = replace(RULE, last_instant=200 * SECOND)
    answer = concluded(event("a", 100), {1: event("b", 90)}, rule)
    assert (answer.decision, answer.job, answer.fired) == (Decision.STALE, None, [])


def test_a_disabled_rule_accepts_and_says_why_it_fires_nothing() -> None:
    rule = replace(RULE, enabled=False)
    answer = concluded(event("a", 100), {1: event("b", 90)}, rule)
    assert answer.decision is Decision.ACCEPTED
    assert [one.suppressed for one in answer.decisions] == ["disabled"]
    assert answer.job is None


def test_the_publisher_is_told_of_the_job() -> None:
    answer = concluded(event("a", 100), {1: event("b", 90)})
    assert answer.job is not None
    assert answer.fired == [Fired("both", answer.job.job.id, 100 * SECOND)]
