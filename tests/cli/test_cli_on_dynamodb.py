"""What commands say on a DynamoDB table only."""

from __future__ import annotations

from pathlib import Path

import pytest

from .on_dynamodb import CREDENTIALS
from .on_servers import Place, ready


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, str(value))
    return ready("dynamodb", tmp_path)


def test_what_the_table_cannot_answer_is_said_with_another_way(place: Place) -> None:
    told = place.run("jobs", "list", code=5).err
    assert told.startswith(
        "Error: This store cannot list the jobs of all queues together (it lacks"
    )
    assert "Name a rule" in place.run("events", "list", code=5).err


def test_queues_and_what_is_seen_of_them(place: Place) -> None:
    place.run("queues", "set", "mail", "--max-attempts", "5", "--shards", "8")
    assert "–" in place.run("queues", "list").out
    assert place.run("queues", "show", "mail", "--json").json["shards"] == 8
    place.run("queues", "pause", "mail")
    place.run("queues", "resume", "mail")
    assert "this store cannot count its jobs" in place.run("top").out
    told = place.run("forecast")
    assert "Jobs that are stored are left out." in told.out
    assert "The rate, 4,000/s, is what the partitions" in told.err
    assert place.run("forecast", "--json").json["rate_origin"] == "shards"
    place.run("queues", "delete", "mail", "--yes")


def test_a_lambda_handler_runs_on_a_table(place: Place) -> None:
    place.run("jobs", "add", '{"n": 1}')
    ended = place.run("aws", "invoke", "dispatch", "--quiet")
    assert ended.json["time_over"] is False
