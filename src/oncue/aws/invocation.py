"""What a handler is invoked with where Lambda does not do it: on this machine, in fast motion."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from oncue.clock import SystemClock
from oncue.core.moment import Moment, render
from oncue.ports.clock import Clock

ACCOUNT, REGION = "123456789012", "us-east-1"


def scheduled_event(at: Moment) -> dict[str, Any]:
    """As a rule of EventBridge sends it at that moment; `time` has whole seconds."""
    return {
        "version": "0",
        "id": str(uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": render(at)[:19] + "Z",
        "region": REGION,
        "resources": [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/oncue"],
        "detail": {},
    }


class LocalContext:
    """That of a function which has so many seconds, by the clock."""

    def __init__(self, function: str, seconds: float, clock: Clock | None = None) -> None:
        self.function_name = function
        self._clock = clock or SystemClock()
        self._ends = self._clock.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self._ends - self._clock.monotonic()) * 1000))
