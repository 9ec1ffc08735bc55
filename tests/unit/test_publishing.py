"""Events of many requests, gathered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oncue.api.publishing import SHORT, Fields, Publishing
from oncue.api.request import HttpAnswer
from oncue.core.errors import EventIdTaken, InvalidInput
from oncue.testing import HandDriven


@pytest.fixture
def cue() -> HandDriven:
    cue = HandDriven()
    cue.put_rule("r", [{"type": "TABLE", "resourceId": "T", "lifeDuration": 0}])
    return cue


@pytest.fixture
def publishing(cue: HandDriven) -> Iterator[Publishing]:
    with ThreadPoolExecutor(2) as threads:
        yield Publishing(cue, threads)


def event(second: int, **more: str) -> dict[str, str]:
    at = f"2021-01-01 00:{second // 60:02}:{second % 60:02}"
    return {"eventType": "TABLE", "eventTimestamp": at, "eventResourceId": "T", **more}


def together(publishing: Publishing, *requests: Fields) -> list[Any]:
    """What each of these requests, made in one turn of the loop, comes to."""

    async def ask() -> list[Any]:
        asked = (publishing.publish(one) for one in requests)
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask())


def instants(answer: HttpAnswer) -> list[str]:
    return [
        job["instant"][14:19] for one in json.loads(answer.body)["events"] for job in one["jobs"]
    ]


def test_each_request_is_answered_with_its_own_events(publishing: Publishing) -> None:
    answers = together(publishing, event(1), [event(2), event(3)], event(3), event(4))
    told = [["00:01"], ["00:02", "00:03"], [], ["00:04"]]
    assert [instants(answer) for answer in answers] == told
    assert [answer.status for answer in answers] == [201, 201, 200, 201]


def test_an_id_that_is_taken_refuses_its_own_request_alone(
    publishing: Publishing, cue: HandDriven
) -> None:
    requests: list[Fields] = [event(1, eventId="a"), [event(2), event(3, eventId="a")], event(4)]
    first, refused, last = together(publishing, *requests)
    assert (instants(first), instants(last)) == (["00:01"], ["00:04"])
    assert isinstance(refused, EventIdTaken)
    assert [one.event.timestamp.second for one in cue.events()] == [4, 1]


@pytest.mark.parametrize("length", [SHORT, SHORT + 1])
def test_a_list_is_checked_as_a_whole_however_long_it_is(
    publishing: Publishing, cue: HandDriven, length: int
) -> None:
    events = [event(second) for second in range(length)]
    wrong = [*events[:-1], event(0) | {"eventTimestamp": "soon"}]
    [refused] = together(publishing, wrong)
    assert isinstance(refused, InvalidInput)
    assert refused.pointer == f"/{length - 1}/eventTimestamp"
    assert list(cue.events()) == []
    [answer] = together(publishing, events)
    assert len(instants(answer)) == length
    assert cue.telemetry.totals().counts["jobs_created"] == length
