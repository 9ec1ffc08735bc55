"""What makes a rule, what is refused as one, and which events match it."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.core import stamp
from oncue.core.errors import InvalidInput
from oncue.core.event import EventType, read_event
from oncue.core.rule import Dependency, match_keys, read_dependencies, read_rule

CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": "0"}
LATEST = stamp.parse("2030-01-01T00:00:00Z")


def file(resource: str, life: Any = 60) -> dict[str, Any]:
    return {"type": "FILE", "resourceId": resource, "lifeDuration": life}


def matches(dependency: dict[str, Any], kind: str, resource: str) -> bool:
    [one] = read_dependencies([dependency])
    event = read_event(
        {
            "eventType": kind,
            "eventTimestamp": "2021-01-01 00:00:00",
            "eventResourceId": resource,
        },
        LATEST,
    )
    keys = match_keys(event)
    found = one.type is event.type and keys.matches(one)
    by_index = one.key == keys.exact or one.key in keys.above
    assert by_index or not found, "the index must find whatever matches"
    return found


@pytest.mark.parametrize(
    ("dependency", "path", "matched"),
    [
        ("/a/b/", "/a/b/c", True),
        ("/a/b/", "/a/b/c/d/e", True),
        ("/a/b/", "/a/b", False),
        ("/a/b/", "/a/b/", False),
        ("/a/b/", "/a/bc", False),
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/b/c", True),
        ("/a/b", "/a/bc", False),
        ("/a/b", "/a", False),
        ("//a//b/", "/a/./b/c", True),
        ("/", "/a", True),
        ("/", "/", False),
        ("a/b", "/a/b", False),
        ("a", "a/b", True),
        ("/", "a", False),
        ("gs://bucket/dir/", "gs://bucket/dir/a.csv", True),
        ("gs://bucket/dir/", "gs://bucket/other/a.csv", False),
        ("gs://bucket", "gs://bucket", True),
        ("gs:/bucket/dir/", "gs://bucket/dir/a.csv", True),  # as older stores have it
        ("gs://bucket/", "s3://bucket/a.csv", False),
        ("file:///in/", "file:///in/a.csv", True),
    ],
)
def test_a_file_matches_by_segments(dependency: str, path: str, matched: bool) -> None:
    assert matches(file(dependency), "FILE", path) is matched


def test_tables_and_crons_match_exactly_and_only_their_own_type() -> None:
    table = {"type": "TABLE", "resourceId": "/a", "lifeDuration": 1}
    assert matches(table, "TABLE", "/a")
    assert not matches(table, "TABLE", "/a/b")
    assert not matches(table, "TABLE", "/A")
    assert not matches(table, "FILE", "/a")
    assert matches(CRON, "TIME_BASED_CRON", "cron")


def test_a_rule_is_read_as_the_seed_writes_it() -> None:
    rule = read_rule("r", [file("/in//", "3600"), CRON])
    assert rule.dependencies == (
        Dependency(EventType.FILE, "/in/", 3600),
        Dependency(EventType.TIME_BASED, "cron", 0),
    )
    assert (rule.enabled, rule.queue, rule.payload) == (True, "rules", None)
    assert read_rule("r", rule.dependencies) == rule


@pytest.mark.parametrize(
    ("dependencies", "pointer"),
    [
        ([], "/dependencies"),
        ("cron", "/dependencies"),
        ({}, "/dependencies"),
        (None, "/dependencies"),
        ([CRON] * 51, "/dependencies"),
        ([CRON, CRON], "/dependencies/1"),
        ([file("/a/b"), file("/a//b")], "/dependencies/1"),
        ([CRON, {**CRON, "type": "TIME BASED", "lifeDuration": 5}], "/dependencies/1"),
        ([CRON, "FILE"], "/dependencies/1"),
        ([{**CRON, "type": "DAY"}], "/dependencies/0/type"),
        ([{**CRON, "resourceId": ""}], "/dependencies/0/resourceId"),
        ([file("/a/../b")], "/dependencies/0/resourceId"),
        ([{**CRON, "resource": "x"}], "/dependencies/0/resource"),
        *(
            ([file("/a", life)], "/dependencies/0/lifeDuration")
            for life in (-1, "-1", 1.5, "1.5", "", None, True, "ten", "٣", 10**11, float("nan"))
        ),
    ],
)
def test_bad_dependencies_are_refused_and_named(dependencies: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_rule("r", dependencies)
    assert refusal.value.pointer == pointer


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"name": None}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"enabled": "yes"}, "/enabled"),
        ({"queue": "no good"}, "/queue"),
    ],
)
def test_bad_members_of_a_rule_are_refused_and_named(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_rule(**{"name": "r", "dependencies": [CRON], **fields})
    assert refusal.value.pointer == pointer


def test_a_folder_and_what_is_below_it_are_two_dependencies() -> None:
    assert len(read_dependencies([file("/a"), file("/a/")])) == 2
