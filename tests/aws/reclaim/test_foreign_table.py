"""`oncue.aws.reclaim` on a table of another system: what is reclaimed, how, and what is not."""

from __future__ import annotations

import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oncue.aws import foreign
from oncue.aws.agenda_document import AgendaDocument
from oncue.core.agenda import TIMED_OUT, AgendaRecord, Threshold, judge
from oncue.core.lifecycle import State
from oncue.core.reclaim import ForeignTable
from tests.aws.reclaim.conftest import AGE, MINUTES, LambdaContext, OtherSystem
from tests.aws.reclaim.servers import PASSWORD, Told

FAILED: dict[str, Any] = {"processingStateMessage": "failed"}
OLD_EVENT = {"message": "download was slow", "code": "slow", "details": {"seconds": 7.0}}


def counts(report: Any) -> tuple[int, int, int]:
    return report["reclaimed"], report["retried"], report["failed"]


# -- two hundred rows ------------------------------------------------------------------------------


def mixed(other: OtherSystem) -> set[str]:
    """Two hundred rows in all states; the ids of those that are stuck."""
    stuck = set()
    for number in range(200):
        name, iso, kind = f"agenda-{number}", number % 2 == 0, number % 8
        if kind < 3:
            state = ("Executing", "EXECUTING", "dequeued")[kind]
            other.add(name, state, iso=iso, diagnosticEvents=[OLD_EVENT], jobId=number)
            stuck.add(name)
        elif kind < 5:
            other.add(name, ("EXECUTING", "Dequeued")[kind - 3], AGE / 2, iso=iso)
        else:
            message: dict[str, Any] = FAILED if kind == 7 else {}
            other.add(name, ("WAITING", "COMPLETE", "Complete")[kind - 5], iso=iso, **message)
    return stuck


def forms(password: str) -> list[str]:
    """As it is, in JSON, and as KMS answers with it."""
    return [password, json.dumps(password).strip('"'), b64encode(password.encode()).decode()]


def test_of_two_hundred_rows_only_the_stuck_ones_are_written(
    other: OtherSystem, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "botocore")  # where it tells a lot
    stuck = mixed(other)
    other.endpoint.refuse(500, "agenda-1")
    report = other.reclaimed(objectScanLimit=17, targetBatchSize=20)
    assert (report["scanned"], *counts(report)) == (75, 74, 0, 74)
    assert (report["errors"], report["lostRaces"], report["anomalies"]) == (1, 0, 0)
    assert report["endedBy"] == "end"
    puts = other.endpoint.puts()
    assert set(puts) == stuck - {"agenda-1"}
    for name, body in puts.items():
        assert (body["processingState"], body["processingStateMessage"]) == ("COMPLETE", "failed")
        assert (body["attemptsCompleted"], body["jobId"]) == (0, int(name.split("-")[1]))
        kept, new = body["diagnosticEvents"]
        assert kept == OLD_EVENT
        assert new["message"] == TIMED_OUT
        assert new["details"]["thresholdSeconds"] == AGE * 60
        assert new["details"]["ageSeconds"] >= 2 * AGE * 60
    assert len(other.identity.asked) == 1
    printed = capsys.readouterr()
    said = caplog.text + printed.out + printed.err + json.dumps(report)
    assert "Response body" in caplog.text
    for secret in (*forms(PASSWORD), *other.identity.granted):
        assert secret not in said
    [metrics] = [json.loads(line) for line in printed.out.splitlines()]
    assert (metrics["table"], metrics["failed"], metrics["errors"]) == (other.table, 74, 1)


def test_in_the_mode_retry_attempts_are_counted_and_the_last_one_fails(other: OtherSystem) -> None:
    other.add("first", "EXECUTING")
    other.add("second", "DEQUEUED", attemptsCompleted=1, processingStateMessage="frame 2,000")
    other.add("third", attemptsCompleted=2)
    other.add("ninth", attemptsCompleted=8, maximumAttempts=20)
    report = other.reclaimed(mode="retry")
    assert counts(report) == (4, 3, 1)
    puts = other.endpoint.puts()
    assert {name: body["attemptsCompleted"] for name, body in puts.items()} == {
        "first": 1,
        "second": 2,
        "third": 3,
        "ninth": 9,
    }
    states = {name: body["processingState"] for name, body in puts.items()}
    assert states.pop("third") == "COMPLETE"
    assert puts["third"]["processingStateMessage"] == "failed"
    assert set(states.values()) == {"WAITING"}
    assert puts["second"]["processingStateMessage"] is None
    assert [body["diagnosticEvents"][0]["message"] for body in puts.values()] == [TIMED_OUT] * 4


