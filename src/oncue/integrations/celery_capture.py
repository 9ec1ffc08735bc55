"""How a message of Celery is captured: Celery makes it and sends it to a producer that keeps it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.sinks.celery_message import CeleryMessage

OF_THE_CALL = ("retry", "retry_policy", "timeout", "confirm_timeout")
"""Options that tell how a producer is to behave, and are no part of a message."""

logger = logging.getLogger("oncue.celery")


class Due(NamedTuple):
    """When a task is to run."""

    at: Moment
    eta: str
    """The same as it stands in the message."""


class CapturingProducer:
    """Stands in for a producer of kombu during one call of `send_task`. The message of the task is
    made as the other one makes it, and given to `store`; everything else is done by the other."""

    def __init__(
        self,
        producer: Any,
        due: Due,
        knows_queue: Callable[[Any], bool],
        store: Callable[[CeleryMessage, Due], None],
    ) -> None:
        """`knows_queue`: whether a queue can be declared later, by its name alone."""
        self._producer, self._due = producer, due
        self._knows_queue, self._store = knows_queue, store
        self._stored = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def put_back_eta(self, message: Any) -> None:
        """Celery made the message without it, because it would choose another way to the queue
        (`x-delay` exchanges of RabbitMQ) for one that has to wait."""
        of_protocol_1 = isinstance(message.body, dict)
        (message.body if of_protocol_1 else message.headers)["eta"] = self._due.eta
        if message.sent_event:
            message.sent_event["eta"] = self._due.eta

    def publish(self, body: Any, **options: Any) -> None:
        """Store the message of the task. What is published after it is an event for monitors."""
        if self._stored:
            self._publish_event(body, options)
            return
        for name in OF_THE_CALL:
            options.pop(name, None)
        self._store(self._message(body, **options), self._due)
        self._stored = True

    def _message(
        self,
        body: Any,
        *,
        exchange: Any = None,
        routing_key: str | None = None,
        serializer: str | None = None,
        compression: str | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        declare: Any = None,
        **properties: Any,
    ) -> CeleryMessage:
        """As `Producer.publish` of kombu makes it of the same arguments."""
        producer, headers = self._producer, headers or {}
        data, content_type, content_encoding = producer._prepare(
            *(body, serializer, content_type, content_encoding),
            producer.compression if compression is None else compression,
            headers,
        )
        exchange = producer.exchange if exchange is None else exchange
        if not isinstance(exchange, str):
            properties["delivery_mode"] = properties.get("delivery_mode") or exchange.delivery_mode
            exchange = exchange.name
        headers, properties = _exact(headers, "/headers"), _exact(properties, "/properties")
        return CeleryMessage(
            _as_bytes(data, content_encoding),
            content_type or "",
            content_encoding or "",
            exchange,
            routing_key or "",
            headers,
            properties,
            self._names(declare or []),
        )

    def _names(self, entities: list[Any]) -> list[str]:
        """Of the queues that are to be declared later. Others, which the configuration does not
        have, are declared now, as they would be without a capture."""
        known = [one for one in entities if self._knows_queue(one)]
        for entity in entities:
            if entity not in known:
                self._producer.maybe_declare(entity)
        return [queue.name for queue in known]

    def _publish_event(self, body: Any, options: Mapping[str, Any]) -> None:
        """The task is stored, so a broker that is down is no reason to tell the caller that it is
        not."""
        try:
            self._producer.publish(body, **options)
        except Exception as error:
            logger.warning("no event tells of a captured task: %s", type(error).__name__)


class TaskSender:
    """In the place of `app.amqp.send_task_message`, which it calls."""

    def __init__(self, sender: Callable[..., Any]) -> None:
        self._sender = sender

    def __call__(self, producer: Any, name: str, message: Any, *args: Any, **options: Any) -> Any:
        if isinstance(producer, CapturingProducer):
            producer.put_back_eta(message)
        return self._sender(producer, name, message, *args, **options)


def _as_bytes(data: Any, encoding: str | None) -> bytes:
    """What a broker is given of it."""
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode(encoding or "utf-8")
    except LookupError:  # it names no character set, such as "binary"
        return data.encode()


def _exact(value: Any, pointer: str) -> Any:
    """The value, if reading it from JSON gives the same. Lists and tuples are the same to
    brokers."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [_exact(inner, f"{pointer}/{place}") for place, inner in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _exact(inner, f"{pointer}/{name}") for name, inner in value.items()}
    raise InvalidInput(
        f"{type(value).__name__} cannot be kept in JSON as it is; a message that has to wait takes "
        "text, numbers, booleans, None, lists, and dicts with text keys.",
        pointer,
    )
