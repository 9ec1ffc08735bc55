"""The event that a rule of EventBridge sends to a function on a schedule."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from oncue.core.moment import Moment, render

ACCOUNT, REGION = "123456789012", "us-east-1"


def scheduled_event(at: Moment) -> dict[str, Any]:
    """As it is sent at that moment; `time` has whole seconds."""
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
