"""SQS queues, by their names and URLs, and the oncue queues in which their messages wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from oncue.core.errors import InvalidInput
from oncue.core.queue import check_queue_name
from oncue.sinks.sqs_address import is_queue_url
from oncue.sinks.sqs_captured import PREFIX, address_of


def opted_in(queues: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """By the name or URL of an SQS queue: the oncue queue of its messages."""
    if isinstance(queues, str):
        raise InvalidInput("must be a list of queues.", "/queues")
    if isinstance(queues, Mapping):
        return {one.rstrip("/"): name for one, name in queues.items()}
    return {one.rstrip("/"): name_of(one) for one in queues}


def name_of(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def sink_of(url: str, client: Any) -> str:
    """The sink that sends captured messages to an SQS queue of this client."""
    if is_queue_url(url):
        return PREFIX + url
    meta = client.meta
    return f"{PREFIX}sqs://{name_of(url)}?region={meta.region_name}&endpoint={meta.endpoint_url}"


def is_same(sink: str | None, other: str, region: str) -> bool:
    """Whether a sink sends captured messages to the same SQS queue as the other one does, which is
    of this region. It may say less: the name and no account, or no region."""
    first, second = address_of(sink), address_of(other)
    if first is None or second is None or first.queue != second.queue:
        return False
    if first.region not in (None, second.region or region):
        return False
    return first.url is None or second.url is None or _path(first.url) == _path(second.url)


def check_name(queue: str) -> None:
    """Refuse a name that SQS takes for a queue and oncue does not."""
    try:
        check_queue_name(queue)
    except InvalidInput as problem:
        raise InvalidInput(f"{problem.detail} {another(queue)}", "/queues") from None


def another(queue: str) -> str:
    """What to do if messages cannot wait in the oncue queue of this name."""
    return f"Give the messages another queue: queues={{{queue!r}: 'another-name'}}."


def _path(url: str) -> str:
    """Account and name. The same queue is known by several hosts."""
    return urlsplit(url).path
