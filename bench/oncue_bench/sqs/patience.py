"""Messages that wait longer than SQS can delay them: what `patient` costs where it does nothing,
how many messages it captures and hands over in a second, and what a process with many waiting
needs."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.integrations.sqs import PatientSqs, patient
from oncue.sinks.sqs_address import SqsAddress
from oncue.sinks.sqs_message import CALL_ENTRIES
from oncue_bench import machine
from oncue_bench.machine import rss_kib
from oncue_bench.rounds import in_turns
from oncue_bench.sqs.sending import InstantClient

BODY = "x" * 200
DAY = 86_400
POLL_SECONDS = 30.0
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/bench"

Figures = dict[str, Any]


class WaitingClient(InstantClient):
    """As a client of boto3 of a queue that takes everything at once."""

    def __init__(self, real: Any) -> None:
        super().__init__()
        self.meta, self.exceptions = real.meta, real.exceptions

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        return {"Attributes": {}}


def native(sink: str, count: int, rounds: int) -> Figures:
    """Messages that SQS delays itself, with and without `patient`. The two take turns, message by
    message, with one client."""
    address = SqsAddress.read(sink)
    client = address.connect()
    url = address.find_url(client)
    with Scheduler("memory:") as cue:
        ways = {"mine": patient(client, cue, poll_seconds=0), "its": client}
        message = {"QueueUrl": url, "MessageBody": BODY, "DelaySeconds": 5}
        mine, its = in_turns(lambda name: ways[name].send_message(**message), count, rounds)
    return {"count": count, "seconds": mine, "raw_seconds": its}


def captured(count: int) -> Figures:
    """Messages captured in SQLite, ten in a call, and a day later handed over to an SQS that takes
    no time; and by how much the process grew while all of them waited."""
    client = WaitingClient(SqsAddress("bench", "eu-central-1", "http://127.0.0.1:9").connect())
    clock = FakeClock(SystemClock().now())
    with TemporaryDirectory(dir=machine.disk_folder()) as folder:
        cue = Scheduler(f"sqlite:///{folder}/jobs.db", clock=clock)
        sqs = patient(client, cue, poll_seconds=POLL_SECONDS)
        assert sqs.poller is not None
        _capture(sqs, CALL_ENTRIES)  # so that everything is there
        before, began = rss_kib(), perf_counter()
        _capture(sqs, count)
        capturing, grown = perf_counter() - began, rss_kib() - before
        clock.advance(DAY)
        began = perf_counter()
        sqs.poller.step()
        handing = perf_counter() - began
        sqs.stop()
        cue.close()
    if client.messages != count + CALL_ENTRIES:
        raise AssertionError(f"{client.messages} messages, not {count + CALL_ENTRIES}")
    return {"count": count, "seconds": capturing, "handing": handing, "grown_kib": grown}


def _capture(sqs: PatientSqs, count: int) -> None:
    entries = [
        {"Id": str(number), "MessageBody": BODY, "DelaySeconds": DAY}
        for number in range(CALL_ENTRIES)
    ]
    for _ in range(count // CALL_ENTRIES):
        sqs.send_message_batch(QueueUrl=URL, Entries=entries)
