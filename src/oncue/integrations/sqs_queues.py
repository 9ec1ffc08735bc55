"""SQS queues, by their names and URLs, and the oncue queues in which their messages wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.queue import check_queue_name
from oncue.sinks.sqs_address import is_queue_url
from oncue.sinks.sqs_captured import PREFIX, address_of, is_captured

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler


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


def give_sink(scheduler: Scheduler | Client, name: str, url: str, client: Any) -> None:
    """Make an oncue queue the one in which messages for an SQS queue wait. Its other settings
    stay; one that is used for something else is refused."""
    _check_name(name)
    queue, sink = scheduler.queue(name), sink_of(url, client)
    if is_same(queue.sink, sink, client.meta.region_name):
        return
    if queue.sink is not None:
        raise _in_use(name, f"the sink {queue.sink}")
    if _has_other_jobs(scheduler, name):
        raise _in_use(name, "jobs that are no SQS messages")
    settings = {k: v for k, v in asdict(queue).items() if k not in ("name", "paused")}
    scheduler.set_queue(name, **{**settings, "sink": sink})


def _has_other_jobs(scheduler: Scheduler | Client, name: str) -> bool:
    """Whether jobs wait in a queue that has no sink, and the first is no captured message. If it is
    one, the settings of the queue were changed without the sink, or another process has given it
    just now."""
    for job in scheduler.jobs(queue=name, state=State.SCHEDULED):
        return not is_captured(job.payload)
    return False


def _in_use(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"queue {name} of oncue has {why}, so captured messages cannot be kept in it. "
        f"{another(name)}",
        "/queues",
    )


def _check_name(queue: str) -> None:
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
