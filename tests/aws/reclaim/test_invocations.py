"""`oncue.aws.reclaim` as Lambda invokes it: its event, its environment, and its time."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import oncue.aws
import oncue.aws.clients
from oncue import InvalidInput, Scheduler
from oncue.aws import foreign, identity, sandbox
from oncue.aws.exchange import Exchange
from oncue.clock import SystemClock
from oncue.core.errors import OncueError, StoreUnusable
from oncue.engine.alarm import Alarm
from tests.aws.reclaim.conftest import LambdaContext, OtherSystem
from tests.aws.reclaim.servers import PASSWORD, Told
from tests.http.test_reclaim import SAMPLE

VARIABLES = ["IDENTITY_URL", "IDM_USER", "IDM_ENCRYPTED_PASS", "AGENDA_PROGRESS_URL"]


# -- the event -------------------------------------------------------------------------------------


def test_the_sample_of_the_seed_is_accepted_as_it_stands(other: OtherSystem) -> None:
    """Its table does not exist here; everything before the scan is fine with it."""
    with pytest.raises(StoreUnusable, match="table POP-ProgressAgenda-dev does not exist"):
        oncue.aws.reclaim(json.loads(SAMPLE), LambdaContext())


def test_the_sample_runs_on_a_table_and_an_endpoint_that_exist(other: OtherSystem) -> None:
    other.add("a", age=5000)
    other.add("b", age=4000)
    real = {"tableName": other.table, "idFieldName": "agenda", "scanDelayMillis": 1}
    real["agendaProgressEndpointURL"] = f"{other.endpoint.url}/progress"
    report = oncue.aws.reclaim({**json.loads(SAMPLE), **real}, LambdaContext())
    assert (report["scanned"], report["failed"]) == (1, 1)


@pytest.mark.parametrize("name", ["tableName", "idFieldName", "timeFieldName"])
def test_a_table_needs_its_names(other: OtherSystem, name: str) -> None:
    event = other.event()
    del event[name]
    with pytest.raises(InvalidInput, match=f"^/{name}: is required"):
        oncue.aws.reclaim(event, LambdaContext())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tableName", "a b"),
        ("tableName", ""),
        ("idFieldName", ""),
        ("timeFieldName", "a\nb"),
        ("stateFieldName", "x" * 256),
        ("claimTimeFieldName", 5),
        ("mode", "destroy"),
        ("mode", None),
        ("maximumExecutionSeconds", -1),
        ("objectScanLimit", 0),
        ("agendaProgressEndpointURL", "ftp://example.com"),
        ("agendaProgressEndpointURL", "https://me:pw@example.com"),
        ("agendaProgressEndpointURL", "https://example.com/?x=1"),
        ("unknown", 1),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(
    other: OtherSystem, name: str, value: Any
) -> None:
    with pytest.raises(InvalidInput, match=f"^/{name}: "):
        other.reclaimed(**{name: value})
    assert other.endpoint.asked == other.identity.asked == []


def test_an_event_of_eventbridge_has_the_parameters_in_its_detail(other: OtherSystem) -> None:
    other.add("a")
    event = {"version": "0", "detail-type": "Scheduled Event", "detail": other.event()}
    assert oncue.aws.reclaim(event, LambdaContext())["failed"] == 1
    with pytest.raises(InvalidInput, match="a JSON object"):
        oncue.aws.reclaim([], LambdaContext())


def test_without_a_table_it_is_the_reclaim_run_of_the_own_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with Scheduler(url) as cue:
        for name in ("a", "b"):
            cue.schedule(queue="work", id=name)
        cue.claim("work", "ada", limit=2, lease_seconds=86_400)
    monkeypatch.setenv("ONCUE_STORE", url)
    try:
        report = oncue.aws.reclaim({"maximumExecutionSeconds": 900}, LambdaContext(20_000))
        assert (report["retried"], report["endedBy"]) == (2, "end")
        assert "errors" not in report
        assert report["warnings"][0].startswith("maximumExecutionSeconds is 900, but")
        assert json.loads(capsys.readouterr().out)["retried"] == 2
        bridge = {"detail-type": "Scheduled Event", "detail": {}}
        assert oncue.aws.reclaim(bridge, LambdaContext())["scanned"] == 0
    finally:
        sandbox.close()


# -- the environment -------------------------------------------------------------------------------


def test_every_variable_that_is_missing_is_named(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        with monkeypatch.context() as without:
            without.delenv(name)
            with pytest.raises(InvalidInput, match=f"must have {name} for"):
                other.reclaimed()
    for name in VARIABLES:
        monkeypatch.delenv(name)
    with pytest.raises(InvalidInput, match=", ".join(VARIABLES)):
        other.reclaimed()


def test_the_endpoint_of_the_event_replaces_that_of_the_environment(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.add("a")
    monkeypatch.delenv("AGENDA_PROGRESS_URL")
    url = f"{other.endpoint.url}/progress"
    assert other.reclaimed(agendaProgressEndpointURL=url)["failed"] == 1
    monkeypatch.setenv("AGENDA_PROGRESS_URL", "http://127.0.0.1:9/nobody")
    other.add("b")
    assert other.reclaimed(agendaProgressEndpointURL=url)["failed"] == 1


def failure(other: OtherSystem) -> str:
    """The error of a run, as Lambda would log it: with its whole trace."""
    with pytest.raises(OncueError) as raised:
        other.reclaimed()
    return "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Told(401, PASSWORD.encode()), "refused the sign-in .status 401."),
        (Told(500, PASSWORD.encode()), "with status 500"),
        (Told(200, b'{"token": 5}'), "without a usable token"),
        (Told(200, b'{"token": "a\\r\\nb: c"}'), "without a usable token"),
        (Told(200, PASSWORD.encode()), "without a usable token"),
    ],
)
def test_a_sign_in_that_fails_ends_the_run_and_tells_no_secret(
    other: OtherSystem, caplog: pytest.LogCaptureFixture, answer: Told, text: str
) -> None:
    caplog.set_level(logging.DEBUG)
    other.add("a")
    other.add("b")
    other.identity.answers_with = answer
    trace = failure(other)
    assert text.replace(".status 401.", "(status 401)") in trace
    assert PASSWORD not in trace + caplog.text
    assert len(other.identity.asked) == 1
    assert other.endpoint.asked == []


def test_a_password_that_kms_cannot_decrypt_ends_the_run(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.add("a")
    for value, text in [
        ("not base64!", "/IDM_ENCRYPTED_PASS: is not base64"),
        ("bm9uc2Vuc2Ugbm9uc2Vuc2Ugbm9uc2Vuc2Ugbm9uc2Vuc2U=", "KMS did not decrypt"),
    ]:
        monkeypatch.setenv("IDM_ENCRYPTED_PASS", value)
        trace = failure(other)
        assert text in trace
        assert value not in trace
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    assert "KMS did not decrypt IDM_ENCRYPTED_PASS: EndpointConnectionError" in failure(other)


def test_the_sign_in_can_be_replaced_by_one_function(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign_in(exchange: Exchange, url: str, user: str, password: str) -> str:
        assert (url, password) == (f"{other.identity.url}/sign-in", PASSWORD)
        other.identity.granted.append("by other means")
        return "by other means"

    monkeypatch.setattr(identity, "sign_in", sign_in)
    other.add("a")
    assert other.reclaimed()["failed"] == 1
    assert other.identity.asked == []


# -- time ------------------------------------------------------------------------------------------


class Looks:
    """Records how the table is scanned, and for how long the run pauses."""

    def __init__(self, other: OtherSystem, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scans: list[dict[str, Any]] = []
        self.pauses: list[float] = []
        real = Alarm.pause

        def pause(alarm: Any, seconds: float) -> None:
            self.pauses.append(seconds)
            real(alarm, seconds)

        monkeypatch.setattr(Alarm, "pause", pause)
        client = oncue.aws.clients.client("dynamodb")
        client.meta.events.register("provide-client-params.dynamodb.Scan", self._note)

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        self.scans.append(params)


def test_pages_are_as_large_as_asked_for_and_the_pause_is_made_between_them(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        other.add(f"a{number}", age=1 if number % 3 else 100)
    looks, clock = Looks(other, monkeypatch), SystemClock()
    began = clock.monotonic()
    report = other.reclaimed(objectScanLimit=4, scanDelayMillis=30)
    took = clock.monotonic() - began
    assert report["failed"] == 4
    assert [(scan["Limit"], scan["ConsistentRead"]) for scan in looks.scans] == [(4, True)] * 3
    assert looks.pauses == [0.03, 0.03]
    assert took >= 0.06
    for scan in looks.scans:
        assert "agenda" not in scan["ProjectionExpression"]


def test_a_batch_is_gathered_before_any_record_is_asked_for(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        other.add(f"a{number}")
    looks = Looks(other, monkeypatch)
    scans_before_writes: list[int] = []
    other.endpoint.before_put = lambda _: scans_before_writes.append(len(looks.scans))
    other.reclaimed(objectScanLimit=2, targetBatchSize=3)
    assert scans_before_writes == [2, 2, 2, 2, 4, 4, 4]


def test_no_time_means_a_look_and_nothing_else(other: OtherSystem) -> None:
    other.add("a")
    report = other.reclaimed(maximumExecutionSeconds=0)
    assert (report["scanned"], report["reclaimed"], report["endedBy"]) == (1, 0, "time")
    assert other.endpoint.asked == other.identity.asked == []


def test_the_time_is_checked_after_each_record(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Quick(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    for number in range(5):
        other.add(f"a{number}")
    clock = Quick()
    monkeypatch.setattr(foreign, "clock", clock)

    def pass_time(_: str) -> None:
        clock.ahead += 250.0

    other.endpoint.before_put = pass_time
    report = other.reclaimed(maximumExecutionSeconds=400)
    assert (report["scanned"], report["failed"], report["endedBy"]) == (5, 2, "time")
    clock.ahead = 0.0
    other.endpoint.before_put = lambda _: None
    left = other.reclaimed()
    assert (left["failed"], left["lostRaces"]) == (3, 2)


def test_a_run_ends_before_its_function_and_warns_of_it(other: OtherSystem) -> None:
    other.add("a")
    report = other.reclaimed(LambdaContext(20_000), maximumExecutionSeconds=60)
    assert report["warnings"] == [
        "maximumExecutionSeconds is 60, but the function has only 20 s left: the run ends after "
        "15 s. Give the function a longer timeout."
    ]
    assert other.reclaimed(LambdaContext(61_000))["warnings"] == []
    assert foreign._patience(LambdaContext(3_000)) == pytest.approx(2.8)
    over = other.reclaimed(LambdaContext(0))
    assert (over["reclaimed"], over["endedBy"]) == (0, "time")


def test_an_age_of_zero_warns(other: OtherSystem) -> None:
    other.add("a", age=0.001)
    report = other.reclaimed(reclaimAgeMinutes=0)
    assert report["warnings"][0].startswith("reclaimAgeMinutes is 0")


# -- the table in trouble --------------------------------------------------------------------------


def test_a_throttled_table_is_asked_again_and_an_unreachable_one_is_an_error(
    other: OtherSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError

    other.add("a")
    pauses: list[float] = []
    monkeypatch.setattr(Alarm, "pause", lambda _, seconds: pauses.append(seconds))
    client = oncue.aws.clients.client("dynamodb")
    throttled = {"Error": {"Code": "ProvisionedThroughputExceededException"}}
    real, times = client.scan, iter(range(2))

    def scan(**asked: Any) -> Any:
        if next(times, None) is not None:
            raise ClientError(throttled, "Scan")  # type: ignore[arg-type]
        return real(**asked)

    monkeypatch.setattr(client, "scan", scan)
    assert other.reclaimed()["failed"] == 1
    assert pauses == [0.1, 0.2]
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    assert "did not answer: EndpointConnectionError" in failure(other)


# -- a cold start ----------------------------------------------------------------------------------


def test_a_cold_function_answers_like_a_warm_one(other: OtherSystem) -> None:
    other.add("a")
    code = """
import json, sys
from tests.aws.reclaim.conftest import LambdaContext
from importlib import import_module
handler = getattr(import_module("oncue.aws"), "reclaim")
print(json.dumps(handler(json.loads(sys.argv[1]), LambdaContext())))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(other.event())],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    metrics, report = map(json.loads, done.stdout.splitlines())
    assert (metrics["failed"], report["failed"]) == (1, 1)
    assert PASSWORD not in done.stdout + done.stderr
