"""`oncue.integrations.sqs` where something else is in its way: other processes, regions, accounts,
keys and queues, and calls that fail."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from oncue.core.errors import InvalidInput, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.engine.engine import Engine
from oncue.engine.poller import Poller
from oncue.integrations import sqs_queues
from oncue.integrations.sqs import patient
from tests.integration.patient.place import DAY, Place, entry
from tests.servers import ministack_endpoint


def down(*_: Any) -> Any:
    raise StoreUnavailable("the disk is full")


def throttle() -> None:
    raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")


def send_both(place: Place, **late: Any) -> Any:
    """One message that SQS takes at once, and one that waits."""
    entries = [entry("a"), entry("b", DelaySeconds=DAY, **late)]
    return place.sqs.send_message_batch(QueueUrl=place.url, Entries=entries)


def test_a_batch_that_fails_leaves_nothing_captured(place: Place) -> None:
    place.real.before = throttle
    with pytest.raises(ClientError, match="RequestThrottled"):
        send_both(place)
    assert [job.state for job in place.cue.jobs()] == [State.CANCELLED]


def test_a_capture_that_fails_is_raised_and_nothing_is_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.cue.store, "insert", down)
    with pytest.raises(StoreUnavailable):
        send_both(place)
    assert place.received() == []


def test_a_batch_that_fails_leaves_the_earlier_message_of_its_key(place: Place) -> None:
    first = place.send(DelaySeconds=DAY, Key="welcome-42")
    place.real.before = throttle
    with pytest.raises(ClientError, match="RequestThrottled"):
        send_both(place, Key="welcome-42")
    assert place.cue.job(first["MessageId"]).state is State.SCHEDULED


def test_a_batch_that_fails_says_why_even_if_the_store_fails_then(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(place.cue, "cancel", down)
    place.real.before = throttle
    with pytest.raises(ClientError, match="RequestThrottled"):
        send_both(place)
    [job] = place.cue.jobs()
    assert f"message {job.id} of a batch that failed stays captured" in caplog.text


def test_a_capture_that_is_refused_in_part_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.send(DelaySeconds=DAY)
    whole = place.cue.store_jobs

    def partly(jobs: Any) -> Any:
        return whole(jobs)._replace(refused={1: InvalidInput("no")})

    monkeypatch.setattr(place.cue, "store_jobs", partly)
    entries = [entry(str(number), DelaySeconds=2 * DAY) for number in range(2)]
    with pytest.raises(InvalidInput):
        place.sqs.send_message_batch(QueueUrl=place.url, Entries=entries)
    states = sorted(str(job.state) for job in place.cue.jobs())
    assert states == ["cancelled", "cancelled", "scheduled"]


def test_a_message_that_cannot_be_sent_does_not_hide_when_others_are_due(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = Place(fifo=True, cue=place.cue)
    place.send(DelaySeconds=1000)
    fifo.send(DelaySeconds=1002, MessageGroupId="g", MessageDeduplicationId="d")
    place.clock.advance(1000)
    monkeypatch.setattr(Engine, "tick", lambda *_, **__: None)
    assert place.poll() == 2.0


def test_a_long_poll_interval_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops make a step every half a minute at least."""
    sqs = patient(place.real, place.cue, poll_seconds=100)
    assert sqs.poller is not None
    looks: list[int] = []

    def step(poller: Poller) -> float:
        looks.append(place.clock.now())
        return 100.0

    monkeypatch.setattr(Poller, "step", step)
    look = sqs.poller.look
    assert look() == 100
    place.clock.advance(30)
    assert (look(), len(looks)) == (70, 1)
    sqs.send_message(QueueUrl=place.url, MessageBody="x", DeliverAt=to_datetime(looks[0] + 31_000))
    assert (look(), len(looks)) == (70, 1)
    place.clock.advance(1)
    assert (look(), len(looks)) == (100, 2), "something is due that this process knows of"
    place.clock.advance(100)
    assert (look(), len(looks)) == (100, 3)


AWS = "https://sqs.eu-central-1.amazonaws.com/111122223333/mail"


@pytest.mark.parametrize(
    ("sink", "is_same"),
    [
        (AWS, True),
        ("https://eu-central-1.queue.amazonaws.com/111122223333/mail", True),
        ("sqs://mail", True),
        ("sqs://mail?region=eu-central-1", True),
        ("sqs://mail?region=us-east-1", False),
        ("sqs://other?region=eu-central-1", False),
        ("https://sqs.us-east-1.amazonaws.com/111122223333/mail", False),
        ("https://sqs.eu-central-1.amazonaws.com/444455556666/mail", False),
    ],
)
def test_which_sinks_send_to_the_same_queue(sink: str, is_same: bool) -> None:
    assert sqs_queues.is_same(f"message:{sink}", f"message:{AWS}", "eu-central-1") is is_same


def test_a_queue_of_the_same_name_in_another_account_needs_another_oncue_queue(
    place: Place,
) -> None:
    place.cue.set_queue(place.name, sink=f"message:{place.url.replace('000000000000', '1' * 12)}")
    with pytest.raises(InvalidInput, match="Give the messages another queue"):
        place.send(DelaySeconds=DAY)


