"""How often a program looks for messages that it is to send."""

from __future__ import annotations

import os

from oncue.core.checks import is_number
from oncue.core.errors import InvalidInput

POLL_SECONDS = 30.0
LONGEST_POLL_SECONDS = 900.0
VARIABLE = "ONCUE_POLL_SECONDS"
STOP_SECONDS = 30.0
"""How long the end of a program waits for what is being sent."""


def poll_interval(seconds: float | None) -> float:
    """How often to look; 0: never. None: as the environment says."""
    place = "/poll_seconds"
    if seconds is None:
        text, place = os.environ.get(VARIABLE, str(POLL_SECONDS)), VARIABLE
        try:
            seconds = float(text)
        except ValueError:
            raise InvalidInput(f"{text!r} is not a number of seconds.", place) from None
    if not is_number(seconds) or not 0 <= seconds <= LONGEST_POLL_SECONDS:
        text = f"must be a number of seconds between 0 and {LONGEST_POLL_SECONDS:g}."
        raise InvalidInput(text, place)
    return seconds