def test_in_the_mode_retry_failed_records_are_tried_again_if_they_may_be(
    other: OtherSystem,
) -> None:
    hint = [{"message": "no space", "details": {"retryable": True}}]
    other.add("retryable", "COMPLETE", **FAILED, retryable=True)
    other.add("by event", "Complete", **FAILED, diagnosticEvents=hint, attemptsCompleted=2)
    other.add("final", "COMPLETE", **FAILED, retryable=False)
    other.add("without a hint", "COMPLETE", **FAILED)
    other.add("tried out", "COMPLETE", **FAILED, retryable=True, attemptsCompleted=3)
    other.add("fresh", "COMPLETE", 1, **FAILED, retryable=True)
    other.add("succeeded", "COMPLETE", processingStateMessage="succeeded", retryable=True)
    told_by_row = {"attemptsCompleted": {"N": "3"}, "retryable": {"BOOL": True}}
    other.add("not asked for", "COMPLETE", **FAILED, row=told_by_row)
    report = other.reclaimed(mode="retry")
    assert counts(report) == (2, 2, 0)
    puts = other.endpoint.puts()
    assert {name: body["attemptsCompleted"] for name, body in puts.items()} == {
        "retryable": 1,
        "by event": 3,
    }
    assert {body["processingState"] for body in puts.values()} == {"WAITING"}
    gets = {one.path for one in other.endpoint.asked if one.method == "GET"}
    assert len(gets) == 5
    assert "/progress/by%20event" in gets
    assert other.reclaimed().get("reclaimed") == 0  # in the mode fail nothing is left to do


def test_a_record_that_timed_out_can_be_retried_by_a_later_run(other: OtherSystem) -> None:
    other.add("a")
    other.reclaimed()
    failed = other.endpoint.records["a"]
    other.add("a", "COMPLETE", **{name: failed[name] for name in failed if name != "id"})
    other.endpoint.records["a"] = failed
    assert counts(other.reclaimed(mode="retry")) == (1, 1, 0)


# -- signing in ------------------------------------------------------------------------------------


def test_a_token_that_is_refused_is_renewed_once(other: OtherSystem) -> None:
    for name in ("a", "b", "c"):
        other.add(name)
    spent: list[str] = []

    def expire(_: str) -> None:
        if not spent:
            spent.append(other.identity.granted[-1])
            other.identity.granted[-1] = "expired"

    other.endpoint.before_put = expire
    report = other.reclaimed()
    assert (counts(report), report["errors"]) == ((3, 0, 3), 0)
    assert len(other.identity.asked) == 2


def test_a_new_token_that_is_refused_too_is_not_asked_for_again(other: OtherSystem) -> None:
    for name in ("a", "b", "c"):
        other.add(name)
    other.identity.answers_with = Told(200, b'{"token": "of-another-realm"}')
    report = other.reclaimed()
    assert (counts(report), report["errors"]) == ((0, 0, 0), 3)
    assert len(other.identity.asked) == 2
    assert "status 401" in report["warnings"][0]


def test_nobody_signs_in_where_nothing_is_stuck(other: OtherSystem) -> None:
    other.add("fresh", age=1)
    assert other.reclaimed()["scanned"] == 0
    assert other.identity.asked == []


# -- trouble with one record -----------------------------------------------------------------------


