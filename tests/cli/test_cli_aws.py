"""`oncue aws`: template, invoke, simulate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncue.aws.units import Life
from tests.servers import dynamodb_endpoint, ministack_endpoint

from .terminal import Ended, run, scheduler, see

SIMULATED = ("--jobs", "60", "--minutes", "3")


def invoke(folder: Path, *arguments: str, stdin: str = "", **env: str | None) -> Ended:
    return run("aws", "invoke", *arguments, cwd=folder, stdin=stdin, env=env)


# -- template --------------------------------------------------------------------------------------


def test_the_template_is_printed_as_it_was_asked_for(tmp_path: Path) -> None:
    options = ("--table", "jobs", "--queue", "mail", "--authoriser", "iam", "--python", "3.12")
    ended = run("aws", "template", *options, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    for line in (
        "Transform: AWS::Serverless-2016-10-31",
        "    Default: jobs",
        "        ONCUE_SINK_MAIL: !Ref MailQueue",
        "        DefaultAuthorizer: AWS_IAM",
        "    Runtime: python3.12",
    ):
        assert line in ended.out.splitlines()
    assert "DefaultQueue" not in ended.out
    assert "ForwardFunction" not in ended.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--queue", "Mail"], "--queue: 'Mail' cannot be deployed by name"),
        (["--table", "x"], "--table: must be 3 to 255 letters"),
        (["--authoriser", "saml"], "'none', 'iam', 'jwt'"),
    ],
)
def test_options_of_the_template_that_make_no_sense_are_refused(
    tmp_path: Path, options: list[str], said: str
) -> None:
    ended = run("aws", "template", *options, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


# -- invoke ----------------------------------------------------------------------------------------


def test_a_tick_delivers_and_prints_its_answer_and_its_metrics(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.schedule("x")
    ended = invoke(tmp_path, "dispatch", ONCUE_SINK_DEFAULT="log:")
    assert ended.code == 0
    assert ended.json["queues"]["default"]["delivered"] == 1
    metrics = [json.loads(line) for line in ended.err.splitlines() if line.startswith('{"_aws"')]
    assert [one["delivered"] for one in metrics if one.get("queue") == "default"] == [1]


def test_quiet_leaves_out_the_metrics_and_the_name_may_be_whole(tmp_path: Path) -> None:
    ended = invoke(tmp_path, "oncue.aws.dispatch", "--quiet", "--store", "memory:")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["time_over"] is False


def test_an_event_comes_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(
        json.dumps(
            {
                "version": "2.0",
                "rawPath": "/livez",
                "rawQueryString": "",
                "headers": {"host": "x"},
                "requestContext": {"http": {"method": "GET", "path": "/livez"}},
                "isBase64Encoded": False,
            }
        )
    )
    env = {"ONCUE_GATEWAY_SCOPES": "read"}
    ended = invoke(tmp_path, "api", "--event", "request.json", "--store", "memory:", **env)
    assert ended.json["statusCode"] == 200
    ended = invoke(
        tmp_path,
        "start_scheduled_tasks",
        "--event",
        "-",
        "--store",
        "memory:",
        stdin='{"date": "2122-02-01"}',
    )
    assert ended.json["started_early"] == 0


def test_a_reclaim_run_on_a_table_of_another_system_needs_no_store(tmp_path: Path) -> None:
    event = '{"tableName": "agenda", "idFieldName": "id", "timeFieldName": "at"}'
    ended = invoke(tmp_path, "reclaim", "--event", "-", stdin=event)
    assert ended.code == 1
    assert "reclaim failed: InvalidInput: " in ended.err
    assert "IDENTITY_URL, IDM_USER, IDM_ENCRYPTED_PASS" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["dispach"], "", 2, "there is no handler 'dispach'. Did you mean 'dispatch'?"),
        (["frobnicate"], "", 2, "There are api, dispatch, forward_started, reclaim,"),
        (["api"], "", 2, "api needs an event: give --event FILE"),
        (["api", "--event", "-"], '{"a":\n 1,,}', 2, "standard input, line 2, column 4: not JSON"),
        (["api", "--event", "none.json"], "", 2, "none.json: No such file or directory."),
        (["dispatch"], "", 5, "there is no such file"),
        (["dispatch", "--timeout", "901"], "", 2, "is not in the range 1<=x<=900"),
        (
            ["dispatch", "--store", "memory:", "--event", "-"],
            '{"time": 3}',
            1,
            "Error: dispatch failed: InvalidInput: /time: must be a time",
        ),
        (
            ["api", "--store", "memory:", "--event", "-"],
            '{"version": "1.0"}',
            1,
            "Error: api failed: InvalidInput",
        ),
    ],
)
def test_what_goes_wrong_is_named(
    tmp_path: Path, arguments: list[str], stdin: str, code: int, said: str
) -> None:
    ended = invoke(tmp_path, *arguments, stdin=stdin)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


# -- simulate --------------------------------------------------------------------------------------


def test_all_jobs_arrive_within_a_second(tmp_path: Path) -> None:
    endpoints = ("--endpoint", dynamodb_endpoint(), "--sqs-endpoint", ministack_endpoint())
    ended = run("aws", "simulate", *endpoints, *SIMULATED, "--no-keep", "--json", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    told = ended.json
    assert (told["sent"], told["doubled"], told["lost"], told["ticks"]) == (60, 0, 0, 5)
    late = told["lateness_ms"]
    assert 0 <= late["p50"] <= late["p99"] <= late["max"] < 1000
    assert told["dollars_per_million_jobs"]["dynamodb_writes"] > 0
    assert told["dollars_per_month_of_ticks"]["lambda_calls"] == 0.0086


@pytest.mark.parametrize(
    ("keep", "payload", "writes"), [("--no-keep", 400, 2), ("--keep", 400, 4), ("--keep", 700, 5)]
)
def test_a_job_costs_what_is_documented(
    tmp_path: Path, keep: str, payload: int, writes: int
) -> None:
    """As 'oncue cost' and the table in docs/dynamodb.md say, and the leases of its batches."""
    assert Life(payload, keeps_history=keep == "--keep").writes == writes
    endpoints = ("--endpoint", dynamodb_endpoint(), "--sqs-endpoint", ministack_endpoint())
    load = ("--jobs", "400", "--minutes", "1", "--payload-bytes", str(payload), "--shards", "1")
    told = run("aws", "simulate", *endpoints, *load, keep, "--json", cwd=tmp_path).json
    assert writes <= told["units_per_job"]["writes"] < writes + 0.1
    assert 1 < told["units_per_job"]["reads"] < 2.5


def test_jobs_that_are_stored_late_wait_for_the_next_tick(tmp_path: Path) -> None:
    options = ("--endpoint", ministack_endpoint(), *SIMULATED, "--ahead", "0")
    ended = see("aws", "simulate", *options, cwd=tmp_path, lines=60)
    assert ended.code == 0
    assert "60 jobs due within 3 minutes, 5 ticks: 60 sent, 0 of them again, 0 lost." in ended.out
    for line in ("lateness", "write units", "a million jobs", "a month of ticks"):
        assert line in ended.out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "pip install ministack, in an environment of its own; ministack"),
        (("--endpoint", "localhost"), 2, "is not a URL such as http://127.0.0.1:4566"),
        (("--endpoint", "https://dynamodb.eu-central-1.amazonaws.com"), 2, "is AWS itself"),
        (("--endpoint", "http://127.0.0.1:1"), 5, "no SQS answers at http://127.0.0.1:1"),
        (("--endpoint", "http://127.0.0.1:1", "--jobs", "1M"), 2, "Give 1 to 100,000 jobs"),
    ],
)
def test_without_an_emulator_it_says_what_to_do(
    tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    ended = run("aws", "simulate", *options, cwd=tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
