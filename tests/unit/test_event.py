"""What makes an event, and what is refused as one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncue.core import stamp
from oncue.core.errors import InvalidInput
from oncue.core.event import (
    Bounds,
    EventType,
    ancestors,
    latest_stamp,
    read_event,
    read_path,
)
from tests.contract.board import time_based

LATEST = stamp.parse("2030-01-01T00:00:00Z")
GOOD = {
    "eventType": "FILE",
    "eventTimestamp": "2021-01-01 11:59:59",
    "eventResourceId": "/in/a.txt",
}


def read(**fields: Any) -> Any:
    return read_event({**GOOD, **fields}, LATEST)


def test_an_event_is_read_as_the_sender_wrote_it() -> None:
    event = read(eventId="mine")
    assert (event.id, event.type, event.resource) == ("mine", EventType.FILE, "/in/a.txt")
    assert event.as_dict() == {
        "eventId": "mine",
        "eventType": "FILE",
        "eventTimestamp": "2021-01-01T11:59:59.000000Z",
        "eventResourceId": "/in/a.txt",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("FILE", EventType.FILE),
        ("TABLE", EventType.TABLE),
        ("TIME_BASED", EventType.TIME_BASED),
        ("TIME BASED", EventType.TIME_BASED),
        ("TIME_BASED_CRON", EventType.TIME_BASED),
    ],
)
def test_a_type_has_several_spellings(written: str, meant: EventType) -> None:
    assert read(eventType=written).type is meant


def test_without_an_id_the_same_fact_gets_the_same_one() -> None:
    assert read().id == read(eventTimestamp="2021-01-01T12:59:59+01:00").id
    assert read(eventResourceId="//in/./a.txt").id == read().id
    others = [read(eventType="TABLE"), read(eventResourceId="/in/b")]
    others.append(read(eventTimestamp="2021-01-01 12:00:00"))
    assert len({read().id, *(other.id for other in others)}) == 4


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"eventType": "file"}, "/eventType"),
        ({"eventType": None}, "/eventType"),
        ({"eventType": ["FILE"]}, "/eventType"),
        ({"eventTimestamp": "soon"}, "/eventTimestamp"),
        ({"eventTimestamp": None}, "/eventTimestamp"),
        ({"eventTimestamp": "2030-01-01T00:00:00.000001Z"}, "/eventTimestamp"),
        ({"eventResourceId": ""}, "/eventResourceId"),
        ({"eventResourceId": 5}, "/eventResourceId"),
        ({"eventResourceId": None}, "/eventResourceId"),
        ({"eventResourceId": "/in/../etc"}, "/eventResourceId"),
        ({"eventResourceId": "."}, "/eventResourceId"),
        ({"eventResourceId": "/in/\0"}, "/eventResourceId"),
        ({"eventResourceId": "/in/\ud800"}, "/eventResourceId"),
        ({"eventResourceId": "é" * 513}, "/eventResourceId"),
        ({"eventId": ""}, "/eventId"),
        ({"eventId": 7}, "/eventId"),
        ({"eventId": "x" * 201}, "/eventId"),
        ({"eventId": "a\nb"}, "/eventId"),
        ({"eventResourceld": "cron"}, "/eventResourceld"),
    ],
)
def test_a_bad_member_is_refused_and_named(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(**fields)
    assert refusal.value.pointer == pointer


def test_the_place_of_an_event_in_a_list_is_part_of_the_pointer() -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_event({**GOOD, "eventType": "x"}, LATEST, "/3")
    assert refusal.value.pointer == "/3/eventType"
    with pytest.raises(InvalidInput) as refusal:
        read_event("FILE", LATEST, "/4")
    assert refusal.value.pointer == "/4"


def test_an_event_may_be_stamped_until_a_week_from_now() -> None:
    now = stamp.parse("2029-12-25T00:00:00Z")
    assert latest_stamp(now, Bounds()) == LATEST
    assert read(eventTimestamp="2030-01-01T00:00:00Z").stamp == LATEST


@pytest.mark.parametrize("seconds", [-1, 10**12, "3600", None, 1.5, timedelta(days=90)])
def test_bounds_are_whole_seconds(seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="whole number") as refusal:
        Bounds(late_seconds=seconds)
    assert refusal.value.pointer == "/late_seconds"


@pytest.mark.parametrize(
    ("written", "key", "below"),
    [
        ("/a/b", "/a/b", False),
        ("/a/b/", "/a/b", True),
        ("//a/./b//", "/a/b", True),
        ("/a/b/.", "/a/b", True),
        ("a/b", "a/b", False),
        ("./a", "a", False),
        ("/", "", True),
        ("/a..b/...", "/a..b/...", False),
        ("gs://bucket/dir/", "gs://bucket/dir", True),
        ("gs://bucket//dir/./a.csv", "gs://bucket/dir/a.csv", False),
        ("file:///in/a.csv", "file:///in/a.csv", False),
        ("gs://", "gs:", True),
        ("a://..b", "a://..b", False),
    ],
)
def test_a_path_is_its_segments(written: str, key: str, below: bool) -> None:
    assert read_path(written, "") == (key, below)


def test_the_ancestors_of_a_path_are_the_folders_it_lies_in() -> None:
    assert ancestors("/a/b/c") == ["/a/b", "/a", ""]
    assert ancestors("a/b/c") == ["a/b", "a"]
    assert ancestors("/a") == [""]
    assert ancestors("a") == ancestors("") == []


def test_an_event_without_an_id_gets_one_made_from_its_fact() -> None:
    event = time_based("cron", stamp.parse("2021-01-01 12:30:00"))
    same = {**GOOD, "eventType": "TIME_BASED_CRON", "eventResourceId": "cron"}
    assert event == read_event({**same, "eventTimestamp": "2021-01-01 12:30:00"}, LATEST)
