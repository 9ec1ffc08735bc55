from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract_sinks.receivers import (
    FifoReceiver,
    LogReceiver,
    MemoryReceiver,
    Receiver,
    SqsReceiver,
)
from tests.servers.clients import CREDENTIALS

RECEIVERS: dict[str, Callable[[pytest.LogCaptureFixture], Receiver]] = {
    "memory": lambda _: MemoryReceiver(),
    "log": LogReceiver,
    "sqs": lambda _: SqsReceiver(),
    "sqs-fifo": lambda _: FifoReceiver(),
}


@pytest.fixture(params=RECEIVERS)
def receiver(
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Receiver:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return RECEIVERS[request.param](caplog)
