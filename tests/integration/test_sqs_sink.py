"""Jobs that are due arrive in a queue of SQS, whatever store they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncue import Scheduler, State
from oncue.clock import FakeClock, SystemClock
from tests.contract_sinks.receivers import SqsReceiver
from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS
from tests.stores.kinds import open_kind

MANY = 25  # more than fit into one call


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_due_jobs_are_sent_and_completed_with_their_tokens(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    clock = FakeClock(SystemClock().now())
    receivers = {"out": SqsReceiver(), "handed": SqsReceiver()}
    with Scheduler(open_kind(kind, tmp_path / "jobs.db", clock), clock=clock) as cue:
        cue.set_queue("out", sink=_sink(receivers["out"]))
        cue.set_queue("handed", sink=_sink(receivers["handed"]), completion="worker")
        asked = {queue: {f"{queue}-{n}" for n in range(MANY)} for queue in receivers}
        for queue, names in asked.items():
            cue.schedule_many(({"id": name, "payload": name} for name in names), queue=queue)
        found: dict[str, list[Any]] = {queue: [] for queue in receivers}
        while any(len(found[queue]) < MANY for queue in receivers):
            cue.engine.step_all()
            for queue, receiver in receivers.items():
                found[queue] += receiver.messages()
        cue.engine.step_all()
        assert {queue: {_said(one, "job-id") for one in found[queue]} for queue in found} == asked
        assert {cue.job(job_id).state for job_id in asked["out"]} == {State.SUCCEEDED}
        for message in found["handed"]:
            cue.complete(_said(message, "job-id"), _said(message, "token"))
        assert {cue.job(job_id).state for job_id in asked["handed"]} == {State.SUCCEEDED}


def _sink(receiver: SqsReceiver) -> str:
    return f"sqs://{receiver.name}?region=eu-central-1&endpoint={ministack_endpoint()}"


def _said(message: Any, name: str) -> str:
    return str(message["MessageAttributes"][f"oncue-{name}"]["StringValue"])
