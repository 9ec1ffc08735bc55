"""Jobs that the SQS queue of their sink would never take are refused when they are scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from oncue import Scheduler, sinks
from oncue.core.errors import InvalidInput, TooLarge
from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS, client

BAD = "\uffff"
LARGE = "x" * 2000


@pytest.fixture
def cue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """Its queue `mail` is delivered to an SQS queue that takes messages of up to 2,048 bytes."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    endpoint, name = ministack_endpoint(), f"q-{uuid4().hex}"
    bounded = {"MaximumMessageSize": "2048"}
    client("sqs", endpoint).create_queue(QueueName=name, Attributes=bounded)
    with Scheduler("memory:") as cue:
        cue.set_queue("mail", sink=f"sqs://{name}?endpoint={endpoint}")
        yield cue
    sinks._bounds.cache_clear()


def test_a_payload_that_is_too_large_for_the_queue(cue: Scheduler) -> None:
    with pytest.raises(TooLarge, match="more than the 2,048 bytes that SQS queue q-.* takes"):
        cue.schedule(LARGE, queue="mail")
    cue.schedule(LARGE[:1700], queue="mail")
    cue.schedule(LARGE, queue="other")


def test_a_character_that_sqs_refuses(cue: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="contains the character U\\+FFFF"):
        cue.schedule({"deep": [BAD]}, queue="mail")
    cue.schedule({"deep": [BAD]}, queue="other")
    cue.schedule("\x01\t\n\ud7ff\ufffd", queue="mail")


def test_of_many_only_those_are_refused(cue: Scheduler) -> None:
    ready = [cue.ready({"payload": one, "queue": "mail"}) for one in ("a", BAD, "b", LARGE)]
    stored = cue.store_jobs(ready)
    assert sorted(stored.refused) == [1, 3]
    assert [job_id is None for job_id in stored.ids] == [False, True, False, True]
    assert sorted(job.payload for job in cue.jobs(queue="mail")) == ["a", "b"]


def test_another_payload(cue: Scheduler) -> None:
    job = cue.schedule("a", queue="mail", delay=60)
    with pytest.raises(InvalidInput, match="U\\+FFFF"):
        cue.reschedule(job.id, payload=BAD)
    assert cue.job(job.id).payload == "a"


def test_the_payload_of_a_schedule_and_of_a_rule(cue: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="U\\+FFFF"):
        cue.put_schedule("daily", cron="0 0 * * *", queue="mail", payload=BAD)
    needs = {"type": "FILE", "resourceId": "b", "lifeDuration": 60}
    with pytest.raises(InvalidInput, match="U\\+FFFF"):
        cue.put_rule("late", [needs], queue="mail", payload=BAD)
    assert not [*cue.schedules(), *cue.rules()]


def test_a_queue_that_cannot_be_asked_takes_what_any_queue_takes(cue: Scheduler) -> None:
    cue.set_queue("lost", sink="sqs://lost?endpoint=http://127.0.0.1:1")
    assert cue.schedule(LARGE, queue="lost").payload == LARGE
