"""Who sends the messages that a patient client has captured: pollers, and servers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.integrations.polling import poll_interval
from oncue.integrations.sqs import patient
from tests.integration.patient.place import ATTRIBUTES, DAY, NotingClient, Place
from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS
from tests.stores.kinds import open_kind

DYING = """
import os, sys
from threading import Event
from tests.integration.patient.place import NotingClient
from oncue import Scheduler
from oncue.integrations.sqs import patient

real = NotingClient()
send = real.client.send_message_batch
real.client.send_message_batch = lambda **call: (send(**call), os._exit(9))
sqs = patient(real, Scheduler(sys.argv[1]), poll_seconds=0.5)
Event().wait()  # until the poller ends the process
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
    others = set(threading.enumerate())
    place = Place(cue=Scheduler("memory:"))
    sent = Event()
    place.real.before = sent.set
    place.send(DeliverAt=datetime.now(UTC))
    assert sent.wait(30)
    place.sqs.close()
    assert "oncue-poller" not in {one.name for one in set(threading.enumerate()) - others}
    place.cue.close()


def test_the_interval_is_that_of_the_call_or_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert poll_interval(None) == 30
    monkeypatch.setenv("ONCUE_POLL_SECONDS", "2.5")
    assert (poll_interval(None), poll_interval(7), poll_interval(0)) == (2.5, 7, 0)


@pytest.mark.parametrize("wrong", ["often", "-1", "901"])
def test_a_wrong_interval_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("ONCUE_POLL_SECONDS", wrong)
    with Scheduler("memory:") as cue, pytest.raises(InvalidInput, match="ONCUE_POLL_SECONDS"):
        patient(NotingClient(), cue)
    with pytest.raises(InvalidInput, match="/poll_seconds"):
        poll_interval(-1)


def test_no_poller_runs_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_POLL_SECONDS", "0")
    with Scheduler("memory:") as cue:
        assert patient(NotingClient(), cue).poller is None


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


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb", "postgresql"])
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
