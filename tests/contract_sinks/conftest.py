from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract_sinks.receivers import LogReceiver, MemoryReceiver, Receiver

RECEIVERS: dict[str, Callable[[pytest.LogCaptureFixture], Receiver]] = {
    "memory": lambda _: MemoryReceiver(),
    "log": LogReceiver,
}


@pytest.fixture(params=RECEIVERS)
def receiver(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Receiver:
    return RECEIVERS[request.param](caplog)
