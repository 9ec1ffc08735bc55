"""Items of shoryuken-waiter become jobs that are sent as the very messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from oncue import State
from oncue.aws.adoption import Adoption
from oncue.aws.others_table import OthersTable
from oncue.aws.waiter_table import WaiterLayout
from oncue.core.errors import Conflict, InvalidInput
from oncue.core.job import Delivery
from oncue.core.moment import to_datetime
from oncue.sinks.sqs_captured import entry
from oncue.stores.dynamodb.table import Table
from tests.stores.dynamo import client

from .rig import HOUR, NOW, STORES, TaskRig, WaiterRig, message


@pytest.fixture(params=STORES)
def rig(request: pytest.FixtureRequest) -> Iterator[WaiterRig]:
    made = WaiterRig(request.param)
    yield made
    made.close()


@pytest.fixture
def plain_rig() -> Iterator[WaiterRig]:
    """Without the index, any item can be in the table."""
    made = WaiterRig(indexed=False)
    yield made
    made.close()


def test_an_item_becomes_a_job_that_is_sent_as_the_message_it_was(rig: WaiterRig) -> None:
    rig.put(message("a", NOW + 24 * HOUR * 1000 + 123))
    report = rig.adopt()
    assert (report.seen, report.adopted, report.queues) == (1, 1, {"mailers": 1})
    [job] = rig.jobs("mailers")
    assert job.due_at == to_datetime(NOW + 24 * HOUR * 1000 + 123)
    assert rig.cue.queue("mailers").sink == "message:sqs://mailers?region=eu-central-1"
    sent = entry(Delivery(job.id, NOW, job.payload_json, 1), 0, NOW, fifo=False)
    assert json.loads(sent["MessageBody"]) == {
        "job_class": "MailJob",
        "job_id": "a",
        "queue_name": "mailers",
        "priority": None,
        "arguments": ["ada", 3, 0.5, {"deep": [True]}],
        "locale": "en",
    }
    attribute = {"DataType": "String", "StringValue": "ActiveJob::JobWrapper"}
    assert sent["MessageAttributes"] == {"shoryuken_class": attribute}
    assert rig.items() == []


def test_an_overdue_item_is_due_at_once(rig: WaiterRig) -> None:
    rig.put(message("a", NOW - 1), message("b", perform_at=Decimal(-5)))
    rig.adopt()
    assert [job.due_at for job in rig.jobs("mailers")] == [to_datetime(NOW)] * 2


def test_a_second_run_finds_nothing(rig: WaiterRig) -> None:
    rig.put(message("a"), message("b"))
    rig.adopt()
    report = rig.adopt()
    assert (report.seen, report.adopted) == (0, 0)
    assert len(rig.jobs("mailers")) == 2


def test_a_thousand_items_go_to_the_queues_that_they_name() -> None:
    rig = WaiterRig("dynamodb")
    queues = ("mailers", "default", "low")
    rig.put(*(message(f"job-{n}", queue=queues[n % 3]) for n in range(1000)))
    report = rig.adopt()
    assert report.queues == {"mailers": 334, "default": 333, "low": 333}
    assert rig.items() == []
    found = [job.payload for queue in queues for job in rig.jobs(queue)]
    ids = {json.loads(payload["MessageBody"])["job_id"] for payload in found}
    assert ids == {f"job-{n}" for n in range(1000)}
    assert len(found) == 1000
    rig.close()


def test_an_item_under_the_same_key_is_another_job_if_it_is_another_item() -> None:
    """Active Job tries a job again under its id."""
    rig = WaiterRig()
    rig.put(message("a"))
    rig.adopt()
    rig.put(message("a", NOW + 30 * HOUR * 1000))
    rig.adopt()
    assert len(rig.jobs("mailers")) == 2
    rig.put(message("a"))  # the first once more, as from a backup
    rig.adopt()
    assert len(rig.jobs("mailers")) == 2
    rig.close()


def test_what_is_due_soon_is_left_to_the_system_unless_it_is_stopped(rig: WaiterRig) -> None:
    """It deletes what it has read without a condition, and sends it."""
    rig.put(message("soon", NOW + 15 * 60_000), message("late", NOW - 1), message("far"))
    report = rig.adopt()
    assert (report.adopted, report.left) == (2, 1)
    assert [item["job_id"] for item in rig.items()] == ["soon"]
    report = rig.adopt(stopped=True)
    assert (report.adopted, report.left) == (1, 0)
    assert rig.items() == []


def test_malformed_items_stay_and_are_named(plain_rig: WaiterRig) -> None:
    good = message("good")
    body = good["sqs_message_body"]
    bad: dict[str, dict[str, Any]] = {
        "no-body": {"sqs_message_body": None},
        "text-body": {"sqs_message_body": "x"},
        "no-queue": {"sqs_message_body": {"job_id": "x"}},
        "odd-queue": {"sqs_message_body": {**body, "queue_name": "a b"}},
        "nul": {"sqs_message_body": {**body, "x": "\0"}},
        "text-time": {"perform_at": "tomorrow"},
        "no-time": {"perform_at": None},
        "far-time": {"perform_at": Decimal(10) ** 30},
        "century": {"perform_at": Decimal(NOW // 1000 + 200 * 366 * 86_400)},
        "attributes": {"sqs_message_attributes": ["x"]},
        "attribute": {"sqs_message_attributes": {"x": {"string_value": "x"}}},
        "large": {"sqs_message_body": {**body, "x": "x" * 300_000}},
    }
    plain_rig.put(good, *(message(name, **change) for name, change in bad.items()))
    report = plain_rig.adopt()
    assert (report.adopted, report.malformed) == (1, len(bad))
    named = dict(report.problems)
    assert named.keys() == bad.keys()
    assert named["no-queue"] == "sqs_message_body: has no queue_name."
    assert named["text-time"] == "perform_at: is missing, or is not a number."
    assert {item["job_id"] for item in plain_rig.items()} == bad.keys()


def test_attributes_may_be_binary_or_missing(plain_rig: WaiterRig) -> None:
    binary = {"x": {"binary_value": b"\x00\xff", "data_type": "Binary"}}
    plain_rig.put(message("a", sqs_message_attributes=binary))
    plain_rig.put(message("b", sqs_message_attributes=None))
    plain_rig.adopt()
    found = [
        entry(Delivery(job.id, NOW, job.payload_json, 1), 0, NOW, fifo=False)
        for job in plain_rig.jobs("mailers")
    ]
    shown = [one.get("MessageAttributes") for one in found]
    assert {"x": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}} in shown
    assert None in shown


def test_a_message_for_a_fifo_queue_has_the_group_of_shoryuken(plain_rig: WaiterRig) -> None:
    plain_rig.put(message("a", queue="mail.fifo"))
    plain_rig.adopt()
    [job] = plain_rig.jobs("mail.fifo")
    assert job.payload["MessageGroupId"] == "ShoryukenMessage"
    assert job.payload["MessageDeduplicationId"] == job.id


def test_a_queue_with_another_sink_is_refused_before_anything_is_taken(
    plain_rig: WaiterRig,
) -> None:
    plain_rig.cue.set_queue("mailers", sink="log:")
    plain_rig.put(message("a"), message("b", queue="other"))
    with pytest.raises(Conflict, match="oncue queues set mailers --sink 'message:sqs://mailers"):
        plain_rig.adopt()
    assert len(plain_rig.items()) == 2
    assert [queue.name for queue in plain_rig.cue.queues() if queue.sink] == ["mailers"]


def test_a_queue_that_workers_use_is_refused(plain_rig: WaiterRig) -> None:
    plain_rig.cue.schedule("for a worker", queue="mailers")
    plain_rig.put(message("a"))
    with pytest.raises(Conflict, match="has jobs or settings, and no sink"):
        plain_rig.adopt()
    assert len(plain_rig.items()) == 1


def test_a_queue_that_sends_such_messages_keeps_its_settings(plain_rig: WaiterRig) -> None:
    sink = "message:sqs://mailers?region=us-east-1"
    plain_rig.cue.set_queue("mailers", sink=sink, max_attempts=9)
    plain_rig.put(message("a"))
    plain_rig.adopt()
    assert plain_rig.cue.queue("mailers").sink == sink
    assert [job.state for job in plain_rig.jobs("mailers")] == [State.SCHEDULED]


def test_a_table_of_another_layout_is_refused() -> None:
    rig = TaskRig()
    refused = pytest.raises(InvalidInput, match=r"its keys are requestId .*scheduler \(HASH, S\)")
    with closing(OthersTable(Table(rig.name, client), WaiterRig.keys)) as table, refused:
        Adoption(rig.cue, table, WaiterLayout()).survey()
    rig.close()


def test_a_survey_changes_nothing(rig: WaiterRig) -> None:
    rig.put(message("a"), message("soon", NOW))
    report = rig.survey()
    assert (report.seen, report.adopted, report.left) == (2, 1, 1)
    assert len(rig.items()) == 2
    assert rig.cue.queues() == []


def test_an_item_that_is_too_deep_for_a_copy_stays_and_the_others_do_not(rig: WaiterRig) -> None:
    def nested(depth: int) -> Any:
        return [nested(depth - 1)] if depth else "x"

    for depth in (29, 30):
        body = message(str(depth))["sqs_message_body"] | {"arguments": nested(depth)}
        rig.put(message(str(depth), sqs_message_body=body))
    report = rig.adopt()
    assert (report.adopted, report.malformed) == (1, 1)
    assert report.problems == [("30", "its lists and maps are nested more than 31 deep.")]
    assert [item["job_id"] for item in rig.items()] == ["30"]
