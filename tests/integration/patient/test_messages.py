"""`oncue.integrations.sqs`: a client of SQS that takes any delay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from tests.integration.patient.place import ATTRIBUTES, DAY, TRACE, NotingClient, Place, entry
from tests.servers import ministack_endpoint


def test_900_seconds_are_native_and_901_are_captured(place: Place) -> None:
    place.send(DelaySeconds=900)
    assert list(place.cue.jobs()) == []
    answer = place.send(DelaySeconds=901)
    [job] = place.cue.jobs()
    assert answer["MessageId"] == job.id
    assert job.due_at == to_datetime(place.clock.now() + 901_000)
    assert (job.queue, place.cue.queue(job.queue).sink) == (place.name, f"message:{place.url}")


def test_the_message_is_the_same_later(place: Place) -> None:
    given: dict[str, Any] = {"MessageAttributes": ATTRIBUTES, "MessageSystemAttributes": TRACE}
    native = place.send('a\n\t"ä€\U0001f600', **given)
    late = place.send('a\n\t"ä€\U0001f600', DelaySeconds=7 * DAY, **given)
    for digest in ("MD5OfMessageBody", "MD5OfMessageAttributes"):
        assert late[digest] == native[digest]
    assert late["ResponseMetadata"]["HTTPStatusCode"] == 200
    place.poll()
    [first] = place.received()
    place.clock.advance(7 * DAY)
    place.poll()
    [second] = place.received()
    fields = ("Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes")
    assert {one: second[one] for one in fields} == {one: first[one] for one in fields}
    assert place.real.batches[0][0]["MessageSystemAttributes"] == TRACE
    assert place.cue.job(late["MessageId"]).state is State.SUCCEEDED


def test_the_digest_of_system_attributes_is_made_in_the_same_way(place: Place) -> None:
    """The emulator answers only that of the others."""
    native = place.send(MessageAttributes=TRACE)
    late = place.send(MessageSystemAttributes=TRACE, DelaySeconds=DAY)
    assert late["MD5OfMessageSystemAttributes"] == native["MD5OfMessageAttributes"]


def test_it_is_handed_over_a_poll_and_five_seconds_early_with_the_delay_that_is_left(
    place: Place,
) -> None:
    place.send(DelaySeconds=1000)
    place.clock.advance(964)
    assert place.poll() == 30
    assert place.real.batches == []
    place.clock.advance(1)
    assert place.poll() == 30
    [[sent]] = place.real.batches
    assert sent["DelaySeconds"] == 35


def test_a_poll_that_is_late_sends_at_once_and_without_the_delay_of_the_queue(
    place: Place,
) -> None:
    place.send(DelaySeconds=1000)
    place.clock.advance(2000)
    place.poll()
    [[sent]] = place.real.batches
    assert sent["DelaySeconds"] == 0


def test_deliver_at_is_the_due_time(place: Place) -> None:
    at = datetime.now(UTC) + timedelta(days=400)
    answer = place.send(DeliverAt=at)
    assert abs(place.cue.job(answer["MessageId"]).due_at - at) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"DeliverAt": "tomorrow"},
        {"DeliverAt": datetime(2030, 1, 1)},
        {"DeliverAt": datetime.now(UTC), "DelaySeconds": 5},
        {"DelaySeconds": 1000, "Unknown": 1},
        {"DelaySeconds": 1000, "MessageAttributes": {"a": "b"}},
        {"DelaySeconds": 1000, "MessageAttributes": {"a": {"StringValue": "b"}}},
    ],
)
def test_parameters_of_a_wrong_kind_are_refused_as_boto3_does(place: Place, wrong: Any) -> None:
    with pytest.raises(ParamValidationError):
        place.send(**wrong)
    assert list(place.cue.jobs()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"body": ""},
        {"body": "\x00"},
        {"body": "\ufffe"},
        {"body": "x" * 1_048_577},
        {"MessageAttributes": {"a": {"DataType": "Text", "StringValue": "b"}}},
        {"MessageAttributes": {"a": {"DataType": "String", "StringValue": ""}}},
        {"MessageAttributes": {"a": {"DataType": "Number", "StringValue": "many"}}},
        {"MessageAttributes": {str(n): ATTRIBUTES["kind"] for n in range(11)}},
        *(
            {"MessageAttributes": {"a": {"DataType": "String", "StringValue": value}}}
            for value in ("\x00", "\ud800", "\ufffe")
        ),
        *(
            {"MessageAttributes": {name: ATTRIBUTES["kind"]}}
            for name in ("", "a b", ".a", "a.", "a..b", "AWS.a", "amazon.b", "\ud800", "a" * 257)
        ),
        {"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": ""}}},
        {"MessageGroupId": "with space"},
        {"MessageGroupId": "g" * 129},
        {"MessageDeduplicationId": "of a standard queue"},
    ],
)
def test_what_sqs_would_refuse_is_refused_at_once(place: Place, wrong: Any) -> None:
    with pytest.raises(ClientError) as met:
        place.send(DelaySeconds=DAY, **wrong)
    assert met.value.operation_name == "SendMessage"
    assert met.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert list(place.cue.jobs()) == []


def test_half_a_character_is_one_failed_entry_of_a_batch(place: Place) -> None:
    entries = [entry("a", "\ud800", DelaySeconds=DAY), entry("b", DelaySeconds=DAY)]
    answer = place.sqs.send_message_batch(QueueUrl=place.url, Entries=entries)
    assert [one["Code"] for one in answer["Failed"]] == ["InvalidMessageContents"]
    assert [one["Id"] for one in answer["Successful"]] == ["b"]


@pytest.mark.parametrize("value", [bytes(range(256)), bytearray(b"ab"), "text"])
def test_binary_values_are_of_the_kinds_that_boto3_takes(place: Place, value: Any) -> None:
    given: dict[str, Any] = {"raw": {"DataType": "Binary.png", "BinaryValue": value}}
    native = place.send(MessageAttributes=given)
    late = place.send(MessageAttributes=given, DelaySeconds=DAY)
    assert late["MD5OfMessageAttributes"] == native["MD5OfMessageAttributes"]
    place.clock.advance(DAY)
    place.poll()
    first, second = place.received()
    assert first["MessageAttributes"] == second["MessageAttributes"]


def test_errors_have_the_classes_of_the_client(place: Place) -> None:
    with pytest.raises(place.sqs.exceptions.InvalidMessageContents):
        place.send("\x00", DelaySeconds=DAY)
    with pytest.raises(place.sqs.exceptions.QueueDoesNotExist):
        place.sqs.send_message(QueueUrl=f"{place.url}-no", MessageBody="x", DelaySeconds=DAY)


def test_a_message_that_is_too_large_to_be_kept_is_refused(place: Place) -> None:
    with pytest.raises(ClientError, match="kept as JSON of at most 262144 bytes"):
        place.send("x" * 262_145, DelaySeconds=DAY)


def test_a_queue_that_is_not_opted_in_gets_the_error_of_sqs_itself() -> None:
    place = Place(queues=["others"])
    with pytest.raises(ClientError, match="must be <= 900"):  # as SQS says; the emulator does not
        place.send(DelaySeconds=901)
    with pytest.raises(ParamValidationError, match="DeliverAt"):
        place.send(DeliverAt=datetime.now(UTC))


@pytest.mark.parametrize("by", ["name", "url", "mapping"])
def test_queues_are_opted_in_by_name_or_url(by: str) -> None:
    name = f"patient-{uuid4().hex}"
    url = NotingClient().client.create_queue(QueueName=name)["QueueUrl"]
    queues: Any = {"name": [name], "url": [url], "mapping": {name: "later"}}[by]
    place = Place(queues=queues)
    place.url = url
    answer = place.send(DelaySeconds=DAY)
    assert place.cue.job(answer["MessageId"]).queue == ("later" if by == "mapping" else name)
    place.clock.advance(DAY)
    place.poll()
    assert len(place.real.batches) == 1


def test_a_batch_mixes_both_kinds_and_keeps_the_ids(place: Place) -> None:
    answer = place.sqs.send_message_batch(
        QueueUrl=place.url,
        Entries=[
            entry("now"),
            entry("late", DelaySeconds=DAY, MessageAttributes=ATTRIBUTES),
            entry("bad", "\x00", DelaySeconds=DAY),
            entry("soon", DelaySeconds=900),
            entry("later", DeliverAt=datetime.now(UTC) + timedelta(days=2)),
        ],
    )
    assert [one["Id"] for one in answer["Successful"]] == ["now", "late", "soon", "later"]
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"]) == ("bad", True)
    assert failed["Code"] == "InvalidMessageContents"
    jobs = {one.id for one in place.cue.jobs()}
    assert jobs == {one["MessageId"] for one in answer["Successful"] if "late" in one["Id"]}
    [sent] = place.real.batches
    assert [one["Id"] for one in sent] == ["now", "soon"]


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([entry(str(n), DelaySeconds=DAY) for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([entry("a", DelaySeconds=DAY), entry("a")], "BatchEntryIdsNotDistinct"),
        ([entry("a b", DelaySeconds=DAY)], "InvalidBatchEntryId"),
        (
            [entry(str(n), "x" * 200_000, DelaySeconds=DAY) for n in range(6)],
            "BatchRequestTooLong",
        ),
    ],
)
def test_a_batch_that_sqs_refuses_is_refused(place: Place, entries: Any, error: str) -> None:
    with pytest.raises(getattr(place.sqs.exceptions, error)):
        place.sqs.send_message_batch(QueueUrl=place.url, Entries=entries)
    assert list(place.cue.jobs()) == []


def test_25_due_messages_are_three_sends(place: Place) -> None:
    for number in range(25):
        place.send(str(number), DelaySeconds=DAY)
    place.clock.advance(DAY)
    place.poll()
    assert sorted(len(batch) for batch in place.real.batches) == [5, 10, 10]
    assert sorted(int(one["Body"]) for one in place.received()) == list(range(25))


def test_a_captured_message_can_be_cancelled(place: Place) -> None:
    answer = place.send(DelaySeconds=DAY)
    assert place.sqs.cancel(answer["MessageId"])
    assert not place.sqs.cancel("nothing")
    place.clock.advance(DAY)
    place.poll()
    assert place.real.batches == []


def test_a_message_that_was_sent_cannot_be_cancelled(place: Place) -> None:
    answer = place.send(DelaySeconds=1000)
    place.clock.advance(970)
    place.poll()
    assert not place.sqs.cancel(answer["MessageId"])


def test_a_key_is_of_one_waiting_message(place: Place) -> None:
    first = place.send(DelaySeconds=DAY, Key="welcome-42")
    again = place.send(DelaySeconds=2 * DAY, Key="welcome-42")
    assert again["MessageId"] == first["MessageId"]


def test_a_fifo_queue_gets_group_and_deduplication_id() -> None:
    place = Place(fifo=True)
    for number in range(12):
        ids = {"MessageGroupId": f"g{number % 2}", "MessageDeduplicationId": f"d{number}"}
        place.send(str(number), DelaySeconds=DAY + number, **ids)
    with pytest.raises(ClientError, match="MessageGroupId"):
        place.send(DelaySeconds=DAY)
    with pytest.raises(ClientError, match="ContentBasedDeduplication"):
        place.send(DelaySeconds=DAY, MessageGroupId="g")
    place.clock.advance(DAY - 1)
    assert place.poll() == 1.0, "a FIFO queue has no delay for a message: it is sent when due"
    place.clock.advance(30)
    place.poll()
    sent = [one for batch in place.real.batches for one in batch]
    assert not any("DelaySeconds" in one for one in sent)
    for group in ("g0", "g1"):
        ours = [one for one in sent if one["MessageGroupId"] == group]
        assert [int(one["MessageBody"]) for one in ours] == [
            n for n in range(12) if f"g{n % 2}" == group
        ]
        assert [one["MessageDeduplicationId"] for one in ours] == [
            f"d{one['MessageBody']}" for one in ours
        ]


def test_everything_else_is_the_client_s(place: Place) -> None:
    assert place.sqs.get_queue_url(QueueName=place.name)["QueueUrl"] == place.url
    assert place.sqs.meta is place.real.client.meta
    with pytest.raises(TypeError):
        place.sqs.send_message(place.url, "x")


def test_an_oncue_queue_with_another_sink_is_left_alone(place: Place) -> None:
    place.cue.set_queue(place.name, sink="log:")
    with pytest.raises(InvalidInput, match="Give the messages another queue"):
        place.send(DelaySeconds=DAY)


def test_a_sink_that_names_the_same_queue_in_another_way_stays(place: Place) -> None:
    sink = f"message:sqs://{place.name}?region=eu-central-1&endpoint={ministack_endpoint()}"
    place.cue.set_queue(place.name, sink=sink)
    place.send(DelaySeconds=DAY)
    assert place.cue.queue(place.name).sink == sink
    place.clock.advance(DAY)
    place.poll()
    assert len(place.received()) == 1


def test_settings_of_the_oncue_queue_stay(place: Place) -> None:
    place.cue.set_queue(place.name, retention_seconds=0)
    place.send(DelaySeconds=DAY)
    queue = place.cue.queue(place.name)
    assert (queue.retention_seconds, queue.sink) == (0, f"message:{place.url}")
