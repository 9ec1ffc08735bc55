"""`oncue.aws.forward_started`: the function on the stream of the table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue import Scheduler
from oncue.aws import sandbox
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.ports.sink import Sink
from tests.aws.stack import Stack
from tests.contract.promises import exported
from tests.stores.dynamo import another_dynamo


@pytest.fixture
def streaming(stack: Stack) -> Stack:
    """Its queue `tasks` is delivered by way of the stream."""
    stack.add_stream()
    stack.cue.set_queue("tasks", sink=f"stream:{stack.sink}", completion="worker")
    return stack


def start(stack: Stack, number: int, payload: Any = "x") -> list[str]:
    ids = [stack.cue.schedule(payload, queue="tasks").id for _ in range(number)]
    stack.invoke("start_scheduled_tasks", {})
    assert {stack.cue.job(one).state for one in ids} == {State.DISPATCHED}
    return ids


def forward(stack: Stack) -> dict[str, Any]:
    """All records of the stream again; of each queue, how many jobs met which end."""
    answer = stack.invoke("forward_started", stack.stream_event())
    return dict(answer["queues"])


def ends(forwarded: int = 0, set_aside: int = 0, not_delivered: int = 0) -> dict[str, int]:
    return {"forwarded": forwarded, "set_aside": set_aside, "not_delivered": not_delivered}


def test_what_was_started_is_sent_by_the_stream_and_by_nothing_else(streaming: Stack) -> None:
    ids = start(streaming, 12)
    assert streaming.sent == []
    assert forward(streaming) == {"tasks": ends(forwarded=12)}
    assert streaming.sent_ids == sorted(ids)


def test_records_that_come_again_are_recognised_by_id_and_attempt(streaming: Stack) -> None:
    start(streaming, 3)
    for _ in range(2):
        forward(streaming)
    assert len(streaming.sent) == 6
    assert len(set(streaming.sent)) == 3


def test_what_happens_to_a_job_later_does_not_send_it_again(streaming: Stack) -> None:
    [job_id] = start(streaming, 1)
    forward(streaming)
    [entry] = streaming.sqs.entries
    token = entry["MessageAttributes"]["oncue-token"]["StringValue"]
    streaming.sqs.entries.clear()
    streaming.cue.cancel(job_id, running=True)
    streaming.cue.heartbeat(job_id, token)
    streaming.cue.complete(job_id, token)
    streaming.cue.schedule("later", queue="tasks", delay=3600)
    forward(streaming)
    assert streaming.sent == [(job_id, 1)]  # by the first record, which comes again


def test_a_large_payload_is_sent_whole(streaming: Stack) -> None:
    start(streaming, 1, "x" * 100_000)
    forward(streaming)
    [entry] = streaming.sqs.entries
    assert len(entry["MessageBody"]) == 100_002


def throttled() -> None:
    raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")


def test_what_could_not_be_sent_is_due_again(streaming: Stack) -> None:
    ids = start(streaming, 2)
    streaming.sqs.before = throttled
    assert forward(streaming) == {"tasks": ends(not_delivered=2)}
    assert {streaming.cue.job(one).state for one in ids} == {State.SCHEDULED}
    streaming.sqs.before = lambda: None
    streaming.clock.advance(60)
    streaming.dispatch()
    assert forward(streaming) == {"tasks": ends(forwarded=2)}
    assert sorted(streaming.sent) == [(one, 1) for one in sorted(ids)]


@pytest.mark.parametrize("sink", ["sqs", "none"])
def test_what_was_started_and_not_sent_goes_to_the_new_sink(streaming: Stack, sink: str) -> None:
    ids = start(streaming, 2)
    new = streaming.sink if sink == "sqs" else None
    streaming.cue.set_queue("tasks", sink=new, completion="worker")
    assert forward(streaming) == {"tasks": ends(not_delivered=2)}
    streaming.clock.advance(60)
    if sink == "sqs":
        streaming.dispatch()
        assert forward(streaming) == {}, "its dispatcher has sent them"
        assert streaming.sent_ids == sorted(ids)
    else:
        claimed = streaming.cue.claim("tasks", "me", limit=5)
        assert sorted(one.id for one in claimed) == sorted(ids)


def test_what_sqs_refuses_for_good_fails(streaming: Stack) -> None:
    [job_id] = start(streaming, 1)

    def refuse() -> None:
        raise ClientError({"Error": {"Code": "InvalidMessageContents"}}, "SendMessageBatch")

    streaming.sqs.before = refuse
    assert forward(streaming) == {"tasks": ends(set_aside=1)}
    assert streaming.cue.job(job_id).state is State.FAILED


def test_jobs_of_other_queues_are_left_alone(streaming: Stack) -> None:
    streaming.cue.schedule("x")
    streaming.dispatch()
    streaming.sqs.entries.clear()
    assert forward(streaming) == {}
    assert streaming.sent == []


@pytest.mark.parametrize("event", [{}, {"Records": "x"}, []])
def test_another_event_is_refused(streaming: Stack, event: Any) -> None:
    with pytest.raises(InvalidInput, match="an event of a DynamoDB stream"):
        streaming.invoke("forward_started", event)


def test_records_of_another_service_are_refused(streaming: Stack) -> None:
    event = {"Records": [{"eventSource": "aws:sqs", "body": "{}"}]}
    with pytest.raises(InvalidInput, match="/Records/0/eventSource: must be aws:dynamodb"):
        streaming.invoke("forward_started", event)


def test_a_stream_sink_needs_a_stream(stack: Stack) -> None:
    wanted = {"sink": f"stream:{stack.sink}", "completion": "worker"}
    with pytest.raises(InvalidInput, match="a stream sink needs a DynamoDB table with a stream"):
        stack.cue.set_queue("tasks", **wanted)
    with Scheduler("memory:") as cue, pytest.raises(InvalidInput, match="with a stream"):
        cue.set_queue("tasks", **wanted)


def test_a_stream_sink_needs_workers_that_complete(streaming: Stack) -> None:
    with pytest.raises(InvalidInput, match="completion='worker'"):
        streaming.cue.set_queue("mail", sink=f"stream:{streaming.sink}")


def test_settings_from_before_a_standstill_are_not_used(streaming: Stack) -> None:
    streaming.cue.set_queue("late", completion="worker")
    assert streaming.cue.policies("late").sink is None  # and the monotonic clock stands still
    other = Scheduler(another_dynamo(streaming.store))
    other.set_queue("late", sink=f"stream:{streaming.sink}", completion="worker")
    job = streaming.cue.schedule("x", queue="late")
    streaming.dispatch()
    assert forward(streaming) == {"late": ends(forwarded=1)}
    assert streaming.sent_ids == [job.id]


@pytest.mark.parametrize("rec", [{"S": "no record"}, {"N": "5"}, {"S": "[]"}, None])
def test_what_another_program_wrote_does_not_stop_the_stream(streaming: Stack, rec: Any) -> None:
    ids = start(streaming, 2)
    event = streaming.stream_event()
    image = {"pk": {"S": "i#x"}, "sk": {"S": "head"}, "rec": rec}
    change = {"SequenceNumber": "1", "NewImage": image}
    event["Records"].insert(0, {"dynamodb": change})
    streaming.invoke("forward_started", event)
    assert streaming.sent_ids == sorted(ids)


DISPATCHED = {"queue": "tasks", "state": "dispatched", "epoch": 1, "due_at": 1}


@pytest.mark.parametrize(
    "image",
    [
        {"rec": {"S": json.dumps(DISPATCHED)}},
        {"rec": {"S": json.dumps({**DISPATCHED, "due_at": None})}, "ver": {"N": "1"}},
        {"rec": {"S": json.dumps({**DISPATCHED, "sides": ["payload"]})}, "ver": {"N": "1"}},
        {"rec": {"S": json.dumps({**DISPATCHED, "now": [1]})}, "ver": {"N": "1"}},
    ],
)
def test_a_started_job_that_cannot_be_read_does_not_stop_the_stream(
    streaming: Stack, image: Any
) -> None:
    ids = start(streaming, 2, "x" * 2000)
    event = streaming.stream_event()
    key = {"pk": {"S": "i#x"}, "sk": {"S": "head"}}
    old = {**key, "rec": {"S": "{}"}}
    change = {"SequenceNumber": "1", "NewImage": {**key, **image}, "OldImage": old}
    event["Records"].insert(0, {"dynamodb": change})
    streaming.invoke("forward_started", event)
    assert streaming.sent_ids == sorted(ids)


def test_the_record_of_a_job_that_is_gone_sends_nothing(streaming: Stack) -> None:
    streaming.cue.set_queue(
        "tasks", sink=f"stream:{streaming.sink}", completion="worker", retention_seconds=0
    )
    [job_id] = start(streaming, 1, "x" * 2000)
    forward(streaming)
    [entry] = streaming.sqs.entries
    token = entry["MessageAttributes"]["oncue-token"]["StringValue"]
    streaming.cue.complete(job_id, token)  # the payload is gone with it
    assert forward(streaming) == {}
    assert len(streaming.sent) == 1


def test_a_sink_that_cannot_be_opened_does_not_keep_other_queues_from_being_sent(
    streaming: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, opened = f"{streaming.sink}-lost", sandbox.open_sink
    streaming.cue.set_queue("lost", sink=f"stream:{lost}", completion="worker")
    streaming.cue.schedule("x", queue="lost")
    streaming.dispatch()
    ids = start(streaming, 2)

    def open_sink(url: str) -> Sink:
        if url == lost:
            raise InvalidInput("no region is known", "/sink")
        return opened(url)

    monkeypatch.setattr(sandbox, "open_sink", open_sink)
    assert forward(streaming) == {"tasks": ends(forwarded=2), "lost": ends(not_delivered=1)}
    assert streaming.sent_ids == sorted(ids)


def test_a_job_that_was_restored_as_started_is_not_sent(streaming: Stack) -> None:
    ids = start(streaming, 1)
    [dumped] = [one for one in exported(streaming.store) if one.job.id in ids]
    restored = replace(dumped, job=dumped.job._replace(id="restored"))
    assert streaming.store.admit([restored]) == 1
    assert streaming.cue.job("restored").state is State.DISPATCHED
    assert forward(streaming) == {"tasks": ends(forwarded=1)}
    assert streaming.sent_ids == ids