def test_a_record_in_trouble_does_not_stop_the_others(
    other: OtherSystem, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abcdefghi":
        other.add(name)
    other.endpoint.refuse(500, "a")
    other.endpoint.refuse(503, "b", "PUT")
    other.endpoint.refuse(200, "c", body=b"<html>")
    other.endpoint.refuse(200, "d", body=b"[1]")
    other.endpoint.refuse(200, "e", body=b'{"processingState": "EXECUTING", "diagnosticEvents": 5}')
    other.endpoint.refuse(200, "f", body=b'{"state": "EXECUTING"}')
    other.endpoint.refuse(302, "g")
    other.endpoint.refuse(200, "h", body=b'{"processingState": 1e999}')
    report = other.reclaimed()
    assert (report["errors"], counts(report)) == (8, (1, 0, 1))
    assert set(other.endpoint.puts()) == {"b", "i"}
    assert sum(f"record {name}: " in caplog.text for name in "abcdefgh") == 8
    assert len(report["warnings"]) == 1


def test_what_is_not_understood_is_kept_as_it_is() -> None:
    table = ForeignTable("table", "id", "at")
    deep = b"[" * 900 + b"]" * 900
    body = b'{"at": 0, "x": 1.50, "processingState": "EXECUTING", "diagnosticEvents": [5, 1e999, '
    document = AgendaDocument.read("a", body + deep + b"]}", table)
    record = document.record(AgendaRecord("a", State.EXECUTING, 0))
    threshold = Threshold(10, 0, "fail")
    verdict = judge(record, threshold, 20)
    assert verdict is not None
    written = document.changed(record, verdict, threshold, 20)
    assert b'"x":1.50' in written
    assert b"[5,1e999," + deep + b',{"time":"1970-01-01T00:00:00.020Z"' in written


def test_a_record_that_is_not_answered_in_time_does_not_stop_the_others(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        other.add(name)
    other.endpoint.hanging.add("b")
    monkeypatch.setattr(foreign, "REQUEST_SECONDS", 2.0)
    report = other.reclaimed()
    assert (report["errors"], counts(report)) == (1, (2, 0, 2))
    assert report["warnings"] == [f"record b: {other.endpoint.url} did not answer in time."]


def test_a_record_that_moved_on_is_a_lost_race(other: OtherSystem) -> None:
    for name in "abcd":
        other.add(name)
    records = other.endpoint.records
    records["a"]["processingState"] = "COMPLETE"
    records["b"]["updatedTime"] += 2 * AGE * MINUTES - 1000
    other.endpoint.refuse(409, "d", "PUT")

    def finish(name: str) -> None:
        if name == "c":
            records["c"] = {**records["c"], "processingState": "COMPLETE"}

    other.endpoint.before_put = finish
    report = other.reclaimed()
    assert (report["scanned"], report["lostRaces"], report["errors"]) == (4, 4, 0)
    assert counts(report) == (0, 0, 0)
    assert "diagnosticEvents" not in records["c"]


def test_the_sent_document_proves_what_was_seen_where_there_is_no_etag(other: OtherSystem) -> None:
    other.endpoint.has_etags = False
    other.add("a")
    seen = other.endpoint.records["a"]["updatedTime"]
    assert counts(other.reclaimed()) == (1, 0, 1)
    [put] = [one for one in other.endpoint.asked if one.method == "PUT"]
    assert "if-match" not in put.headers
    assert put.body["updatedTime"] == seen


def test_of_two_runs_at_once_one_reclaims_a_record(other: OtherSystem) -> None:
    for number in range(12):
        other.add(f"a{number}")
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(other.reclaimed, objectScanLimit=3) for _ in range(2)]
        reports = [run.result() for run in runs]
    assert sum(report["failed"] for report in reports) == 12
    for record in other.endpoint.records.values():
        assert len(record["diagnosticEvents"]) == 1
    assert other.reclaimed(LambdaContext())["errors"] == 0  # warm


# -- times and names -------------------------------------------------------------------------------


def test_times_in_the_future_and_those_that_cannot_be_read_are_anomalies(
    other: OtherSystem, caplog: pytest.LogCaptureFixture
) -> None:
    other.add("ahead", age=-60)
    other.add("never", age=None)
    other.add("unreadable", row={"updatedTime": {"S": "yesterday"}})
    other.add("null", row={"updatedTime": {"NULL": True}})
    other.add("list", row={"updatedTime": {"L": []}})
    other.add("endless", row={"updatedTime": {"N": "1E+120"}})
    other.add("..")
    other.add("moved ahead")
    other.endpoint.records["moved ahead"]["updatedTime"] += 10 * AGE * MINUTES
    other.add("waiting", "WAITING", age=None)
    report = other.reclaimed()
    assert (report["scanned"], report["anomalies"], counts(report)) == (8, 8, (0, 0, 0))
    assert len(report["warnings"]) == 1
    assert "record ahead was last updated 60 min in the future" in caplog.text


def test_a_record_without_an_update_counts_from_its_claim(other: OtherSystem) -> None:
    long_ago = {"taken": {"S": "2026-01-01T00:00:00+01:00"}}
    other.add("old", age=None, row=long_ago, taken="2026-01-01T00:00:00+01:00")
    other.add("no claim", age=None)
    unreadable = {**long_ago, "updatedTime": {"S": "a minute ago"}}
    other.add("alive", age=None, row=unreadable, taken="2026-01-01T00:00:00+01:00")
    other.add("alive too")
    other.endpoint.records["alive too"] |= {"updatedTime": "now", "taken": 0}
    report = other.reclaimed(claimTimeFieldName="taken")
    assert (counts(report), report["anomalies"]) == ((1, 0, 1), 3)


def test_names_of_fields_may_be_anything(other: OtherSystem) -> None:
    """Reserved words, signs of expressions, and a number as the id."""
    now = other.event()
    item = {"tenant": {"S": "x"}, "agenda": {"S": "x"}, "#id :v": {"N": "7"}}
    item |= {"status": {"S": "executing"}, "time)": {"S": "2020-01-01T00:00:00"}}
    other.dynamodb.put_item(TableName=other.table, Item=item)
    other.endpoint.records["7"] = {"Status": "executing", "StatusMessage": "at it", "x": 1e400}
    fields = {"idFieldName": "#id :v", "timeFieldName": "time)", "stateFieldName": "status"}
    assert counts(other.reclaimed(**{**now, **fields})) == (0, 0, 0)  # Infinity is not JSON
    other.endpoint.records["7"]["x"] = 2**70
    assert counts(other.reclaimed(**{**now, **fields})) == (1, 0, 1)
    body = other.endpoint.records["7"]
    assert (body["Status"], body["StatusMessage"], body["x"]) == ("COMPLETE", "failed", 2**70)
    assert [event["Message"] for event in body["DiagnosticEvents"]] == [TIMED_OUT]


def test_fields_with_a_capital_keep_it(other: OtherSystem) -> None:
    other.add("a")
    updated = other.endpoint.records["a"]["updatedTime"]
    other.endpoint.records["a"] = {
        "Id": "a",
        "ProcessingState": "Executing",
        "ProcessingStateMessage": None,
        "UpdatedTime": updated,
        "AttemptsCompleted": 1,
        "DiagnosticEvents": [{"message": "old"}],
    }
    assert counts(other.reclaimed(mode="retry")) == (1, 1, 0)
    body = other.endpoint.records["a"]
    assert list(body) == [
        *("Id", "ProcessingState", "ProcessingStateMessage", "UpdatedTime"),
        *("AttemptsCompleted", "DiagnosticEvents"),
    ]
    assert (body["ProcessingState"], body["AttemptsCompleted"]) == ("WAITING", 2)
    assert [event["message"] for event in body["DiagnosticEvents"]] == ["old", TIMED_OUT]


def test_an_id_is_one_part_of_the_path(other: OtherSystem) -> None:
    names = ["a/b", "ä?x=1#y", "%2e%2e", "50 %", "../x"]
    for name in names:
        other.add(name)
    assert counts(other.reclaimed()) == (5, 0, 5)
    assert set(other.endpoint.puts()) == set(names)


# -- only told -------------------------------------------------------------------------------------


def test_a_run_that_only_logs_decides_the_same_and_writes_nothing(
    other: OtherSystem, caplog: pytest.LogCaptureFixture
) -> None:
    other.add("stuck", "DEQUEUED", attemptsCompleted=1)
    other.add("out", attemptsCompleted=2)
    other.add("gone")
    other.endpoint.records["gone"]["processingState"] = "COMPLETE"
    report = other.reclaimed(logReclaimOnly=True, mode="retry")
    assert (counts(report), report["wouldReclaimCount"], report["lostRaces"]) == ((0, 0, 0), 2, 1)
    found = {one["id"]: one for one in report["wouldReclaim"]}
    assert {name: one["decision"] for name, one in found.items()} == {
        "stuck": "retry",
        "out": "fail",
    }
    one = found["stuck"]
    assert (one["queue"], one["state"], one["attempt"]) == (other.table, "dispatched", 2)
    assert caplog.text.count("would be reclaimed: ") == 2
    assert other.endpoint.puts() == {}