def test_a_queue_with_jobs_of_others_is_not_taken_over(place: Place) -> None:
    other = place.cue.schedule({"to": "ada"}, queue=place.name, delay=DAY)
    with pytest.raises(InvalidInput, match="jobs that are no SQS messages.*another queue"):
        place.send(DelaySeconds=DAY)
    assert place.cue.queue(place.name).sink is None
    place.cue.cancel(other.id)
    place.send(DelaySeconds=DAY)


def test_a_sink_that_was_left_out_of_new_settings_is_given_again(place: Place) -> None:
    place.send(
        DelaySeconds=DAY, MessageAttributes={"a": {"DataType": "Binary", "BinaryValue": b"x"}}
    )
    place.cue.set_queue(place.name, rate_per_second=5)
    again = patient(place.real, place.cue, poll_seconds=0)
    again.send_message(QueueUrl=place.url, MessageBody="b", DelaySeconds=DAY)
    queue = place.cue.queue(place.name)
    assert (queue.sink, queue.rate_per_second) == (f"message:{place.url}", 5)


def test_messages_for_another_region_are_left_to_those_who_have_a_client_there(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue of the same name is in this region, too."""
    endpoint = place.real.client.meta.endpoint_url
    sink = f"message:sqs://{place.name}?region=us-east-1&endpoint={endpoint}"
    place.cue.set_queue(place.name, sink=sink)
    place.cue.schedule({"MessageBody": "x"}, queue=place.name)
    place.poll()
    assert place.real.batches == []
    assert caplog.records == []


def test_other_queues_of_the_store_are_none_of_its_business(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.send(DelaySeconds=DAY)
    for name, sink in {"a": "log:", "b": "celery:", "c": "sqs://c?region=eu-central-1"}.items():
        place.cue.set_queue(name, sink=sink)
    with caplog.at_level(logging.INFO, "oncue"):
        place.poll()
    assert caplog.records == []


def test_who_may_not_ask_for_the_settings_of_a_queue_may_send(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetQueueAttributes")

    monkeypatch.setattr(place.real.client, "get_queue_attributes", deny)
    answer = place.send(DelaySeconds=DAY)
    assert place.cue.job(answer["MessageId"]).state is State.SCHEDULED


def test_a_slash_at_the_end_of_the_url_changes_nothing() -> None:
    place = Place(fifo=True)
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    for url in (place.url, f"{place.url}/"):
        sqs = patient(place.real, place.cue, queues=[f"{place.url}/"], poll_seconds=0)
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=DAY, **ids)
        with pytest.raises(ClientError, match="MessageGroupId"):
            sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=DAY)
    assert place.cue.queue(place.name).sink == f"message:{place.url}"
    place.cue.close()


@pytest.mark.parametrize("first", ["-", "_"])
def test_a_queue_whose_name_oncue_refuses_needs_another_name(first: str) -> None:
    place = Place()
    name = first + place.name
    place.url = place.real.client.create_queue(QueueName=name)["QueueUrl"]
    with pytest.raises(InvalidInput, match=f"queues={{'{name}': 'another-name'}}"):
        place.send(DelaySeconds=DAY)


FORKING = """
import os, sys
from tests.integration.patient.place import NotingClient
from oncue import Scheduler
from oncue.integrations.sqs import patient

real = NotingClient()
url = real.client.create_queue(QueueName="forked")["QueueUrl"]
sqs = patient(real, Scheduler("memory:"), poll_seconds=0)

def connections():
    pools = real.client._endpoint.http_session._manager.pools
    return [one.sock.fileno() for key in pools.keys() for one in pools[key].pool.queue if one]

shared = connections()
child = os.fork()
if child == 0:
    kept = connections()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    os._exit(0 if shared and not kept else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or connections() != shared)
"""


def test_a_forked_child_has_connections_of_its_own() -> None:
    """If it had those of the poller of its parent, answers would come to the wrong process."""
    environment = {**os.environ, "MINISTACK": ministack_endpoint()}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", FORKING], env=environment, timeout=60)
    assert done.returncode == 0


def test_a_key_is_for_messages_that_wait(place: Place) -> None:
    with pytest.raises(ParamValidationError, match="give DeliverAt, or a DelaySeconds of more"):
        place.send(DelaySeconds=900, Key="welcome-42")
    with pytest.raises(ParamValidationError, match="Key is only for messages that wait"):
        entries = [entry("a", Key="welcome-42"), entry("b", DelaySeconds=DAY)]
        place.sqs.send_message_batch(QueueUrl=place.url, Entries=entries)
    assert not list(place.cue.jobs())
    assert not place.received()


def test_arguments_of_another_kind_are_named(place: Place) -> None:
    with pytest.raises(InvalidInput, match="/client: must be a client of boto3 for SQS"):
        patient(place.cue, place.cue)
    with pytest.raises(InvalidInput, match="/scheduler: must be a Scheduler"):
        patient(place.real, "sqlite:///oncue.db")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="/poll_seconds: must be a number of seconds"):
        patient(place.real, place.cue, poll_seconds="3")  # type: ignore[arg-type]
