"""The log of the program: lines for people, or lines of JSON for machines.

Lines that concern a job carry its id as the field `job_id`, those of a queue `queue`. What is in a
job, tokens, and the text of what a handler or a sink raised are never logged.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any, TextIO

TEXT = "%(asctime)s %(levelname)s %(message)s"

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, format: str, stream: TextIO | None = None) -> None:
    """Log from `level` on, as `text` or `json`, to a stream (default: standard error). A process
    whose log was set up already keeps it as it is."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    if level != "DEBUG":  # it has a line for each connection that breaks; calls say what happened
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)


class JsonFormatter(logging.Formatter):
    """One object a line: `at`, `level`, `logger`, `message`, then whatever was given as `extra`,
    then `trace` if something was raised. Plain ASCII, so that no encoding can spoil it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _USUAL:
                line.setdefault(name, _plain(value))
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _plain(value: object) -> str | int | float | bool | None:
    """The value if JSON can say it in one word, else its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)
