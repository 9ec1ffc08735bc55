"""Rules and events as users of the scheduler have them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

import oncue
from oncue import Bounds, Decision, Dependency, EventIdTaken, InvalidInput, NotFound, TooLarge
from oncue.core.event import EventType
from oncue.core.moment import to_datetime
from oncue.core.payload import LIMIT_BYTES
from oncue.core.publication import EventFilter
from oncue.testing import HandDriven
from oncue.wire.rules import Published
from tests.contract.board import time_based

CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}
FILE = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}


def cron(at: str = "2021-01-01 00:30:00", **more: str) -> dict[str, str]:
    return {"eventType": "TIME_BASED", "eventTimestamp": at, "eventResourceId": "cron", **more}


def file(at: str = "2021-01-01 00:00:00", path: str = "/in/a") -> dict[str, str]:
    return {"eventType": "FILE", "eventTimestamp": at, "eventResourceId": path}


@pytest.fixture
def cue() -> HandDriven:
    return HandDriven()


def test_a_fired_job_is_done_by_the_handler_of_its_queue(cue: HandDriven) -> None:
    done: list[Any] = []
    cue.handler("loads")(lambda job: done.append(job.payload))
    cue.put_rule("load", [FILE, CRON], queue="loads", payload={"into": "warehouse"})
    cue.publish([file(), cron()])
    cue.run_due()
    [payload] = done
    assert payload["payload"] == {"into": "warehouse"}
    assert payload["rule"] == "load"
    assert [one["eventResourceId"] for one in payload["events"]] == ["/in/a", "cron"]


def test_the_answer_has_the_shape_that_is_documented(cue: HandDriven) -> None:
    cue.put_rule("load", [FILE, CRON])
    cue.publish(file())
    [answer] = cue.publish(cron(eventId="c-1"))
    [job] = cue.jobs(queue="rules")
    assert msgspec.to_builtins(Published.of([answer]))["events"][0] == {
        "eventId": "c-1",
        "duplicate": False,
        "decisions": [
            {"rule": "load", "dependency": CRON, "decision": "ACCEPTED", "jobId": job.id}
        ],
        "jobs": [{"rule": "load", "jobId": job.id, "instant": "2021-01-01T00:30:00.000000Z"}],
    }
    assert (job.rule, str(job.instant)) == ("load", "2021-01-01 00:30:00+00:00")


def test_a_bad_event_in_a_list_is_named_and_nothing_of_the_list_is_stored(cue: HandDriven) -> None:
    with pytest.raises(InvalidInput) as refusal:
        cue.publish([file(), cron("soon")])
    assert refusal.value.pointer == "/1/eventTimestamp"
    assert list(cue.events()) == []


def test_an_event_further_ahead_than_a_week_is_refused_unless_it_is_allowed(
    cue: HandDriven,
) -> None:
    now = to_datetime(cue.clock.now())
    week, beyond = now + timedelta(days=7), now + timedelta(days=7, microseconds=1)
    cue.publish(cron(week.isoformat()))
    with pytest.raises(InvalidInput, match="as far ahead as an event may lie") as refused:
        cue.publish(cron(beyond.isoformat()))
    assert str(refused.value).endswith("or raise events_ahead_seconds.")
    cue.bounds = Bounds(ahead_seconds=8 * 86_400)
    cue.publish(cron(beyond.isoformat()))


def test_an_id_with_other_content_is_a_conflict(cue: HandDriven) -> None:
    cue.publish(cron(eventId="x"))
    with pytest.raises(EventIdTaken):
        cue.publish({**file(), "eventId": "x"})


@pytest.mark.parametrize("events", ["cron", 5, None, {1, 2}])
def test_only_an_event_or_a_list_of_them_is_published(cue: HandDriven, events: Any) -> None:
    with pytest.raises(InvalidInput):
        cue.publish(events)


def test_too_many_events_at_once_are_refused(cue: HandDriven) -> None:
    with pytest.raises(InvalidInput, match="10,000"):
        cue.publish([cron()] * 10_001)


def test_publishing_no_events_is_answered_with_nothing(cue: HandDriven) -> None:
    assert cue.publish([]) == []


def test_a_schedule_of_ones_own_publishes_to_the_same_rules(cue: HandDriven) -> None:
    cue.put_rule("load", [CRON])
    [answer] = cue.publish(time_based("cron", 0))
    assert [job.rule for job in answer.jobs] == ["load"]


def test_rules_are_put_read_listed_and_deleted(cue: HandDriven) -> None:
    given = Dependency(EventType.TABLE, "T", 5)
    for name in ("b", "a"):
        assert cue.put_rule(name, [given]).name == name
    assert [rule.name for rule in cue.rules()] == ["a", "b"]
    assert cue.rule("a").dependencies == (given,)
    cue.delete_rule("a")
    for missing in ("a", "", 5):
        with pytest.raises(NotFound, match="no rule"):
            cue.rule(missing)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        cue.delete_rule("a")
    with pytest.raises(NotFound):
        cue.explain_rule("a")


def test_a_rule_with_a_payload_that_leaves_no_room_for_events_is_refused(cue: HandDriven) -> None:
    cue.put_rule("load", [CRON], payload="x" * 131_000)
    with pytest.raises(TooLarge) as refusal:
        cue.put_rule("load", [CRON], payload="x" * 132_000)
    assert refusal.value.pointer == "/payload"


def test_the_largest_rule_fires_a_job_that_is_not_too_large(cue: HandDriven) -> None:
    resource = "é" * 510
    many = [
        {"type": "TABLE", "resourceId": f"{resource}{n:02}", "lifeDuration": 60} for n in range(50)
    ]
    cue.put_rule("x" * 200, many, payload="x" * 131_000)
    cue.publish(
        [
            {
                "eventType": "TABLE",
                "eventTimestamp": "2021-01-01 00:00:00",
                "eventResourceId": one["resourceId"],
            }
            for one in many
        ]
    )
    [job] = cue.jobs(queue="rules")
    assert 200_000 < len(job.payload_json) <= LIMIT_BYTES


def test_events_are_listed_by_rule_and_decision(cue: HandDriven) -> None:
    cue.put_rule("load", [FILE, CRON])
    cue.publish([file(), cron(), cron(), file("2021-01-01 00:10:00")])
    assert len(list(cue.events())) == 3
    [stale] = cue.events(rule="load", decision="STALE")
    assert [one.decision for one in stale.decisions] == [Decision.STALE]
    assert [one.event.type for one in cue.events(decision=Decision.DUPLICATE)] == ["TIME_BASED"]
    page = cue.event_page(EventFilter(), None, 2)
    assert len(page.items) == 2
    assert page.next is not None
    with pytest.raises(InvalidInput, match="must be one of"):
        list(cue.events(decision="MAYBE"))
    with pytest.raises(NotFound):
        list(cue.events(rule="nobody"))


def test_a_rule_is_explained_now_or_at_a_time(cue: HandDriven) -> None:
    cue.put_rule("load", [FILE, CRON])
    cue.publish(file())
    validity = [str(one.validity) for one in cue.explain_rule("load").dependencies]
    assert validity == ["EXPIRED", "NEVER_SEEN"]
    then = cue.explain_rule("load", at="2021-01-01 00:10:00")
    assert [str(one.validity) for one in then.dependencies] == ["MET", "NEVER_SEEN"]
    with pytest.raises(InvalidInput) as refusal:
        cue.explain_rule("load", at="later")
    assert refusal.value.pointer == "/at"


def test_the_pruner_forgets_events_by_the_bounds_of_the_scheduler(cue: HandDriven) -> None:
    cue.bounds = Bounds(loose_seconds=60)
    cue.publish(cron())
    cue.advance(60)
    assert len(list(cue.events())) == 1
    cue.advance(61)
    assert list(cue.events()) == []


def test_what_rules_and_events_are_made_of_can_be_imported_from_oncue() -> None:
    for name in ("Bounds", "Decision", "Dependency", "Event", "Published", "Rule", "Standing"):
        assert getattr(oncue, name).__module__.startswith("oncue.core")
