"""What the result backend is told of a captured task that is revoked: what a worker would tell."""

from __future__ import annotations

import logging
from typing import Any

from celery.app.task import Context
from kombu.compression import decompress
from kombu.serialization import loads, prepare_accept_content

from oncue.sinks.celery_message import CeleryMessage

REASON = "revoked"

logger = logging.getLogger("oncue.celery")


def mark_as_revoked(app: Any, task_id: str, message: CeleryMessage) -> None:
    """The chord of which the task is a part is told as well; it would wait for ever."""
    kept = not message.headers.get("ignore_result")
    app.backend.mark_as_revoked(task_id, REASON, request=_request(app, message), store_result=kept)


def _request(app: Any, message: CeleryMessage) -> Any:
    """The task as the result backend knows it: some send the result to whoever waits for it."""
    properties = {name: message.properties.get(name) for name in ("correlation_id", "reply_to")}
    return Context(message.headers, **properties, chord=_chord(app, message))


def _chord(app: Any, message: CeleryMessage) -> Any:
    """None: it has none. That stands in the body, which is read only here, only for tasks of a
    group, and only if the application accepts its serializer."""
    if message.headers.get("group") is None:
        return None
    try:
        return _body(app, message)[2].get("chord")
    except Exception as error:  # of whatever serializer
        text = "the chord of a revoked task is not told, its message cannot be read: %s"
        logger.warning(text, type(error).__name__)
        return None


def _body(app: Any, message: CeleryMessage) -> Any:
    data, method = message.body, message.headers.get("compression")
    accept = prepare_accept_content(app.conf.accept_content)
    return loads(
        decompress(data, method) if method else data,
        message.content_type,
        message.content_encoding,
        accept=accept,
    )
