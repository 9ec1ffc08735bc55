"""The cases of rules and events as they are seen over HTTP, a sentence each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.http.errand import taken, told
from tests.http.happenings import Happenings, place, stamp
from tests.http.server import Server, running_server

_numbers = count(1)


@pytest.fixture
def board(server: Server) -> Happenings:
    return Happenings(server, f"r{next(_numbers)}")


@pytest.fixture
def hourly(board: Happenings) -> Happenings:
    return board.hourly()


def decisions(answer: Any) -> list[str]:
    return [one["decision"] for one in answer["decisions"]]


def test_a_file_and_then_the_cron_within_its_life_fire_at_the_cron(hourly: Happenings) -> None:
    assert hourly.post(hourly.file_at(0))["jobs"] == []
    [fired] = hourly.post(hourly.cron_at(1800))["jobs"]
    assert (fired["rule"], fired["instant"]) == (hourly.name, stamp(1800))
    job = hourly.server.get(f"/jobs/{fired['jobId']}").json
    assert (job["rule"], job["instant"], job["state"]) == (hourly.name, stamp(1800), "scheduled")


def test_the_cron_posted_before_the_file_fires_the_same_single_job(hourly: Happenings) -> None:
    assert hourly.post(hourly.cron_at(1800))["jobs"] == []
    [fired] = hourly.post(hourly.file_at(0))["jobs"]
    assert fired["instant"] == stamp(1800)
    assert hourly.instants() == [stamp(1800)]


def test_a_cron_before_the_file_fires_nothing_and_explains_by_how_much_it_missed(
    hourly: Happenings,
) -> None:
    hourly.post_all(hourly.cron_at(1800), hourly.file_at(1801))
    assert hourly.instants() == []
    stands = hourly.stands(1801)
    assert [one["validity"] for one in stands["dependencies"]] == ["MET", "NOT_OVERLAPPING"]
    assert stands["dependencies"][1]["missedBySeconds"] == stands["missedBySeconds"] == 1
    assert "the intervals miss each other by 1 s" in stands["sentence"]


@pytest.mark.parametrize(("cron", "fires"), [(3600, True), (3600.000001, False), (3601, False)])
def test_a_life_ends_with_its_last_second_included(
    hourly: Happenings, cron: float, fires: bool
) -> None:
    hourly.post_all(hourly.file_at(0), hourly.cron_at(cron))
    assert hourly.instants() == [stamp(cron)] * fires
    file, _ = hourly.stands(3601)["dependencies"]
    assert (file["validity"], file["validUntil"]) == ("EXPIRED", stamp(3600))


@pytest.mark.parametrize(("other", "fires"), [(5, True), (5.000001, False), (4.999999, False)])
def test_without_life_only_equal_timestamps_meet(
    board: Happenings, other: float, fires: bool
) -> None:
    board.rule(board.waits_for("a", 0), board.waits_for("b", 0))
    board.post_all(board.table_at(5, "a"), board.table_at(other, "b"))
    assert board.instants() == [stamp(5)] * fires


def test_the_same_event_again_is_a_duplicate_that_names_the_earlier_job(
    hourly: Happenings,
) -> None:
    hourly.post(hourly.file_at(0))
    first = hourly.post(hourly.cron_at(1800))
    [fired] = first["jobs"]
    for again in (hourly.cron_at(1800), hourly.cron_at(1800, eventId=f"{hourly.name}-other")):
        answer = hourly.post(again, status=200)
        assert (answer["duplicate"], answer["jobs"]) == (True, [])
        assert decisions(answer) == ["DUPLICATE"]
        assert [one["jobId"] for one in answer["decisions"]] == [fired["jobId"]]
        assert answer["eventId"] == first["eventId"]
    assert hourly.instants() == [stamp(1800)]


def test_the_same_event_id_again_is_a_duplicate(hourly: Happenings) -> None:
    event = hourly.file_at(0, eventId=f"{hourly.name}-mine")
    assert hourly.post(event)["eventId"] == event["eventId"]
    assert hourly.post(event, status=200)["duplicate"] is True


def test_an_id_with_other_content_is_a_409_and_nothing_is_stored(hourly: Happenings) -> None:
    mine = f"{hourly.name}-mine"
    hourly.post(hourly.file_at(0, eventId=mine))
    server = hourly.server
    for other in (hourly.file_at(1, eventId=mine), [hourly.cron_at(1), hourly.cron_at(2)]):
        if isinstance(other, list):
            other[1]["eventId"] = mine
        reply = server.post("/events", other)
        assert (reply.status, reply.json["type"]) == (409, "/problems/event-id-taken")
        assert repr(mine) in reply.json["detail"]
    log = server.get(f"/events?rule={hourly.name}").json["items"]
    assert [one["eventId"] for one in log] == [mine]
    assert hourly.instants() == []


@pytest.mark.parametrize("late", [1799, 1800])
def test_what_is_not_after_the_last_instant_is_stale_stored_and_fires_nothing(
    hourly: Happenings, late: float
) -> None:
    hourly.post_all(hourly.file_at(0), hourly.cron_at(1800))
    answer = hourly.post(hourly.file_at(late, "late"))
    assert (answer["duplicate"], decisions(answer), answer["jobs"]) == (False, ["STALE"], [])
    assert hourly.instants() == [stamp(1800)]
    log = hourly.server.get(f"/events?rule={hourly.name}&decision=STALE").json["items"]
    assert [one["eventResourceId"] for one in log] == [f"/{hourly.name}/late"]


def test_a_late_event_after_the_last_instant_may_fire_in_the_past(board: Happenings) -> None:
    board.rule(board.waits_for("A", 60), board.waits_for("B", 0))
    board.post_all(board.table_at(0, "A"), board.table_at(100, "A"))
    [fired] = board.post(board.table_at(30, "B"))["jobs"]
    assert fired["instant"] == stamp(30)


def test_a_newer_event_while_all_are_valid_fires_a_second_job(board: Happenings) -> None:
    board.rule(board.waits_for("A", 60), board.waits_for("B", 60))
    board.post_all(board.table_at(0, "A"), board.table_at(10, "B"), board.table_at(20, "A"))
    assert board.instants() == [stamp(10), stamp(20)]


def test_five_hundred_files_in_a_minute_fire_five_hundred_jobs(board: Happenings) -> None:
    board.rule(board.folder, board.waits_for("T", 3600))
    board.post(board.table_at(0, "T"))
    files = [board.file_at(1 + n * 0.1, str(n)) for n in range(500)]
    reply = board.server.post("/events", files)
    assert reply.status == 201
    assert [len(one["jobs"]) for one in reply.json["events"]] == [1] * 500
    assert len(set(board.instants())) == 500
    assert board.server.post("/events", files).status == 200


def test_an_event_too_far_ahead_is_refused_and_blocks_no_rule(hourly: Happenings) -> None:
    for far in ("2099-01-01T00:00:00Z", "9999-12-31 23:59:59.999999"):
        event = {**hourly.cron_at(0), "eventTimestamp": far}
        reply = hourly.server.post("/events", event)
        assert (reply.status, reply.pointer) == (422, "/eventTimestamp")
    hourly.post_all(hourly.file_at(0), hourly.cron_at(1))
    assert hourly.instants() == [stamp(1)]


def test_a_changed_life_counts_at_once_and_fires_nothing_by_itself(hourly: Happenings) -> None:
    hourly.post_all(hourly.file_at(0), hourly.cron_at(4000))
    assert hourly.rule({**hourly.folder, "lifeDuration": 7200}, hourly.cron).status == 200
    assert hourly.instants() == []
    hourly.post(hourly.cron_at(5000))
    assert hourly.instants() == [stamp(5000)]


def test_an_added_dependency_is_validated_only_by_what_comes_after_it(hourly: Happenings) -> None:
    hourly.post(hourly.table_at(0, "T"))
    hourly.rule(hourly.folder, hourly.cron, hourly.waits_for("T", 3600))
    hourly.post_all(hourly.file_at(0), hourly.cron_at(10))
    assert hourly.instants() == []
    assert hourly.stands(10)["dependencies"][2]["validity"] == "NEVER_SEEN"
    hourly.post(hourly.table_at(5, "T"))
    assert hourly.instants() == [stamp(10)]


def test_a_rule_deleted_and_created_again_is_another_rule(hourly: Happenings) -> None:
    hourly.post_all(hourly.file_at(0), hourly.cron_at(1800))
    assert hourly.server.delete(place(hourly.name)).status == 204
    assert hourly.hourly().server.get(place(hourly.name)).json["lastInstant"] is None
    for answer in hourly.post_all(hourly.cron_at(1800), hourly.file_at(0)):
        assert answer["duplicate"] is False
    assert hourly.instants() == [stamp(1800)] * 2


def test_a_disabled_rule_stores_and_validates_but_fires_nothing(hourly: Happenings) -> None:
    hourly.rule(hourly.folder, hourly.cron, enabled=False)
    hourly.post(hourly.file_at(0))
    [decided] = hourly.post(hourly.cron_at(10))["decisions"]
    assert (decided["decision"], decided["suppressed"]) == ("ACCEPTED", "disabled")
    assert decided["jobId"] is None
    hourly.rule(hourly.folder, hourly.cron, enabled=True)
    assert hourly.instants() == []
    hourly.post(hourly.cron_at(20))
    assert hourly.instants() == [stamp(20)]


def test_a_failed_or_retried_job_leaves_the_last_instant_as_it_is(hourly: Happenings) -> None:
    hourly.post_all(hourly.file_at(0), hourly.cron_at(10))
    server = hourly.server
    [job] = taken(server, hourly.name)
    for retryable in (True, False):
        told(server, job, "fail", error="x", retryable=retryable, retry_after=0)
        rule = server.get(place(hourly.name)).json
        assert (rule["lastInstant"], rule["lastJobId"]) == (stamp(10), job["id"])
        [job] = taken(server, hourly.name) or [job]


def test_a_claimed_job_carries_its_rule_its_instant_and_its_events(hourly: Happenings) -> None:
    hourly.rule(hourly.folder, hourly.cron, payload={"into": "warehouse"})
    hourly.post_all(hourly.file_at(0), hourly.cron_at(10.000001))
    [job] = taken(hourly.server, hourly.name)
    assert (job["rule"], job["instant"]) == (hourly.name, stamp(10.000001))
    payload = job["payload"]
    assert (payload["rule"], payload["instant"]) == (job["rule"], job["instant"])
    assert payload["payload"] == {"into": "warehouse"}
    assert payload["event"]["eventResourceId"] == f"{hourly.name}.cron"
    assert [one["eventResourceId"] for one in payload["events"]] == [
        f"/{hourly.name}/a",
        f"{hourly.name}.cron",
    ]


# -- several processes -----------------------------------------------------------------------------


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        yield one, two


def test_two_events_at_once_on_two_servers_fire_exactly_one_job(
    both: tuple[Server, Server],
) -> None:
    board = Happenings(both[0], "raced")
    board.rule(board.waits_for("A", 0), board.waits_for("B", 0))
    with ThreadPoolExecutor(2) as hands:
        for second in range(25):
            events = (board.table_at(second, "A"), board.table_at(second, "B"))
            asked = [
                hands.submit(server.post, "/events", event)
                for server, event in zip(both, events, strict=True)
            ]
            replies = [one.result() for one in asked]
            assert [reply.status for reply in replies] == [201, 201]
            assert sum(len(reply.json["events"][0]["jobs"]) for reply in replies) == 1
    assert board.instants() == [stamp(second) for second in range(25)]


def test_the_same_event_at_once_on_two_servers_is_decided_once(
    both: tuple[Server, Server],
) -> None:
    board = Happenings(both[0], "twice")
    board.rule(board.cron)
    with ThreadPoolExecutor(4) as hands:
        for second in range(10):
            event = board.cron_at(second)
            asked = [hands.submit(server.post, "/events", event) for server in both * 2]
            assert sorted(one.result().status for one in asked) == [200, 200, 200, 201]
    assert len(board.instants()) == 10


def test_after_a_kill_a_repeated_post_is_a_duplicate_and_the_job_exists_once(
    tmp_path: Path,
) -> None:
    with running_server(tmp_path) as server:
        board = Happenings(server, "killed").hourly()
        board.post(board.file_at(0))
        server.kill()
    with running_server(tmp_path) as server:
        board = Happenings(server, "killed")
        assert board.post(board.file_at(0), status=200)["duplicate"] is True
        [fired] = board.post(board.cron_at(10))["jobs"]
        server.kill()
    with running_server(tmp_path) as server:
        board = Happenings(server, "killed")
        again = board.post(board.cron_at(10), status=200)
        assert (again["jobs"], again["decisions"][0]["jobId"]) == ([], fired["jobId"])
        assert board.instants() == [stamp(10)]


def test_a_server_killed_amid_a_stream_of_events_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    """What was answered is a duplicate afterwards; the rest is completed."""
    seconds, answered = range(300), 0
    enough = threading.Event()
    with running_server(tmp_path) as server:
        board = Happenings(server, "stream")
        board.rule(board.cron)

        def kill() -> None:
            enough.wait(60)
            server.process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            for second in seconds:
                board.post(board.cron_at(second))
                answered += 1
                if answered == 30:
                    enough.set()
        except urllib3.exceptions.HTTPError:
            killer.join()
        server.kill()
    assert 30 <= answered < len(seconds)
    with running_server(tmp_path) as server:
        board = Happenings(server, "stream")
        reply = server.post("/events", [board.cron_at(second) for second in seconds])
        known = [one["duplicate"] for one in reply.json["events"]]
        assert known[:answered] == [True] * answered
        assert board.instants() == [stamp(second) for second in seconds]
