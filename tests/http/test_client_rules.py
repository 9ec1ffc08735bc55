"""Rules and events by `oncue.Client`: what a `Scheduler` on the same store says, and raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from oncue import (
    Client,
    Dependency,
    EventIdTaken,
    InvalidInput,
    NotFound,
    OncueError,
    Published,
    Scheduler,
    TooLarge,
)
from oncue.core.event import EventType
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter
from oncue.core.rule import PAYLOAD_LIMIT_BYTES
from tests.contract.board import time_based
from tests.http.happenings import Happenings
from tests.http.meddler import LOSE, meddling
from tests.http.server import Server

NOON = datetime(2021, 1, 1, 12, tzinfo=UTC)
_numbers = count(1)


@pytest.fixture
def board(server: Server) -> Happenings:
    return Happenings(server, f"c{next(_numbers)}")


@pytest.fixture
def hourly(board: Happenings) -> Happenings:
    return board.hourly()


# -- rules -----------------------------------------------------------------------------------------


def test_a_rule_is_put_and_read_with_all_its_fields(client: Client, cue: Scheduler) -> None:
    name = "load / ü?"
    dependencies: list[Any] = [
        Dependency(EventType.FILE, "/in/", 3600),
        {"type": "TIME BASED", "resourceId": "nightly", "lifeDuration": "0"},
    ]
    put = client.put_rule(name, dependencies, enabled=False, queue="loads", payload={"a": [1]})
    assert put == client.rule(name) == cue.rule(name)
    assert (put.enabled, put.queue, put.payload) == (False, "loads", {"a": [1]})
    changed = client.put_rule(name, dependencies[:1])
    assert (changed.enabled, changed.queue, changed.payload) == (True, "rules", None)
    assert changed.created_at == put.created_at
    client.delete_rule(name)
    with pytest.raises(NotFound):
        cue.rule(name)


@pytest.mark.parametrize("name", [".", "..", "%2F", "a b"])
def test_a_name_that_looks_like_a_path_is_a_name(client: Client, cue: Scheduler, name: str) -> None:
    client.put_rule(name, [Dependency(EventType.TABLE, "nobody's", 0)])
    assert cue.rule(name) == client.rule(name)
    assert client.explain_rule(name).rule.name == name
    client.delete_rule(name)


def test_all_rules_are_listed_by_name(client: Client, cue: Scheduler, board: Happenings) -> None:
    for number in (2, 1):
        client.put_rule(f"{board.name}-{number}", [Dependency(EventType.TABLE, "nobody's", 0)])
    listed = list(client.rules())
    assert listed == list(cue.rules())
    mine = [rule.name for rule in listed if rule.name.startswith(f"{board.name}-")]
    assert mine == [f"{board.name}-1", f"{board.name}-2"]


# -- events ----------------------------------------------------------------------------------------


def bare(published: Published) -> Published:
    """Without when and how often it was decided: a server does not tell it to those who publish."""
    decisions = (replace(one, decided_at=None, times=1) for one in published.decisions)
    return replace(published, decisions=tuple(decisions))


def test_what_is_published_is_answered_as_a_scheduler_answers(
    client: Client, cue: Scheduler, hourly: Happenings
) -> None:
    events: list[Any] = [
        hourly.file_at(0, eventId=f"{hourly.name}-file"),
        hourly.cron_at(0) | {"eventTimestamp": NOON - timedelta(hours=11, minutes=30)},
        time_based(f"{hourly.name}.cron", 0),
    ]
    file, cron, stale = client.publish(events)
    assert (file.event.id, file.jobs) == (f"{hourly.name}-file", ())
    [fired] = cron.jobs
    assert (fired.rule, fired.instant) == (hourly.name, cron.event.stamp)
    assert [one.decision for one in stale.decisions] == ["STALE"]
    for there, here in zip(client.publish(events), cue.publish(events), strict=True):
        assert there == bare(here)
        assert there.duplicate


def test_what_was_published_is_a_duplicate_when_its_answer_was_lost(
    server: Server, hourly: Happenings
) -> None:
    with meddling(server.url) as proxy, Client(proxy.url) as client:
        client.publish(hourly.file_at(0))
        proxy.plan.append(LOSE)
        [answer] = client.publish(hourly.cron_at(10))
        [job] = client.jobs(queue=hourly.name)
    assert (answer.duplicate, answer.jobs) == (True, ())
    assert [one.job_id for one in answer.decisions] == [job.id]


def test_a_rule_is_deleted_once_when_the_answer_was_lost(
    server: Server, hourly: Happenings
) -> None:
    with meddling(server.url) as proxy, Client(proxy.url) as client:
        proxy.plan.append(LOSE)
        client.delete_rule(hourly.name)
        assert [method for method, _ in proxy.seen] == ["DELETE", "DELETE"]
        with pytest.raises(NotFound):
            client.delete_rule(hourly.name)


def test_one_event_need_not_be_in_a_list_and_an_empty_list_asks_nobody(
    client: Client, hourly: Happenings
) -> None:
    client.publish(hourly.file_at(0))
    [answer] = client.publish(hourly.cron_at(10))
    [fired] = answer.jobs
    job = client.job(fired.job_id)
    assert (job.rule, job.instant) == (hourly.name, datetime(2021, 1, 1, 0, 0, 10, tzinfo=UTC))
    assert client.publish([]) == []


def test_events_are_listed_as_a_scheduler_lists_them(
    client: Client, cue: Scheduler, hourly: Happenings
) -> None:
    sent = [hourly.file_at(0), hourly.cron_at(10), hourly.file_at(5), hourly.cron_at(10)]
    client.publish(sent)
    for asked in ({}, {"rule": hourly.name}, {"decision": "STALE"}, {"decision": "DUPLICATE"}):
        listed = list(client.events(**asked))
        assert listed == list(cue.events(**asked))
        assert listed
    wanted = EventFilter(hourly.name, Decision.ACCEPTED)
    first = client.event_page(wanted, limit=1)
    assert first == cue.event_page(wanted, limit=1)
    assert client.event_page(wanted, first.next, 1) == cue.event_page(wanted, first.next, 1)


@pytest.mark.parametrize("at", [None, "2021-01-01 00:00:05", NOON])
def test_a_rule_is_explained_as_a_scheduler_explains_it(
    client: Client, cue: Scheduler, hourly: Happenings, at: datetime | str | None
) -> None:
    client.publish([hourly.cron_at(0), hourly.file_at(1), hourly.cron_at(2)])
    there, here = client.explain_rule(hourly.name, at), cue.explain_rule(hourly.name, at)
    if at is None:  # each has its own now
        there, here = replace(there, at=0), replace(here, at=0)
    assert there == here


def test_a_claimed_job_has_the_rule_and_instant_that_a_scheduler_sees(
    client: Client, hourly: Happenings
) -> None:
    client.publish([hourly.file_at(0), hourly.cron_at(10)])
    [claim] = client.claim(hourly.name, "ada")
    assert (claim.rule, claim.instant) == (hourly.name, 1_609_459_210_000_000)


# -- refusals --------------------------------------------------------------------------------------

Call = Callable[[Any, Happenings], object]
REFUSED: list[tuple[Call, type[OncueError], str]] = [
    (lambda cue, on: cue.put_rule(on.name, []), InvalidInput, "/dependencies"),
    (lambda cue, on: cue.put_rule(on.name, None), InvalidInput, "/dependencies"),
    (lambda cue, on: cue.put_rule("", [on.cron]), InvalidInput, "/name"),
    (lambda cue, on: cue.put_rule(on.name, [on.cron], queue="a b"), InvalidInput, "/queue"),
    (
        lambda cue, on: cue.put_rule(on.name, [on.cron], payload="a" * PAYLOAD_LIMIT_BYTES),
        TooLarge,
        "/payload",
    ),
    (lambda cue, on: cue.rule("nowhere"), NotFound, ""),
    (lambda cue, on: cue.rule(""), NotFound, ""),
    (lambda cue, on: cue.delete_rule("nowhere"), NotFound, ""),
    (lambda cue, on: cue.explain_rule("nowhere"), NotFound, ""),
    (lambda cue, on: cue.explain_rule(on.name, "noon"), InvalidInput, "/at"),
    (lambda cue, on: list(cue.events(rule="nowhere")), NotFound, ""),
    (lambda cue, on: list(cue.events(decision="MAYBE")), InvalidInput, "/decision"),
    (lambda cue, on: cue.publish(7), InvalidInput, ""),
    (lambda cue, on: cue.publish({}), InvalidInput, "/eventType"),
    (lambda cue, on: cue.publish([on.cron_at(0), {}]), InvalidInput, "/1/eventType"),
    (lambda cue, on: cue.publish(on.cron_at(10**10)), InvalidInput, "/eventTimestamp"),
    (lambda cue, on: cue.publish([on.cron_at(10**10)]), InvalidInput, "/0/eventTimestamp"),
    (
        lambda cue, on: cue.publish([on.cron_at(n, eventId=on.name) for n in (0, 1)]),
        EventIdTaken,
        "",
    ),
]


@pytest.mark.parametrize(("call", "kind", "pointer"), REFUSED)
def test_what_a_scheduler_refuses_a_client_refuses_alike(
    client: Client,
    cue: Scheduler,
    hourly: Happenings,
    call: Call,
    kind: type[OncueError],
    pointer: str,
) -> None:
    for asked in (cue, client):
        with pytest.raises(OncueError) as refusal:
            call(asked, hourly)
        assert type(refusal.value) is kind
        assert getattr(refusal.value, "pointer", "") == pointer
    assert list(cue.events(rule=hourly.name)) == []
