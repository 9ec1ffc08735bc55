"""Rules and events against a server (`--url`): the same answers as against a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli_events import CRON, FILES, event
from tests.cli.test_cli_url import Places
from tests.http.server import running_server


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with running_server(there, "--no-engine") as server:
        yield Places(here, server)


def test_rules_and_events_are_the_same_at_a_server(places: Places) -> None:
    rules = json.dumps([{"name": "hourly load", "dependencies": [FILES, CRON]}])
    bad = json.dumps([{"name": "x", "dependencies": []}])
    sent = json.dumps(
        [
            event("FILE", "2021-01-01 12:14:50", "/in/a.csv"),
            event("FILE", "2021-01-01 12:14:50", "/in/a.csv"),
            event("TABLE", "2021-01-01 12:14:50", "ELSEWHERE"),
        ]
    )
    far = json.dumps([event("FILE", "2999-01-01 00:00:00", "/in/a.csv")])
    places.prepare(lambda cue: cue.put_rule("other", [CRON], enabled=False, payload={"a": 1}))
    for arguments, stdin in (
        (("rules", "apply", "-"), rules),
        (("rules", "apply", "-", "--dry-run", "--json"), rules),
        (("rules", "apply", "-"), bad),
        (("rules", "list"), ""),
        (("rules", "list", "--json"), ""),
        (("rules", "show", "hourly load"), ""),
        (("rules", "show", "hourly lode"), ""),
        (("events", "send", "-"), sent),
        (("events", "send", "-", "--json"), sent),
        (("events", "send", "-"), far),
        (("events", "send", "FILE", "/a", "--at", "2999-01-01 00:00"), ""),
        (("events", "list"), ""),
        (("events", "list", "--json"), ""),
        (("events", "list", "--rule", "hourly load", "--decision", "DUPLICATE"), ""),
        (("events", "list", "--rule", "nobody"), ""),
        (("rules", "explain", "hourly load", "--at", "2021-01-01 13:30"), ""),
        (("rules", "explain", "hourly load", "--at", "2021-01-01 13:30", "--json"), ""),
        (("rules", "delete", "hourly load", "--yes"), ""),
        (("rules", "delete", "hourly load", "--yes"), ""),
    ):
        places.same(*arguments, stdin=stdin)
