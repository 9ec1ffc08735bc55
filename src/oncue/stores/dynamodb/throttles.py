"""How often the service gave less than it was asked for."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("oncue.store")


class Throttles:
    """Counts the requests of this process that were throttled, or done in part. To be called from
    any thread."""

    def __init__(self, table: str) -> None:
        self.count = 0
        self._table = table
        self._lock = threading.Lock()

    def note(self, throttled: bool) -> None:
        """The log tells of the first, the second, the fourth, the eighth …"""
        if not throttled:
            return
        with self._lock:
            self.count += 1
            count = self.count
        if count & (count - 1) == 0:
            text = "DynamoDB table %s: %d requests throttled since the start; see 'oncue doctor'"
            logger.warning(text, self._table, count)
