"""A table of shoryuken-waiter: SQS messages that wait for their time.

All items are in one partition. The index has them by `perform_at`; every few minutes the system
reads those that are due within 15 minutes (the longest delay of SQS), deletes each and sends it
with the rest of the time as its delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import msgspec

from oncue.aws.adoption import Adoptable, id_of
from oncue.aws.others_table import ASIDE, OthersTable, WireItem
from oncue.core import moment
from oncue.core.errors import Conflict, InvalidInput
from oncue.core.job import JobFilter
from oncue.core.moment import Moment
from oncue.core.queue import check_queue_name, default_queue
from oncue.scheduler import Scheduler
from oncue.sinks.sqs_address import SqsAddress
from oncue.sinks.sqs_captured import PREFIX, Attribute, SqsMessage, address_of
from oncue.stores.dynamodb.foreign import plain
from oncue.usecases import intake

PARTITION = "shoryuken-waiter"
WINDOW_MS = 20 * 60_000  # of 15 minutes, and 5 for a clock that is wrong and for a slow page
GROUP = "ShoryukenMessage"  # of all messages of Shoryuken in a FIFO queue
_encode = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode


class WaiterLayout:
    """Implements `oncue.aws.adoption.OthersLayout`. Its jobs are sent to the SQS queues that their
    messages name, by this region and endpoint."""

    system = "shoryuken-waiter"
    keys = ("scheduler", "job_id")

    def __init__(self, region: str | None = None, endpoint: str | None = None) -> None:
        self._options = {"region": region, "endpoint": endpoint}

    def pages(self, table: OthersTable) -> Iterator[list[WireItem]]:
        for value in (ASIDE + PARTITION, PARTITION):
            yield from table.pages("query", **table.partition(value))

    def waits(self, item: WireItem) -> bool:
        return True

    def name_of(self, item: WireItem) -> str:
        return str(item["job_id"]["S"])

    def read(self, item: WireItem, arn: str, now: Moment) -> Adoptable:
        body, due_at = _body(item), _due_at(item)
        queue = body.get("queue_name")
        if not isinstance(queue, str):
            raise InvalidInput("has no queue_name.", "sqs_message_body")
        job_id = id_of("waiter", arn, item)
        fields = {
            "id": job_id,
            "queue": check_queue_name(queue, "sqs_message_body/queue_name"),
            "due_at": moment.render(due_at),
            "payload": _message(body, _attributes(item), queue, job_id),
        }
        SqsAddress.read(self._address(queue))
        return Adoptable(item, intake.new_job(fields, now), due_at)

    def may_have_read(self, due_at: Moment, now: Moment) -> bool:
        """It reads what is due soon, and sends all that it has read."""
        return now <= due_at < now + WINDOW_MS

    def prepare(self, cue: Scheduler, queues: set[str], *, dry_run: bool) -> None:
        """A queue without settings and jobs gets the sink, once all queues are known to be good."""
        known = {queue.name: queue for queue in cue.queues()}
        bare = []
        for name in sorted(queues):
            seen = known.get(name)
            if seen is None or (seen == default_queue(name) and _is_empty(cue, name)):
                bare.append(name)
            elif (found := address_of(seen.sink)) is None or found.queue != name:
                raise Conflict(self._refusal(name, seen.sink))
        for name in [] if dry_run else bare:
            cue.set_queue(name, sink=PREFIX + self._address(name))

    def _address(self, queue: str) -> str:
        options = urlencode({name: one for name, one in self._options.items() if one}, safe=":/")
        return f"sqs://{queue}" + (f"?{options}" if options else "")

    def _refusal(self, name: str, sink: str | None) -> str:
        has = "has jobs or settings, and no sink" if sink is None else f"has the sink {sink}"
        return (
            f"queue {name} {has}, so messages of {self.system} cannot be sent from it. Nothing for "
            "it was taken. If it may be used for them, run this again after: "
            f"oncue queues set {name} --sink '{PREFIX}{self._address(name)}'"
        )


def _is_empty(cue: Scheduler, queue: str) -> bool:
    page = cue.page(JobFilter(queue), None, 1)
    return not page.items and page.next is None


def _body(item: WireItem) -> dict[str, Any]:
    found = item.get("sqs_message_body", {})
    if "M" not in found:
        raise InvalidInput("is missing, or is not a map.", "sqs_message_body")
    try:
        body: dict[str, Any] = plain(found)
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, "sqs_message_body") from None
    return body


def _due_at(item: WireItem) -> Moment:
    found = item.get("perform_at", {})
    if "N" not in found:
        raise InvalidInput("is missing, or is not a number.", "perform_at")
    seconds = Decimal(found["N"])
    if seconds > moment.LATEST // 1000:
        raise InvalidInput("is too far ahead; it is in seconds since 1970.", "perform_at")
    return max(0, math.ceil(seconds * 1000))


def _attributes(item: WireItem) -> dict[str, Attribute]:
    found = item.get("sqs_message_attributes", {"M": {}})
    if found.get("NULL"):
        return {}
    if "M" not in found:
        raise InvalidInput("is not a map.", "sqs_message_attributes")
    return {name: _attribute(name, one.get("M", {})) for name, one in found["M"].items()}


def _attribute(name: str, value: Mapping[str, Any]) -> Attribute:
    kind = value.get("data_type", {}).get("S")
    text = value.get("string_value", {}).get("S")
    binary = value.get("binary_value", {}).get("B")
    known = value.keys() <= {"data_type", "string_value", "binary_value"}
    if not known or not kind or (text is None) == (binary is None):
        raise InvalidInput(
            "must have data_type, and string_value or binary_value.",
            f"sqs_message_attributes/{name}",
        )
    return Attribute(kind, text, binary)


def _message(
    body: dict[str, Any], attributes: dict[str, Attribute], queue: str, job_id: str
) -> SqsMessage:
    message = SqsMessage(_encode(body).decode(), attributes)
    if queue.endswith(".fifo"):  # as Shoryuken sends to one
        message.MessageGroupId, message.MessageDeduplicationId = GROUP, job_id
    return message
