"""`oncue aws template`: what it deploys is right as far as can be known without deploying it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import ManualArgs, lint  # type: ignore[import-untyped]

import oncue.aws
from oncue.aws.template import template
from oncue.core.errors import InvalidInput
from oncue.stores.dynamodb import creation, keys
from tests.acceptance.documents import read
from tests.aws.deployed import FUNCTIONS, allowed, listed, statements, translated, written
from tests.stores.dynamo import client, new_table
from tests.stores.dynamodb.policy import granted

ONE, TWO = ("default",), ("default", "send_mail")
VARIANTS: list[dict[str, Any]] = [
    {"authoriser": "none", "stream": False, "queues": ONE},
    {"authoriser": "none", "stream": True, "queues": TWO},
    {"authoriser": "iam", "stream": False, "queues": TWO},
    {"authoriser": "iam", "stream": True, "queues": ONE},
    {"authoriser": "jwt", "stream": False, "queues": ONE},
    {"authoriser": "jwt", "stream": True, "queues": TWO},
]
"""Each value of an option with each value of the others."""


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_cfn_lint_finds_nothing(options: dict[str, Any]) -> None:
    found = lint(template(**options), config=ManualArgs(regions=["eu-central-1"]))
    assert [str(one) for one in found] == []


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_sam_translates_it_to_functions_with_the_handlers(options: dict[str, Any]) -> None:
    resources = translated(**options)
    found = {
        name: resources[function]["Properties"]["Handler"]
        for name, function in FUNCTIONS.items()
        if function in resources
    }
    wanted = set(oncue.aws.HANDLERS) - (set() if options["stream"] else {"forward_started"})
    assert found == {name: f"oncue.aws.{name}" for name in wanted}


def test_the_table_is_the_one_that_migrate_creates() -> None:
    properties = written()["Resources"]["Table"]["Properties"]
    told = client().describe_table(TableName=new_table().name)["Table"]
    assert properties["KeySchema"] == told["KeySchema"]
    assert properties["BillingMode"] == told["BillingModeSummary"]["BillingMode"]
    by_name = {one["AttributeName"]: one for one in told["AttributeDefinitions"]}
    assert {one["AttributeName"]: one for one in properties["AttributeDefinitions"]} == by_name
    [index] = properties["GlobalSecondaryIndexes"]
    [theirs] = told["GlobalSecondaryIndexes"]
    assert index == {name: theirs[name] for name in ("IndexName", "KeySchema", "Projection")}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": creation.TTL, "Enabled": True}
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert "StreamSpecification" not in properties


def test_the_stream_has_old_and_new_images_and_the_function_gets_records_of_jobs_only() -> None:
    resources = translated(stream=True)
    stream = resources["Table"]["Properties"]["StreamSpecification"]
    assert stream == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    source = resources["ForwardFunctionStarted"]["Properties"]
    [pattern] = [json.loads(one["Pattern"]) for one in source["FilterCriteria"]["Filters"]]
    key = keys.job("x")
    assert pattern["dynamodb"]["Keys"]["sk"]["S"] == [key.sk]
    [prefix] = [one["prefix"] for one in pattern["dynamodb"]["Keys"]["pk"]["S"]]
    assert key.pk == f"{prefix}x"


def test_the_schedules_are_every_minute_and_every_hour_after_midnight() -> None:
    resources = translated()
    found = {
        name: one["Properties"]["ScheduleExpression"]
        for name, one in resources.items()
        if one["Type"] == "AWS::Events::Rule"
    }
    assert found == {
        "DispatchFunctionEveryMinute": "rate(1 minute)",
        "TasksFunctionAfterMidnight": "cron(0 0-5 * * ? *)",
        "ReclaimFunctionEveryQuarter": "rate(15 minutes)",
    }


def test_the_functions_are_wired_to_the_table_and_a_queue_each() -> None:
    resources = translated(queues=["default", "send_mail"])
    for function in ("ApiFunction", "DispatchFunction", "TasksFunction"):
        assert resources[function]["Properties"]["Environment"]["Variables"] == {
            "ONCUE_STORE": {"Fn::Sub": "dynamodb://${Table}"},
            "ONCUE_SINK_DEFAULT": {"Ref": "DefaultQueue"},
            "ONCUE_SINK_SEND_MAIL": {"Ref": "SendMailQueue"},
            "ONCUE_SINK_TASKS": {"Ref": "TasksQueue"},
        }
    for queue in ("DefaultQueue", "SendMailQueue", "TasksQueue"):
        redrive = resources[queue]["Properties"]["RedrivePolicy"]
        assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": ["DeadLetters", "Arn"]}


def test_with_a_stream_the_queue_of_tasks_is_a_stream_sink_and_only_the_forwarder_sends() -> None:
    resources = translated(stream=True)
    variables = resources["TasksFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["ONCUE_SINK_TASKS"] == {"Fn::Sub": "stream:${TasksQueue}"}
    tasks = {"Fn::GetAtt": ["TasksQueue", "Arn"]}
    senders = [
        function
        for function in ("ApiFunction", "DispatchFunction", "TasksFunction", "ForwardFunction")
        for one in statements(function, stream=True)
        if one["Action"] == "sqs:SendMessage" and tasks in listed(one["Resource"])
    ]
    assert senders == ["ForwardFunction"]


@pytest.mark.parametrize("authoriser", ["iam", "jwt"])
def test_what_the_gateway_admits_is_checked_on_every_route(authoriser: Any) -> None:
    resources = translated(authoriser=authoriser)
    body = resources["Api"]["Properties"]["Body"]
    routes = [route for path in body["paths"].values() for route in path.values()]
    schemes = set(body["components"]["securitySchemes"])
    assert routes
    assert all({name for one in route["security"] for name in one} == schemes for route in routes)
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["ONCUE_GATEWAY_SCOPES"] == {"Ref": "GatewayScopes"}
    assert "ONCUE_GATEWAY_SCOPES" not in json.dumps(resources["DispatchFunction"])


def test_without_an_authoriser_the_function_asks_for_a_token() -> None:
    assert "ONCUE_GATEWAY_SCOPES" not in template()


def test_no_function_may_do_more_with_the_table_than_the_page_about_dynamodb_says() -> None:
    run = granted("OncueRun", "OncueRunIndex")
    for handler in ("api", "dispatch", "start_scheduled_tasks", "forward_started"):
        of_table = {one for one in allowed(handler) if one.resource != "queue"}
        assert of_table <= run
    assert {one for one in allowed("api") if one.resource != "queue"} == run


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_no_policy_has_a_wildcard(options: dict[str, Any]) -> None:
    resources = written(**options)["Resources"]
    functions = [n for n, one in resources.items() if one["Type"] == "AWS::Serverless::Function"]
    for function in functions:
        for one in statements(function, **options):
            assert "*" not in json.dumps(one), function


def test_the_reclaim_function_is_there_only_if_a_table_is_named() -> None:
    resources = translated()
    parts = {name: one for name, one in resources.items() if name.startswith("ReclaimFunction")}
    assert len(parts) >= 4
    assert {one["Condition"] for one in parts.values()} == {"ReclaimsAgenda"}
    rule = parts["ReclaimFunctionEveryQuarter"]["Properties"]["Targets"][0]["Input"]["Fn::Sub"]
    filled = rule.replace("${AgendaReclaimMinutes}", "4320").replace("${AgendaLogOnly}", "false")
    parameters = json.loads(filled)
    assert parameters["reclaimAgeMinutes"] == 4320
    timeout = parts["ReclaimFunction"]["Properties"]["Timeout"]
    assert parameters["maximumExecutionSeconds"] < timeout


@pytest.mark.parametrize("stream", [False, True])
def test_every_alarm_looks_at_something_that_is_deployed(stream: bool) -> None:
    resources = translated(stream=stream)
    alarms = [one["Properties"] for one in resources.values() if "Alarm" in one["Type"]]
    assert {one["MetricName"] for one in alarms} >= {
        *("lateness", "not_delivered", "Errors", "Invocations"),
        *("ReadThrottleEvents", "WriteThrottleEvents", "ApproximateNumberOfMessagesVisible"),
    }
    for alarm in alarms:
        for dimension in alarm["Dimensions"]:
            value = dimension["Value"]
            if isinstance(value, dict):
                name = value.get("Ref") or value["Fn::GetAtt"][0]
                assert name in resources
            else:
                assert value in ("default", "tasks")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "x"}, "3 to 255 letters"),
        ({"queues": ["Mail"]}, "'Mail' cannot be deployed by name"),
        ({"queues": ["send-mail"]}, "lower-case letters, digits and '_'"),
        ({"queues": ["a1", "a_1"]}, "would have the same name in the template, A1Queue"),
        ({"python": "3.9"}, "not older than 3.11"),
        ({"python": "python3.12"}, "a version such as 3.12"),
    ],
)
def test_names_that_cannot_be_deployed_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        template(**options)


def test_a_table_that_exists_is_taken_out_as_the_page_about_settings_says(tmp_path: Path) -> None:
    [script] = re.findall(
        r"^ +(arn=.*?)^ +```$", read("docs/settings.md"), re.MULTILINE | re.DOTALL
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-e", "-c", script.replace("TABLE", "jobs", 1)]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    text = (tmp_path / "template.yaml").read_text("utf-8")
    assert [str(one) for one in lint(text, config=ManualArgs(regions=["eu-central-1"]))] == []
    assert "AWS::DynamoDB::Table" not in text
    assert "Default: jobs" in text
    assert set(re.findall(r"table/\$\{TableName\}(\S*)", text)) == {"", "/index/look"}
