"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from oncue.api.docs.about import Parameter
from oncue.api.docs.samples import NOON
from oncue.wire import formats

KEY_LENGTH = 255
LIMIT, MOST = 50, 500

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "Makes repeating the request harmless: the same key with the same body gives the first answer "
    "again. Remembered for at least a day.",
    Annotated[
        str,
        Meta(
            min_length=1,
            max_length=KEY_LENGTH,
            extra_json_schema={"pattern": "^[!-~]([ -~]*[!-~])?$"},
        ),
    ],
    "order-1001-mail",
    "header",
)
LIMIT_PARAMETER = Parameter(
    "limit",
    f"How many to show; {LIMIT} if left out.",
    Annotated[int, Meta(ge=1, le=MOST)],
    20,
)
CURSOR_PARAMETER = Parameter(
    "cursor",
    "The `next_cursor` of the page before.",
    Annotated[str, Meta(extra_json_schema={"format": "cursor", "pattern": "^[A-Za-z0-9_=-]+$"})],
    "MTc5NjEyNjQwMDAwMC5hYmM",
)
FILTER_PARAMETERS = (
    Parameter("queue", "Only of this queue.", formats.QueueName, "mail"),
    Parameter("state", "Only in this state.", formats.States, "scheduled"),
    Parameter("owner", "Only of this owner.", formats.Label, "ada"),
    Parameter("key", "Only with this key.", formats.Label, "order-1001"),
    Parameter("due_after", "Due at this moment or later.", formats.Moment, NOON),
    Parameter("due_before", "Due before this moment.", formats.Moment, "2026-12-02T00:00:00Z"),
)
