"""Sinks: the adapters that hand jobs to a queue's technology. `open_sink` finds one by its URL, and
`bounds_of` what it takes."""

from __future__ import annotations

from functools import lru_cache

from oncue.clock import SystemClock
from oncue.core.errors import InvalidInput
from oncue.core.text import quoted
from oncue.ports.clock import Clock
from oncue.ports.sink import PayloadBounds, Sink
from oncue.sinks import celery_message, sqs_captured
from oncue.sinks.elsewhere import CELERY, ElsewhereSink
from oncue.sinks.log import LogSink
from oncue.sinks.memory import opened
from oncue.sinks.sqs_address import SqsAddress, is_queue_url
from oncue.sinks.sqs_bounds import SqsBounds
from oncue.sinks.sqs_captured import PREFIX as CAPTURED
from oncue.sinks.stream import PREFIX, StreamSink

__all__ = ["bounds_of", "open_sink"]

MOST_BOUNDS = 1000  # that are kept, with the sizes that their queues were asked for


def open_sink(url: str, clock: Clock | None = None) -> Sink:
    """The sink that a queue's settings name."""
    if url.startswith(PREFIX):
        open_sink(url.removeprefix(PREFIX), clock).close()
        return StreamSink()
    scheme, colon, rest = url.partition(":")
    if scheme == "log" and colon and not rest:
        return LogSink(clock or SystemClock())
    if scheme == "memory" and rest:
        return opened(rest)
    if scheme == "sqs" or is_queue_url(url):
        address = SqsAddress.read(url)  # before the import of what needs boto3
        from oncue.sinks.sqs import SqsSink

        return SqsSink(address, clock or SystemClock())
    if url.startswith(CAPTURED):
        address = SqsAddress.read(url.removeprefix(CAPTURED))
        from oncue.sinks.sqs import SqsSink

        return SqsSink(address, clock or SystemClock(), form=sqs_captured.FORM)
    if url == CELERY:
        return ElsewhereSink()
    raise InvalidInput(
        f"there is no sink for {quoted(url)}; the ones that exist are 'sqs://QUEUE?region=…' (an "
        "SQS queue), 'stream:sqs://…' (the same, sent by way of the stream of a DynamoDB table), "
        "'message:sqs://…' (captured SQS messages), 'celery:' (captured messages of Celery) and "
        "'log:' (one line per job in the log).",
        "/sink",
    )


def bounds_of(url: str) -> PayloadBounds | None:
    """What the sink of a URL takes; None: everything."""
    if url.startswith(CAPTURED):
        return sqs_captured.MESSAGES
    if url == CELERY:
        return celery_message.MESSAGES
    url = url.removeprefix(PREFIX)
    if not (url.startswith("sqs:") or is_queue_url(url)):
        return None
    return _bounds(url)


@lru_cache(MOST_BOUNDS)
def _bounds(url: str) -> SqsBounds:
    return SqsBounds(SqsAddress.read(url), SystemClock())
