"""`oncue.integrations.sqs`: a client of SQS that takes any delay."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import InvalidInput, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.engine.poller import Poller
from oncue.integrations.sqs import PatientSqs, patient
from oncue.stores.memory.store import MemoryStore
from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS
from tests.stores.kinds import open_kind

DAY = 86_400
ATTRIBUTES = {
    "kind": {"DataType": "String", "StringValue": "häll"},
    "count": {"DataType": "Number.int", "StringValue": "3"},
    "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46"}}


class Counted:
    """A client of boto3 that writes down what is sent."""

    def __init__(self) -> None:
        make: Any = boto3.client
        self.client = make(
            "sqs",
            endpoint_url=os.environ.get("MINISTACK") or ministack_endpoint(),
            region_name="eu-central-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        self.batches: list[list[Any]] = []
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def send_message(self, *args: Any, **call: Any) -> Any:
        if call.get("DelaySeconds", 0) > 900:
            raise ClientError(
                {"Error": {"Code": "InvalidParameterValue", "Message": "must be <= 900"}},
                "SendMessage",
            )
        return self.client.send_message(*args, **call)

    def send_message_batch(self, **call: Any) -> Any:
        self.before()
        answer = self.client.send_message_batch(**call)
        self.batches.append(list(call["Entries"]))
        return answer


class Place:
    """A queue of SQS, a store, and the patient client. Its poller makes steps by hand."""

    def __init__(self, *, fifo: bool = False, cue: Scheduler | None = None, **options: Any) -> None:
        self.clock = FakeClock(SystemClock().now())
        self.cue = cue or Scheduler(MemoryStore(self.clock))
        self.real = Counted()
        self.name = f"patient-{uuid4().hex}{'.fifo' if fifo else ''}"
        attributes = {"FifoQueue": "true"} if fifo else {}
        made = self.real.client.create_queue(QueueName=self.name, Attributes=attributes)
        self.url = made["QueueUrl"]
        self.sqs = patient(self.real, self.cue, poll_seconds=30, **options)

    def poll(self) -> float:
        assert self.sqs.poller is not None
        return self.sqs.poller.step()

    def received(self) -> list[Any]:
        found: list[Any] = []
        while more := self.real.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            found += more
        return found

    def send(self, body: str = "hello", **more: Any) -> Any:
        return self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **more)


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """No poller runs by itself."""
    monkeypatch.setattr(Poller, "start", lambda self: None)


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.cue.close()


def entry(entry_id: str, body: str = "x", **more: Any) -> dict[str, Any]:
    return {"Id": entry_id, "MessageBody": body, **more}


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


def test_deliver_at(place: Place) -> None:
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
    url = Counted().client.create_queue(QueueName=name)["QueueUrl"]
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


def test_a_batch_whose_native_part_fails_leaves_nothing_captured(place: Place) -> None:
    def fail() -> None:
        raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")

    place.real.before = fail
    with pytest.raises(ClientError, match="RequestThrottled"):
        place.sqs.send_message_batch(
            QueueUrl=place.url, Entries=[entry("a"), entry("b", DelaySeconds=DAY)]
        )
    assert [job.state for job in place.cue.jobs()] == [State.CANCELLED]


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


def test_a_failed_capture_raises_and_nothing_is_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any) -> Any:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(place.cue.store, "insert", down)
    with pytest.raises(StoreUnavailable):
        place.sqs.send_message_batch(
            QueueUrl=place.url, Entries=[entry("a"), entry("b", DelaySeconds=DAY)]
        )
    assert place.received() == []


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


DYING = """
import os, sys
from tests.integration.test_patient_sqs import Counted
from oncue import Scheduler
from oncue.integrations.sqs import patient

real = Counted()
send = real.client.send_message_batch
real.client.send_message_batch = lambda **call: (send(**call), os._exit(9))
patient(real, Scheduler(sys.argv[1]), poll_seconds=0.5).poller._loop._thread.join()
"""


def test_a_process_that_dies_in_the_middle_of_a_batch_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.db'}"
    place = Place(cue=Scheduler(store))
    place.cue.set_queue(place.name, lease_seconds=1)
    for number in range(30):
        place.send(str(number), DeliverAt=datetime.now(UTC))
    environment = {**os.environ, "MINISTACK": ministack_endpoint()}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", DYING, store], env=environment, timeout=60)
    assert done.returncode == 9
    before = {one["Body"] for one in place.received()}
    assert before
    monkeypatch.undo()
    other = patient(place.real, place.cue, poll_seconds=0.2)
    other.start()
    while place.cue.stats(place.name).counts.get(State.SUCCEEDED) != 30:
        Event().wait(0.05)
    other.stop()
    place.cue.close()
    after = {one["MessageBody"] for batch in place.real.batches for one in batch}
    assert before | after == {str(number) for number in range(30)}


def test_two_pollers_send_each_message_once(place: Place) -> None:
    other = patient(place.real, place.cue, poll_seconds=30)
    for number in range(30):
        place.send(str(number), DelaySeconds=DAY)
    place.clock.advance(DAY)
    assert other.poller is not None
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(other.poller.step), threads.submit(place.poll)]:
            done.result()
    bodies = [int(one["MessageBody"]) for batch in place.real.batches for one in batch]
    assert sorted(bodies) == list(range(30))


def test_the_poller_starts_and_stops_with_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    place = Place(cue=Scheduler("memory:"))
    sent = Event()
    place.real.before = sent.set
    place.send(DeliverAt=datetime.now(UTC))
    assert sent.wait(30)
    place.sqs.stop()
    place.sqs.close()
    place.cue.close()


@pytest.mark.parametrize("wrong", ["often", "-1", "901"])
def test_a_wrong_poll_interval_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("ONCUE_POLL_SECONDS", wrong)
    with Scheduler("memory:") as cue, pytest.raises(InvalidInput):
        PatientSqs(Counted(), cue, None, None)


def test_no_poller_runs_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_POLL_SECONDS", "0")
    with Scheduler("memory:") as cue:
        assert patient(Counted(), cue).poller is None
    assert os.environ["ONCUE_POLL_SECONDS"] == "0"


def test_a_server_sends_what_others_have_captured(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    place.send(DelaySeconds=DAY, MessageAttributes=ATTRIBUTES)
    place.clock.advance(DAY)
    while not (found := place.received()):
        place.cue.engine.step_all()
    [message] = found
    assert message["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\xff"
    assert "oncue-job-id" not in message["MessageAttributes"]


def test_a_payload_that_is_no_message_is_refused_or_fails(place: Place) -> None:
    place.send(DelaySeconds=DAY)
    with pytest.raises(InvalidInput, match="not a captured SQS message"):
        place.cue.schedule({"to": "ada"}, queue=place.name)
    place.cue.set_queue("old", sink=None)
    old = place.cue.schedule({"to": "ada"}, queue="old")
    place.cue.set_queue("old", sink=f"message:{place.url}")
    place.poll()
    assert place.cue.job(old.id).state is State.FAILED


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
def test_every_store_keeps_messages(kind: str, tmp_path: Path) -> None:
    clock = FakeClock(SystemClock().now())
    place = Place(cue=Scheduler(open_kind(kind, tmp_path / "jobs.db", clock)))
    place.clock = clock
    given: dict[str, Any] = {"MessageAttributes": ATTRIBUTES}
    for number in range(3):
        place.send(str(number), DelaySeconds=DAY, **given)
    clock.advance(DAY)
    place.poll()
    assert sorted(one["Body"] for one in place.received()) == ["0", "1", "2"]
    place.cue.close()
