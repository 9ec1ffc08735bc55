"""Examples that several operations share."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from oncue.wire import jobs as wire

ID = "019a8a1b6f3c4d2e8a01f5b7c9d2e7d0"
TOKEN = "1.1.5f0c9a1be2d344775f0c9a1be2d34477"
NOON = "2026-12-01T12:00:00.000Z"


def shown(example: Struct) -> dict[str, Any]:
    """An example as the JSON that is shown."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(example))
    return found


JOB = shown(
    wire.Job(
        id=ID,
        queue="mail",
        state="scheduled",
        due_at=NOON,
        payload=Raw(b'{"to":"ada"}'),
        created_at="2026-12-01T10:00:00.000Z",
        updated_at="2026-12-01T10:00:00.000Z",
    )
)
STANDING: dict[str, Any] = {"worker": None, "lease_until": None, "attempt_base": 0}
OPERATION = {
    "name": "charge",
    "state": "succeeded",
    "percent": 100.0,
    "message": None,
    "result": {"receipt": 1001},
    "updated_at": "2026-12-01T12:00:02.500Z",
}
TAKEN = {**JOB, "state": "dispatched", "attempt": 1, "updated_at": "2026-12-01T12:00:00.004Z"}
HISTORY = {
    "operations": [OPERATION],
    "diagnostics": [
        {
            "at": "2026-12-01T12:00:05.000Z",
            "code": "failure",
            "detail": "Failed; due again in 1 s.",
            "attempt": 1,
            "epoch": 1,
            "facts": {},
        }
    ],
    "attempts": [
        {
            "attempt": 1,
            "epoch": 1,
            "claimed_at": "2026-12-01T12:00:00.004Z",
            "worker": "mailer-1",
            "outcome": "retried",
            "ended_at": "2026-12-01T12:00:05.000Z",
        }
    ],
}
FENCED = {
    "type": "/problems/fenced",
    "title": "The claim is no longer the current one",
    "status": 409,
    "detail": f"job {ID} no longer belongs to this claim (reclaimed); it is now scheduled. "
    "Stop working on it; whoever holds the newer claim goes on.",
    "reason": "reclaimed",
    "state": "scheduled",
    "diagnostic": None,
}
